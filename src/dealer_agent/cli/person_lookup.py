"""How commands name a person: by a lead, an e-mail address or a phone number."""

from dataclasses import dataclass
from typing import Annotated

import typer

from dealer_agent.cli.terminal import fail
from dealer_agent.dealers.profile_checks import read_phone
from dealer_agent.leads.records import StoredLead
from dealer_agent.protocol.formats import normal_email
from dealer_agent.storage.leads import find_leads_of, get_lead
from dealer_agent.storage.store import Store

LeadArgument = Annotated[str | None, typer.Argument(metavar="LEAD", help="The id, from `leads list`.")]


def _email(text: str | None) -> str | None:
    if text is None:
        return None
    address = normal_email(_asked(text, "E-mail address"))
    if address is None:
        raise typer.BadParameter("that is no e-mail address")
    return address


def _phone(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return read_phone(_asked(text, "Phone number"))
    except ValueError:
        raise typer.BadParameter("that is no phone number; write it as '+1 202 555 0123'") from None


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


def contact_point(text: str) -> str:
    """An e-mail address or a phone number in the normal form of `leads.received_lead.contact_points`."""
    given = _asked(text, "E-mail address or phone number")
    return f"email:{_email(given)}" if "@" in given else f"phone:{_phone(given)}"


@dataclass(frozen=True)
class Person:
    """The person that a command names: by the id of a lead, or by an e-mail address or phone number in normal form.

    Raises BadParameter unless exactly one of them is given.
    """

    lead_id: str | None
    email: str | None
    phone: str | None

    def __post_init__(self) -> None:
        if sum(given is not None for given in (self.lead_id, self.email, self.phone)) != 1:
            raise typer.BadParameter("give exactly one of a lead's id, --email and --phone")

    @property
    def contact(self) -> str:
        """The e-mail address or phone number in the normal form of `leads.received_lead.contact_points`."""
        return f"email:{self.email}" if self.email is not None else f"phone:{self.phone}"

    def leads_now(self, store: Store, dealer_id: str) -> list[StoredLead]:
        """The leads of the person, oldest first. An id also finds an erased lead."""
        with store.read(dealer_id) as tx:
            ids = [self.lead_id] if self.lead_id is not None else find_leads_of(tx, [self.contact])
            found = [get_lead(tx, each) for each in ids]
        return [stored for stored in found if stored is not None]

    def leads_in(self, store: Store, dealer_id: str) -> list[StoredLead]:
        """The leads of `leads_now`. Ends the command with exit code 1 if there is none."""
        found = self.leads_now(store, dealer_id)
        if not found and self.lead_id is not None:
            fail(f"There is no lead {self.lead_id}; see dealer-agent leads list")
        if not found:
            fail(f"No lead has this {'e-mail address' if self.email is not None else 'phone number'}")
        return found


def is_known(stored: StoredLead) -> bool:
    """Whether anything of the lead's customer is stored; after disposal by age, the consent may still be."""
    return stored.lead.customer is not None or any(event.consent_text is not None for event in stored.consents)
