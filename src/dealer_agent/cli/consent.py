"""`dealer-agent consent`: the consent of customers, its proof, and the check of the consent record."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from dealer_agent.cli.command import command, wrong_use
from dealer_agent.cli.customer_data import (
    PRIVATE_FILE,
    EmailOption,
    LeadArgument,
    LeadIdArgument,
    PhoneOption,
    actor,
    contact_point,
    person_of,
    read_lead,
    record_access,
    require_leads,
    show_event,
)
from dealer_agent.cli.open_dealer import CUSTOMERS, DEALER, FOLDER, DealerFolder, open_dealer
from dealer_agent.cli.tables import Table
from dealer_agent.cli.terminal import counted, fail, local, out
from dealer_agent.encryption.private_files import replaced_file
from dealer_agent.leads.consent import channels_of
from dealer_agent.open_installation import OpenDealer
from dealer_agent.operations.lead_documents import allowed_text, event_document
from dealer_agent.privacy.erasure import holds_customer_data, leads_of_contact, revoke_consent
from dealer_agent.protocol.requests import Channel
from dealer_agent.storage.deliveries.notices import restore_from_chain
from dealer_agent.storage.privacy.accesses import verify_accesses
from dealer_agent.storage.privacy.consent_evidence import MOST_LINE_BYTES, BadEvidence, check_evidence, evidence_of
from dealer_agent.storage.privacy.consents import verify_chain
from dealer_agent.storage.privacy.erasure import proven_events
from dealer_agent.storage.privacy.event_chain import Head, by_chain, heads
from dealer_agent.storage.privacy.withdrawals import NO_DIFFERENCES, RESTORE_COMMAND, compare_withdrawals
from dealer_agent.storage.transaction import Transaction

app = typer.Typer(no_args_is_help=True)


_AFTER_DAMAGE = "Keep a copy of the database, and compare it with your backups"
CHANNELS: tuple[Channel, ...] = get_args(Channel)


# Typer supports lists of plain types only.
def _known_channels(names: list[str] | None) -> list[str] | None:
    for name in names or ():
        if name not in CHANNELS:
            raise typer.BadParameter(f"{name!r} is not one of {', '.join(CHANNELS)}")
    return names


@command(app, "show", CUSTOMERS)
def show(dealer: OpenDealer, lead_id: LeadIdArgument) -> dict[str, Any]:
    """Show every consent event of a lead, and by which channels the customer may be contacted now."""
    lead = read_lead(dealer, lead_id, "consent show")
    clock = dealer.clock(lead.stored.lead.rooftop)
    allowed = channels_of(lead.stored, lead.at)
    for event in lead.stored.consents:
        show_event(event, clock)
    out.print(f"\nMay be contacted now by: {allowed_text(allowed)}")
    events = [event_document(event, clock) for event in lead.stored.consents]
    return {"lead": lead_id, "events": events, "may_be_contacted_by": allowed}


@command(app, "revoke", CUSTOMERS)
def revoke(
    dealer: OpenDealer,
    lead_id: LeadArgument = None,
    email: EmailOption = None,
    phone: PhoneOption = None,
    channels: Annotated[
        list[str] | None,
        typer.Option(
            "--channel",
            metavar="|".join(CHANNELS),
            callback=_known_channels,
            help="A channel to revoke. Repeat it for several channels. Without it, all are revoked.",
        ),
    ] = None,
    reason: Annotated[str | None, typer.Option(help="The reason, in your words. It is stored encrypted.")] = None,
) -> dict[str, Any]:
    """Record that a customer withdrew consent. Name the customer by a lead, an e-mail address or a phone number.

    It applies to every lead with one of the customer's contact points. From then on the service sends the customer
    nothing through that channel. The running service notifies CRMs and staff that have the leads. A consent that the
    customer gives later allows the channel again.
    """
    person = person_of(lead_id, email, phone)
    revoked = tuple(dict.fromkeys(channels or CHANNELS))
    with dealer.read() as tx:
        leads = require_leads(person, person.leads(tx))
    lead_ids = [stored.lead.lead_id for stored in leads if holds_customer_data(stored)]
    if not lead_ids:
        fail("This customer's data was erased, so there is no consent to revoke. You need do nothing")
    record_access(dealer, "consent revoke", leads=len(lead_ids), lead_id=lead_ids[0] if len(lead_ids) == 1 else None)
    at = datetime.now(UTC)
    allowed = revoke_consent(dealer.store, dealer.profile, lead_ids, revoked, by=actor(), reason=reason, at=at)
    rows = [(each, allowed_text(still)) for each, still in allowed.items()]
    Table(f"Revoked: {', '.join(revoked)}", ("Lead Id", "May still be contacted by"), rows).show()
    changed = [{"lead": each, "may_be_contacted_by": still} for each, still in allowed.items()]
    return {"revoked": revoked, "leads": changed}


ContactArgument = Annotated[
    str,
    typer.Argument(
        metavar="CONTACT",
        callback=contact_point,
        help="An e-mail address or a phone number. With - the command asks for it, so that no command history has it.",
    ),
]


@command(app, "prove", CUSTOMERS)
def prove(dealer: OpenDealer, contact: ContactArgument) -> list[dict[str, Any]]:
    """Show what a person consented to and withdrew, also for erased leads.

    The law requires you to keep this (16 CFR 310.5). The access log names everyone who uses this command.
    """
    with dealer.read() as tx:
        lead_ids = _leads(tx, contact)
        events = proven_events(tx, lead_ids)
    record_access(dealer, "consent prove", leads=len(lead_ids))
    for event in events:
        show_event(event, dealer.local)
    return [event_document(event, dealer.local) for event in events]


@command(app, "export", CUSTOMERS)
def export(dealer: OpenDealer, contact: ContactArgument, file: Annotated[Path, PRIVATE_FILE]) -> dict[str, Any]:
    """Write a person's consent record with its proof to a file. `consent verify FILE` checks this file.

    The file is not encrypted. It also has the events of other leads, which name nobody. They connect the record with
    the head of the chain, and show that no event of the person's leads is left out.
    """
    with dealer.read() as tx:
        lead_ids = _leads(tx, contact)
    record_access(dealer, "consent export", leads=len(lead_ids))
    with dealer.read() as tx, replaced_file(file) as opened:
        evidence = evidence_of(tx, lead_ids)
        for line in evidence.lines:
            opened.write(line + b"\n")
    out.print(f"Written to {file}. The chain's head is now:\n{evidence.head}")
    return {"file": str(file), "leads": len(lead_ids), "head": str(evidence.head)}


def _leads(tx: Transaction, contact: str) -> list[str]:
    """The leads of a contact point, erased ones too. Ends the command with exit code 1 if there is none."""
    lead_ids = leads_of_contact(tx, contact)
    if not lead_ids:
        fail("No consent is kept for this contact point: check the address or number")
    return lead_ids


@command(app, "verify", FOLDER)
def verify(
    folder: DealerFolder,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A file of `consent export`. It needs no database and no key.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="FILE-OR-HEAD", help="A file of recorded heads, or one head of `consent head`."),
    ] = None,
    restore: Annotated[
        bool,
        typer.Option(
            "--restore-withdrawals",
            help="Write the table of withdrawals again from the consent record, if the record is whole.",
        ),
    ] = False,
) -> dict[str, Any]:
    """Check that nobody changed, removed or added consent events or entries of the access log in the database.

    If somebody did, it names the first broken event or entry and ends with exit code 1. It finds that the newest events
    were removed, or that an older copy of the database was put back, only with --against. It also compares the table
    of withdrawals, which decides about later leads, with the consent record.
    """
    recorded = None if against is None else _read_recorded_heads(against)
    if file is not None and restore:
        raise typer.BadParameter(
            "compares the database, and not a FILE: leave out one of the two", param_hint="--restore-withdrawals"
        )
    if file is not None:
        return _verify_file(file, recorded)
    with open_dealer(folder, customers=True) as dealer:
        with dealer.read() as tx:
            heads_by_chain = _of_dealer(recorded, tx.dealer_id)
            report = verify_chain(tx, heads_by_chain["consents"])
            log = verify_accesses(tx, heads_by_chain["accesses"])
            differences = compare_withdrawals(tx) if report.first_broken is None else NO_DIFFERENCES
        if report.first_broken is not None:
            fail(f"The consent record is broken at event {report.first_broken}: {report.problem}. {_AFTER_DAMAGE}")
        if log.first_broken is not None:
            fail(f"The access log is broken at entry {log.first_broken}: {log.problem}. {_AFTER_DAMAGE}")
        if differences.words is not None and not restore:
            fail(f"The events of the consent record are unchanged, but {differences.words}: type {RESTORE_COMMAND}")
        if differences.words is not None:
            _restore_withdrawals(dealer)
    erased = f", {report.erased} of them of erased persons" if report.erased else ""
    out.print(f"The consent record is whole: {counted(report.rows, 'event')}{erased}.")
    deleted = f"; the first {log.erased:,} were deleted by age" if log.erased else ""
    entries = f"{log.rows:,} {'entry' if log.rows == 1 else 'entries'}"
    out.print(f"The access log is whole: {entries}{deleted}.")
    newest = max((dealer.local(each.at) for each in recorded or () if each.dealer_id == tx.dealer_id), default=None)
    if newest is not None:
        out.print(f"Both agree with the recorded heads; the newest head is from {local(newest)}.")
    events = {"events": report.rows, "erased": report.erased}
    accesses = {"entries": log.rows, "deleted": log.erased}
    return {"consents": events, "accesses": accesses, "newest_recorded_head": newest}


@command(app, "head", DEALER)
def head(dealer: OpenDealer) -> list[dict[str, Any]]:
    """Print the heads of the consent record and of the access log, and add them to the file of heads.

    Keep the output where a person who can change the database cannot change it. `consent verify --against` reads it.
    """
    # Imported here: the module has a log, which commands rarely need.
    from dealer_agent.privacy.chain_heads import append_heads

    with dealer.read() as tx:
        ends = heads(tx)
    append_heads(dealer.settings.heads_file, ends, tx.now)
    for end in ends:
        out.print(str(end))
    return [{"chain": end.chain, "rows": end.rows, "at": dealer.local(end.at), "head": str(end)} for end in ends]


def _restore_withdrawals(dealer: OpenDealer) -> None:
    """Writes the table of withdrawals again from the consent record, which the caller has verified, and says so.

    The withdrawals also apply to the leads that came while rows of the table were missing.
    """
    _, changed = restore_from_chain(dealer.store, dealer.profile, datetime.now(UTC))
    out.print(
        "The table of withdrawals was written again from the consent record. It was applied to "
        f"{counted(changed, 'lead')} that came meanwhile."
    )


def _read_recorded_heads(against: str) -> list[Head]:
    """The heads of `--against`: those of a file, or the one that is written there. Raises BadParameter."""
    # Imported here, as above.
    from dealer_agent.privacy.chain_heads import read_heads

    path = Path(against)
    with wrong_use("--against", (ValueError, OSError)):
        if " " not in against or path.exists():
            return list(read_heads(path))
        return [Head.parse(against)]


def _of_dealer(recorded: list[Head] | None, dealer_id: str) -> Mapping[str, Mapping[int, bytes]]:
    """The hashes of the recorded heads by chain. Ends the command if they contradict each other."""
    if recorded is not None and not any(each.dealer_id == dealer_id for each in recorded):
        raise typer.BadParameter(
            f"holds no head of the dealer {dealer_id}; give one of this dealer", param_hint="--against"
        )
    try:
        return by_chain(recorded or (), dealer_id)
    except ValueError as problem:
        fail(str(problem))


def _verify_file(file: Path, recorded: list[Head] | None) -> dict[str, Any]:
    """Checks an exported record, also against recorded heads if there are any, and shows its events."""
    try:
        evidence = check_evidence(_lines(file), recorded or ())
    except BadEvidence as problem:
        fail(f"{file} is not a valid consent record: {problem}. Export the record again")
    if recorded is not None and not evidence.compared:
        fail(
            f"{file} cannot be compared: no recorded head of the dealer {evidence.dealer_id} counts "
            "the events of the file. Export the record again: it then reaches the newest head"
        )
    # A file does not say in which zone its dealer is.
    for event in evidence.events:
        show_event(event, _in_utc)
    out.print(
        f"\nThe record is valid. Each text is the one that was recorded. "
        f"{counted(evidence.head.rows, 'event')} without a gap lead to this head:\n{evidence.head}"
    )
    out.print(
        "It does not prove that the head is genuine: repeat the command with --against and a head that was recorded "
        "outside the database."
        if recorded is None
        else "It agrees with a recorded head: nobody changed these events after that head was recorded."
    )
    out.print(
        "It does not prove that the agent told the truth, because the dealer recorded what it received. It does not "
        "prove that the person has no other leads."
    )
    events = [event_document(event, _in_utc) for event in evidence.events]
    agrees = {"agrees_with_a_recorded_head": bool(recorded)}
    return {"chain_events": evidence.head.rows, "head": str(evidence.head), **agrees, "events": events}


def _in_utc(at: datetime | None) -> datetime | None:
    return None if at is None else at.astimezone(UTC)


def _lines(file: Path) -> Iterator[bytes]:
    with file.open("rb") as opened:
        while line := opened.readline(MOST_LINE_BYTES + 2):
            yield line
