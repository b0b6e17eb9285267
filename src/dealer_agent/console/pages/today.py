"""The first page of a dealer: what waits for a person, new leads, visits of the day, and holds."""

from datetime import timedelta
from typing import NamedTuple

from starlette.responses import Response

from dealer_agent.alerts.observing import observe_dealer
from dealer_agent.alerts.texts import sentence_of
from dealer_agent.console.acts import Act
from dealer_agent.console.pages import lead_rows, visits
from dealer_agent.console.requests import ConsoleRequest
from dealer_agent.storage.alerts import AlertState, read_alerts, read_check
from dealer_agent.storage.leads.lead_search import LeadFilter, count_unmarked, find_leads
from dealer_agent.storage.leads.quarantine import waiting_by_caller
from dealer_agent.storage.leads.visits import list_timed, list_waiting
from dealer_agent.storage.offers import count_open_holds
from dealer_agent.storage.stock.held_units import count_held
from dealer_agent.storage.transaction import Transaction

DAYS = 7
"""Leads that came earlier are not called new any more."""
SHOWN = 10
"""The most rows of each section."""
SHOWN_VISITS = 25
"""The list of the day has all."""


class Need(NamedTuple):
    """Something that needs a person: a sentence, and the page to act on it, if the person may open it."""

    sentence: str
    label: str
    path: str | None


def show(request: ConsoleRequest) -> Response:
    """The page. Names of customers are masked."""
    rooftops = lead_rows.rooftops_of(request)
    today = request.dealer.local(request.now).date()
    start, end = request.dealer.start_of(today), request.dealer.start_of(today + timedelta(days=1))
    since = request.dealer.start_of(today - timedelta(days=DAYS - 1))
    unmarked = LeadFilter(since=since, mark="none", rooftops=rooftops)
    undeliverable = LeadFilter(state="undeliverable", rooftops=rooftops)
    sees_visits = request.may(Act.SEE_VISITS)
    with request.dealer.read(request.now) as tx:
        new = [lead for lead in find_leads(tx, unmarked, SHOWN + 1).leads if lead.erased_at is None]
        return request.page(
            "today.html",
            needs=_needs(request, tx),
            new=lead_rows.rows_of(request, tx, new[:SHOWN]),
            new_count=count_unmarked(tx, since, rooftops),
            undeliverable=lead_rows.rows_of(request, tx, find_leads(tx, undeliverable, SHOWN).leads),
            today=today,
            visits=visits.rows_of(request, list_timed(tx, start, end, rooftops=rooftops, most=SHOWN_VISITS))
            if sees_visits
            else [],
            visits_without_time=visits.rows_of(
                request, list_waiting(tx, tx.now - visits.WAITING_SINCE, rooftops=rooftops, most=SHOWN)
            )
            if sees_visits
            else [],
            holds=count_open_holds(tx),
            days=DAYS,
        )


def _needs(request: ConsoleRequest, tx: Transaction) -> list[Need]:
    """The alert conditions that hold now, the other open alerts, held units, and leads in quarantine."""
    settings, zone = request.dealer.settings, request.dealer.profile.timezone
    seen = observe_dealer(tx, settings.alerts, read_check(tx), settings.folder)
    states = [
        AlertState(condition, started_at=tx.now, **observation._asdict())
        for condition, observations in seen.items()
        for observation in observations
    ]
    states += [each for each in read_alerts(tx) if each.is_open and each.condition not in (*seen, "leads_quarantined")]
    needs = [Need(sentence_of(each, zone), *_action_on(request, each.condition)) for each in states]
    if (held := count_held(tx)) and request.may(Act.SEE_STOCK):
        words = "1 unit is held back" if held == 1 else f"{held:,} units are held back"
        needs.append(
            Need(f"{words}: the feed says something implausible.", "Look at them", request.url("stock", "held"))
        )
    if request.may(Act.DECIDE_QUARANTINE) and (waiting := sum(each.number for each in waiting_by_caller(tx))):
        words = "1 lead waits" if waiting == 1 else f"{waiting:,} leads wait"
        path = request.url("leads", state="quarantine")
        needs.append(Need(f"{words} in quarantine: nobody gets them until somebody decides.", "Decide", path))
    return needs


def _action_on(request: ConsoleRequest, condition: str) -> tuple[str, str | None]:
    """The label of the link to the page where a person acts on a condition, and its path."""
    if condition.startswith("feed_"):
        return "Look at the feeds", request.url("stock", "feeds") if request.may(Act.SEE_STOCK) else None
    if condition.startswith("deliveries_"):
        state = "undeliverable" if condition == "deliveries_undeliverable" else "waiting"
        return "See the leads", request.url("leads", state=state)
    if condition.startswith("agent_"):
        return "Look at the agents", request.url("agents") if request.may(Act.SEE_AGENTS) else None
    return "See the health", request.url("health") if request.may(Act.SEE_HEALTH) else None
