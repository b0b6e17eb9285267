"""`dealer-agent leads quarantined`, `release`, `refuse` and `mark`: what people decide about leads."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dealer_agent.cli.command import newest, wrong_use
from dealer_agent.cli.customer_data import LeadIdArgument, actor, record_access
from dealer_agent.cli.tables import Table
from dealer_agent.cli.terminal import Cell, counted, err, fail, limited, out, pasted, plain, progress
from dealer_agent.correctable import NotPossible
from dealer_agent.encryption.errors import EncryptionError
from dealer_agent.leads.consent_events import ERASED
from dealer_agent.leads.statuses import Mark
from dealer_agent.open_installation import OpenDealer
from dealer_agent.operations.lead_documents import name_of, review_words
from dealer_agent.protocol.did_you_mean import did_you_mean
from dealer_agent.storage.leads.lead_summaries import summaries_of
from dealer_agent.storage.leads.outcomes import set_mark
from dealer_agent.storage.leads.quarantine import (
    count_waiting,
    find_waiting,
    list_waiting,
    read_review,
    waiting_by_caller,
)
from dealer_agent.storage.privacy.accesses import log_access

if TYPE_CHECKING:
    from dealer_agent.lead_intake.decisions import DecidedLead, Decisions

ANONYMOUS = "anonymous"
FOUND_AT_ONCE = 200
FIRST = datetime(1970, 1, 1, tzinfo=UTC)

LeadsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="LEAD...", help="The ids, from `leads quarantined`.", show_default=False),
]
AgentOption = Annotated[
    str | None,
    typer.Option(
        "--agent", metavar="IDENTITY", help="All waiting leads of this agent; `anonymous` are those of unknown senders."
    ),
]


def _caller_of(dealer: OpenDealer, agent: str) -> str | None:
    """The `caller` of leads that a person named. Ends the command if no lead of it waits."""
    caller = None if agent == ANONYMOUS else agent
    with dealer.read() as tx:
        agents = [each.caller or ANONYMOUS for each in waiting_by_caller(tx)]
    if agent not in agents:
        fail(f"No lead of {plain(agent)} waits{did_you_mean(agent, agents)}")
    return caller


def quarantined(
    dealer: OpenDealer,
    agent: AgentOption = None,
    limit: Annotated[int, newest(1000)] = 50,
) -> Table:
    """List the leads that wait in quarantine, the longest waiting first. Nobody gets them until you release them."""
    chosen = () if agent is None else (_caller_of(dealer, agent),)
    rows: list[tuple[Cell, ...]] = []
    with dealer.read() as tx:
        leads = list_waiting(tx, limit + 1, of_caller=chosen)
        summaries = summaries_of(tx, [lead.lead_id for lead in leads])
        for lead in limited(leads, limit, "give a higher --limit, or choose an agent with --agent"):
            name = ERASED if lead.customer is None else name_of(lead.customer)
            since = dealer.local(lead.quarantined_at, lead.rooftop)
            vehicle, visit = lead.stock or lead.vin, summaries[lead.lead_id].visit
            rows.append((lead.lead_id, since, name, vehicle, lead.source_agent, lead.caller or ANONYMOUS, visit))
    record_access(dealer, "leads quarantined", leads=len(rows))
    columns = ("Id", "Waits Since", "Customer", "Vehicle", "Agent", "Sender", "Visit")
    notes = ["dealer-agent leads release LEAD or dealer-agent leads refuse LEAD decides about one."] if rows else []
    return Table("Leads in quarantine", columns, rows, empty="No lead waits in quarantine.", notes=notes)


def release(dealer: OpenDealer, lead_ids: LeadsArgument = None, agent: AgentOption = None) -> dict[str, Any]:
    """Release leads from quarantine: CRM, staff and customer get what they would have got when the lead came.

    If the command is stopped, type it again: the leads that it has released stay so.
    """
    decided, others = _decide(dealer, lead_ids, agent, "leads release", lambda decisions, each: decisions.release(each))
    sent = sum(each.deliveries for each in decided)
    passed = [(each.lead_id, visit) for each in decided for visit in each.passed]
    messages = f"{sent:,} {'delivery' if sent == 1 else 'deliveries'}"
    out.print(f"{counted(len(decided), 'lead')} released. The service sends {messages}.")
    for lead_id, visit in passed:
        out.print(
            f"The time of visit {visit.appointment_id} passed while lead {lead_id} waited. Agree on another time with "
            f"the customer, then type: {pasted('dealer-agent appointments confirm')} {visit.appointment_id} --at TIME"
        )
    return {
        "released": [each.lead_id for each in decided],
        "not_waiting": others,
        "deliveries": sent,
        "visits_to_arrange": [visit.appointment_id for _, visit in passed],
    }


def refuse(
    dealer: OpenDealer,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="The reason. `leads show` and the access log show it.")
    ],
    lead_ids: LeadsArgument = None,
    agent: AgentOption = None,
) -> dict[str, Any]:
    """Refuse leads in quarantine for good: their visits are cancelled, and nobody is notified. This cannot be undone.

    A refused lead stays in the database until its disposal by age, as a proof. Of a lead that staff had before it
    waited, only what came since then is refused.
    """
    why = _reason(reason)
    decided, others = _decide(
        dealer, lead_ids, agent, f"leads refuse --reason {why}", lambda decisions, each: decisions.refuse(each, why)
    )
    cancelled = [visit.appointment_id for each in decided for visit in each.cancelled]
    out.print(f"{counted(len(decided), 'lead')} refused, {counted(len(cancelled), 'visit')} cancelled.")
    for each in decided:
        if each.was_known:
            out.print(
                f"Staff had lead {each.lead_id} before it waited. It is again as it was then, but its sender may have "
                f"changed its visit: see {pasted('dealer-agent leads show')} {each.lead_id}"
            )
    return {"refused": [each.lead_id for each in decided], "not_waiting": others, "cancelled_visits": cancelled}


def _reason(text: str) -> str:
    """Checks the text of `--reason`. Raises BadParameter."""
    # Imported here, as in `_decide`.
    from dealer_agent.lead_intake.decisions import reason_of

    with wrong_use("--reason", NotPossible):
        return reason_of(text)


def _decide(
    dealer: OpenDealer,
    lead_ids: list[str] | None,
    agent: str | None,
    action: str,
    decide: "Callable[[Decisions, str], DecidedLead | None]",
) -> "tuple[list[DecidedLead], list[str]]":
    """Decides about each lead in a transaction of its own, with its entry in the access log.

    Returns what was decided, and the leads that did not wait any more. A lead that cannot be read is left out with a
    message. The command ends with exit code 1 if nothing could be decided because of such leads.
    """
    # Imported here: the commands that only read need none of it.
    from dealer_agent.lead_intake.decisions import Decisions
    from dealer_agent.leads.timetable import Timetable
    from dealer_agent.visits.notifications import IntakeContext

    chosen, total = _chosen(dealer, lead_ids, agent)
    context = IntakeContext(dealer.profile, Timetable(dealer.profile), dealer.settings.mail.confirms_visits)
    decided, others, unreadable = [], [], []
    with progress() as bar:
        for lead_id in bar.track(chosen, total=total, description="Deciding"):
            try:
                with dealer.lock() as tx:
                    done = decide(Decisions(tx, context, actor()), lead_id)
                    if done is not None:
                        log_access(tx, actor(), action, lead_id=lead_id, leads=1)
            except EncryptionError as problem:
                unreadable.append(f"{lead_id}: {problem}")
                continue
            if done is not None:
                decided.append(done)
            else:
                others.append(lead_id)
    for lead_id in others:
        with dealer.read() as tx:
            review = read_review(tx, lead_id)
        out.print(f"Lead {lead_id} does not wait. {plain(review_words(dealer, review))}".rstrip())
    for each in unreadable:
        err.print(f"Nothing was decided about lead {plain(each)}")
    if unreadable and not decided:
        raise typer.Exit(1)
    return decided, others


def _chosen(dealer: OpenDealer, lead_ids: list[str] | None, agent: str | None) -> tuple[Iterator[str], int]:
    """The ids of the leads that the arguments name, each once, and their number. Raises BadParameter."""
    if (agent is None) == (not lead_ids):
        raise typer.BadParameter("name leads, or all leads of an agent with --agent")
    if agent is None:
        distinct = list(dict.fromkeys(lead_ids or ()))
        return iter(_require_leads(dealer, distinct)), len(distinct)
    caller = _caller_of(dealer, agent)
    with dealer.read() as tx:
        total = count_waiting(tx, caller)
    return _waiting(dealer, caller), total


def _require_leads(dealer: OpenDealer, lead_ids: list[str]) -> list[str]:
    """Returns the ids. Ends the command, before anything is decided, if one is not that of a lead."""
    with dealer.read() as tx:
        unknown = [each for each in lead_ids if read_review(tx, each) is None]
    if unknown:
        fail(f"There is no lead {plain(unknown[0])}; see dealer-agent leads quarantined")
    return lead_ids


def _waiting(dealer: OpenDealer, caller: str | None) -> Iterator[str]:
    """The waiting leads of a caller, also those that come meanwhile, each once."""
    after = FIRST, ""
    while True:
        with dealer.read() as tx:
            waiting = find_waiting(tx, caller, after, FOUND_AT_ONCE)
        for lead_id, since in waiting:
            after = since, lead_id
            yield lead_id
        if len(waiting) < FOUND_AT_ONCE:
            return


def mark(
    dealer: OpenDealer,
    lead_id: LeadIdArgument,
    mark_: Annotated[Mark, typer.Argument(metavar="reached|wrong|spam|sold", help="What became of the lead.")],
) -> dict[str, Any]:
    """Mark what became of a lead: the customer was reached or bought, the data was wrong, or it was spam.

    Another mark replaces the first. `agents list` counts the marks of each agent.
    """
    with dealer.lock() as tx:
        if not set_mark(tx, lead_id, mark_, by=actor()):
            fail(f"There is no lead {plain(lead_id)}; see dealer-agent leads list")
        log_access(tx, actor(), f"leads mark {mark_}", lead_id=lead_id, leads=1)
    out.print(f"Lead {lead_id} is marked: {mark_}.")
    return {"id": lead_id, "mark": mark_, "marked": dealer.local(tx.now), "by": actor()}
