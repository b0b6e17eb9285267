"""Shared by commands that show customer data: the access log and its command, the choice of a person, private files."""

import os
import pwd
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from dealer_agent.cli.command import command, newest
from dealer_agent.cli.open_dealer import DEALER
from dealer_agent.cli.tables import Table
from dealer_agent.cli.terminal import fail, limited, local, moment, section
from dealer_agent.leads.consent_events import ConsentEvent
from dealer_agent.leads.received_lead import EMAIL_PREFIX, PHONE_PREFIX
from dealer_agent.leads.records import LeadDetails, StoredLead
from dealer_agent.open_installation import OpenDealer
from dealer_agent.operations.lead_documents import Clock, event_document, name_and_contacts
from dealer_agent.privacy.erasure import CustomerReference
from dealer_agent.protocol.formats import normal_email, normal_phone
from dealer_agent.storage.errors import StorageError
from dealer_agent.storage.leads.lead_record import lead_details
from dealer_agent.storage.leads.lead_search import EARLIEST, LATEST
from dealer_agent.storage.privacy.accesses import list_accesses, log_access

accesses = typer.Typer(no_args_is_help=True)


@command(accesses, "list", DEALER)
def list_(
    dealer: OpenDealer,
    limit: Annotated[int, newest(100_000)] = 50,
) -> Table:
    """List the newest entries of the access log: when, who, by which command, and how many leads."""
    with dealer.read() as tx:
        accesses = limited(list_accesses(tx, limit + 1), limit)
    columns = {"At": "at", "Who": "actor", "What": "action", "Lead Id": "lead_id", "Leads": "leads"}
    return Table.of("Access log", columns, accesses, dealer.local, empty="No access is recorded yet.", time=moment)


def record_access(
    dealer: OpenDealer, action: str, *, leads: int, lead_id: str | None = None, even_without: bool = False
) -> None:
    """Records that this user reads customer data of that many leads. Without leads, only if `even_without`.

    Call it after the data is read and before any of it is shown. `action` is the command, such as `leads list`.
    `lead_id` names a single lead. If the access log cannot be written, the command ends with exit code 1.
    """
    if leads == 0 and not even_without:
        return
    try:
        with dealer.lock() as tx:
            log_access(tx, actor(), action, lead_id=lead_id, leads=leads)
    except StorageError as problem:
        fail(f"Nothing is shown, because the access log cannot be written: {problem}")


def read_lead(dealer: OpenDealer, lead_id: str, action: str) -> LeadDetails:
    """A lead with all its parts. The access is recorded. Ends the command with exit code 1 if there is no such lead."""
    with dealer.read() as tx:
        details = lead_details(tx, lead_id)
    if details is None:
        fail(f"There is no lead {lead_id}; see dealer-agent leads list")
    record_access(dealer, action, leads=1, lead_id=lead_id)
    return details


def actor() -> str:
    """The name of the operating system's user, or the user's number. The environment cannot change it."""
    number = os.getuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"uid {number}"


_LEAD = typer.Argument(metavar="LEAD", help="The id, from `leads list`.")
LeadIdArgument = Annotated[str, _LEAD]
LeadArgument = Annotated[str | None, _LEAD]


def _email(text: str | None) -> str | None:
    address = text and normal_email(_asked(text, "E-mail address"))
    if text is not None and not address:
        raise typer.BadParameter("that is not an e-mail address; write it as name@example.com")
    return address and f"{EMAIL_PREFIX}{address}"


def _phone(text: str | None) -> str | None:
    number = text and normal_phone(_asked(text, "Phone number"), "US")
    if text is not None and not number:
        raise typer.BadParameter("that is not a phone number; write it as '+1 202 555 0123'")
    return number and f"{PHONE_PREFIX}{number}"


def _asked(text: str, what: str) -> str:
    """The value of an option. For `-` the command asks, because others can see command lines, and shells store them."""
    return (typer.prompt(what, err=True) if text == "-" else text).strip()


EmailOption = Annotated[
    str | None,
    typer.Option(
        "--email",
        metavar="ADDRESS",
        callback=_email,
        help="Every lead with this e-mail address. With - the command asks for it, so that no command history has it.",
    ),
]
PhoneOption = Annotated[
    str | None,
    typer.Option(
        "--phone",
        metavar="NUMBER",
        callback=_phone,
        help="Every lead with this phone number, in any notation. Without a + it is a US number. With - it asks.",
    ),
]


def day_option(meaning: str) -> Any:
    """An option for a day."""
    return typer.Option(metavar="DATE", formats=["%Y-%m-%d"], help=meaning)


SinceOption = Annotated[datetime | None, day_option("Only those of this day, such as 2026-03-02, or later.")]
UntilOption = Annotated[datetime | None, day_option("Only those of this day or earlier.")]


def days_between(dealer: OpenDealer, since: datetime | None, until: datetime | None) -> tuple[datetime, datetime]:
    """The start and the end (excluded) of these days in the zone of the first rooftop. Without a day, all days."""
    if since is not None and until is not None and since > until:
        raise typer.BadParameter("--since is later than --until; give an earlier --since")
    return (
        EARLIEST if since is None else dealer.start_of(since.date()),
        LATEST if until is None else dealer.start_of(until.date() + timedelta(days=1)),
    )


def asked_text(text: str) -> str:
    """The text of a search. For `-` the command asks."""
    return _asked(text, "Search for")


def contact_point(text: str) -> str | None:
    """An e-mail address or a phone number in the normal form of `leads.received_lead.contact_points`."""
    contact = _asked(text, "E-mail address or phone number")
    return _email(contact) if "@" in contact else _phone(contact)


def person_of(lead_id: str | None, email: str | None, phone: str | None) -> CustomerReference:
    """The person that a command names. Raises BadParameter unless exactly one of the three is given."""
    if sum(given is not None for given in (lead_id, email, phone)) != 1:
        raise typer.BadParameter("give exactly one of a lead's id, --email and --phone")
    return CustomerReference(lead_id, email or phone or "")


def require_leads(person: CustomerReference, leads: list[StoredLead]) -> list[StoredLead]:
    """The leads of the person that were found. Ends the command with exit code 1 if there is none."""
    if not leads and person.lead_id is not None:
        fail(f"There is no lead {person.lead_id}; see dealer-agent leads list")
    if not leads:
        is_address = person.contact.startswith(EMAIL_PREFIX)
        fail(f"No lead has this {'e-mail address' if is_address else 'phone number'}: check it")
    return leads


def show_event(event: ConsentEvent, clock: Clock) -> None:
    """Shows one event as a section."""
    facts = event_document(event, clock)
    title = f"Consent event {facts.pop('number')}: {facts.pop('kind')} {local(facts.pop('at'))}"
    facts["customer"] = None if event.customer is None else name_and_contacts(event.customer)
    facts |= {"channels": ", ".join(event.channels), "scope": ", ".join(event.scope)}
    section(title, {name: value for name, value in facts.items() if value})


def _ordinary_file(path: Path | None) -> Path | None:
    """The absolute path of a file to write. Raises BadParameter for a device, or if its folder is missing."""
    if path is None:
        return None
    path = path.resolve()
    if path.exists() and not path.is_file():
        raise typer.BadParameter("that is not an ordinary file; name a new file")
    if not path.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {path.parent}; make it first")
    return path


PRIVATE_FILE = typer.Option(
    "--out", metavar="FILE", callback=_ordinary_file, help="A file to write, that only you can read (mode 0600)."
)
OutOption = Annotated[Path | None, PRIVATE_FILE]
"""The file for the result. Without the option, the command writes to the output."""
