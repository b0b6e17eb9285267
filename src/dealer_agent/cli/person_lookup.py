"""How commands name a person: by a lead, an e-mail address or a phone number."""

from typing import Annotated

import typer

from dealer_agent.cli.terminal import fail
from dealer_agent.dealers.profile_checks import read_phone
from dealer_agent.protocol.formats import normal_email
from dealer_agent.storage.leads import StoredLead, find_leads_of, get_lead
from dealer_agent.storage.store import Store

LeadArgument = Annotated[str | None, typer.Argument(metavar="[LEAD]", help="The id, from `leads list`.")]


def _email(text: str | None) -> str | None:
    if text is None:
        return None
    address = normal_email(_told(text, "E-mail address"))
    if address is None:
        raise typer.BadParameter("that is no e-mail address")
    return address


def _phone(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return read_phone(_told(text, "Phone number"))
    except ValueError:
        raise typer.BadParameter("that is no phone number; write it as '+1 202 555 0123'") from None


def _told(text: str, what: str) -> str:
    """The value of the option; for `-` it is asked for, because others can see command lines, and shells store them."""
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


def contact_point(text: str) -> str:
    """An e-mail address or a phone number in the normal form of `leads.intake.contacts`."""
    told = _told(text, "E-mail address or phone number")
    return f"email:{_email(told)}" if "@" in told else f"phone:{_phone(told)}"


def one_of(lead_id: str | None, email: str | None, phone: str | None) -> None:
    """Raises BadParameter unless exactly one of them is given."""
    if sum(given is not None for given in (lead_id, email, phone)) != 1:
        raise typer.BadParameter("give exactly one of a lead's id, --email and --phone")


def ids_of(store: Store, dealer_id: str, email: str | None, phone: str | None) -> list[str]:
    """The ids of all leads of an address or number, oldest first."""
    # The normal forms of leads.intake.contacts.
    with store.read(dealer_id) as tx:
        return find_leads_of(tx, [f"email:{email}" if email is not None else f"phone:{phone}"])


def leads_of(
    store: Store, dealer_id: str, lead_id: str | None, email: str | None, phone: str | None
) -> list[StoredLead]:
    """The leads that the options name (`one_of`), oldest first. An id also finds an erased lead.

    Ends the command with exit code 1 if there is no such lead.
    """
    if lead_id is not None:
        ids = [lead_id]
    else:
        ids = ids_of(store, dealer_id, email, phone)
        if not ids:
            fail(f"No lead has this {'e-mail address' if email is not None else 'phone number'}")
    with store.read(dealer_id) as tx:
        found = [get_lead(tx, each) for each in ids]
    if None in found:
        fail(f"There is no lead {lead_id}; see dealer-agent leads list")
    return [stored for stored in found if stored is not None]


def is_known(stored: StoredLead) -> bool:
    """Whether anything of the lead's customer is stored; after disposal by age, the consent may still be."""
    return stored.lead.customer is not None or any(event.consent_text is not None for event in stored.consents)
