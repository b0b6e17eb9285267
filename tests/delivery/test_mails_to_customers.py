"""Mails to customers hold nothing that a sender wrote, and nobody can have many of them sent to one address.

Anybody can send a lead with any e-mail address. On both databases, through a real mail server.
"""

import asyncio
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec import inspect
from tests.delivery.crm import mail_settings
from tests.delivery.receivers import MailReceiver, always, receiving_mail
from tests.delivery.shop import AT_ONCE, loop_of_one, so
from tests.leads.lead_views import LINKS
from tests.skills.intake_setup import TOKEN, IntakeSetup, open_intake
from tests.skills.sample_dealers import a_lead, consent, customer
from tests.skills.visiting import LOT, PROFILE
from tests.soak import sqlite_first

from dealer_agent.dealers.profile import VisitRules
from dealer_agent.delivery.delivery_content import MOST_MAILS
from dealer_agent.delivery.mail_server import MailServer
from dealer_agent.delivery.outlet import Outlets
from dealer_agent.delivery.outlets import DealerOutlets
from dealer_agent.delivery.outlets.mail import CustomerMailOutlet
from dealer_agent.protocol.requests import VISIT_KIND_OF, VisitKind
from dealer_agent.protocol.skill import LeadSubmitRequest

SOON = datetime.now(UTC) + timedelta(days=2)
VICTIM = "victim@example.org"
RULES = VisitRules(places=20, hours="sales")
KINDS: tuple[VisitKind, ...] = tuple(dict.fromkeys(VISIT_KIND_OF.values()))
HOUSE = msgspec.structs.replace(
    PROFILE,
    rooftops=(msgspec.structs.replace(PROFILE.rooftops[1], visits=dict.fromkeys(KINDS, RULES)),),
)
PHRASES = (
    "Win 1000 dollars call 9005550100",
    "You have won",
    "Click Here Now",
    "prize.example.net/9005550100",
    "Robin\r\nBcc: dollars@example.net\r\n\r\nYou have won",
    "\u202eDollars\u202c",
    "Dol\u200blars",
    "\uff24\uff4f\uff4c\uff4c\uff41\uff52\uff53",
    "\U0001d411\U0001d428\U0001d41b",
    "<b>Dollars</b>",
    "\u606d\u559c\u60a8\u4e2d\u5956\u8bf7\u81f4\u7535\u6211\u4eec",
)

VALID: dict[str, Any] = {
    "email": VICTIM,
    "phone": "+12025550123",
    "preferred_contact": "email",
    "submitted_at": "2026-03-01T00:00:00Z",
    "timezone": "Asia/Tokyo",
    "idempotency_key": ...,
    "requested_windows": ...,
    "duration_minutes": ...,
    "consent": ...,
}
"""Members that cannot hold just any text, and those that a test sets itself (`...`)."""


def stuffed(kind: inspect.Type, words: str) -> Any:
    """A value of a type with the words wherever a text can be, and a hostile number wherever a number can be."""
    match kind:
        case inspect.StructType():
            members = {field.encode_name: VALID.get(field.name, field) for field in kind.fields}
            return {
                name: stuffed(value.type, words) if isinstance(value, inspect.Field) else value
                for name, value in members.items()
                if value is not ...
            }
        case inspect.UnionType():
            inner = [one for one in kind.types if not isinstance(one, inspect.CustomType)]
            return stuffed(min(inner, key=lambda one: not isinstance(one, inspect.StructType)), words)
        case inspect.Metadata():
            return stuffed(kind.type, words)
        case inspect.ListType():
            return [stuffed(kind.item_type, words)]
        case inspect.VarTupleType():
            return [stuffed(kind.item_type, words)]
        case inspect.DictType():
            return {words: words}
        case inspect.LiteralType():
            return kind.values[0]
        case inspect.StrType():
            return words
        case inspect.BoolType():
            return True
        case inspect.IntType() | inspect.FloatType():
            return 9005550100
        case inspect.DateType():
            return "2020-01-01"
    raise AssertionError(f"a type of member that this test does not know: {kind}")


def hostile(words: str, kind: str, stock: str | None) -> dict[str, Any]:
    """A lead that says the words wherever it can, of somebody else's address."""
    lead: dict[str, Any] = stuffed(inspect.type_info(LeadSubmitRequest), words)
    # An offer is only its ids, which have no words.
    del lead["offer"]
    lead["consent"] = consent(consent_text=words, source_agent=words)
    lead["appointment"] |= {"appointment_type": kind, "appointment_at": noon()}
    lead["vehicle_of_interest"][words] = words
    lead["trade_in"][words] = {words: words}
    if stock is not None or kind == "test_drive":
        # A test drive needs a vehicle in stock, or none.
        lead["vehicle_of_interest"] |= {"stock": stock or "", "vin": "", "vehicle_id": ""}
    return {"type": "lead.submit.request"} | lead


def noon(days: int = 0) -> str:
    """A time that is free."""
    return (SOON + timedelta(days=days)).strftime("%Y-%m-%dT12:00:00-05:00")


@pytest.fixture
def intake(database_url: str) -> Iterator[IntakeSetup]:
    with open_intake(database_url, HOUSE, confirms_by_mail=True) as opened:
        yield opened


@pytest.fixture
def receiver() -> Iterator[MailReceiver]:
    with receiving_mail(MailReceiver(always("take"))) as running:
        yield running


def mail_all(intake: IntakeSetup, receiver: MailReceiver) -> None:
    """Sends every mail to customers that waits."""
    server = MailServer(mail_settings(receiver), "Ridgeline Motors")
    outlets: Outlets = {(HOUSE.rooftops[0].name, "customer"): CustomerMailOutlet(server, LINKS)}

    def waits() -> bool:
        return any(row.state == "waiting" for row in intake.deliveries() if row.channel == "customer")

    async def run() -> None:
        loop = loop_of_one(intake.store, intake.writer, DealerOutlets(HOUSE, outlets, AT_ONCE))
        running = asyncio.create_task(loop.run())
        await so(lambda: not waits())
        loop.stop()
        await running

    asyncio.run(run())


def decoded(receiver: MailReceiver) -> list[str]:
    """Each mail as its reader sees it: headers but the address it goes to, texts and attachments."""
    read = []
    for mailed in receiver.taken:
        message = mailed.message
        assert mailed.recipients == [VICTIM]
        assert message["To"] == VICTIM
        del message["To"]
        parts = [f"{name}: {value}" for part in message.walk() for name, value in part.items()]
        parts += [str(part.get_content()) for part in message.walk() if not part.is_multipart()]
        # A calendar file folds its lines. Ids and the signature in a link are random text.
        unfolded = re.sub(r"\r?\n[ \t]", "", "\n".join(parts))
        read.append(re.sub(r"https://dealer\.test/(visit|contact)/\S+|[0-9A-HJKMNP-TV-Z]{26}", "...", unfolded))
    return read


@sqlite_first()
@pytest.mark.parametrize("stock", ["S1", pytest.param(None, marks=pytest.mark.soak)])
def test_no_words_of_a_sender_are_in_any_mail_to_a_customer(
    intake: IntakeSetup, receiver: MailReceiver, stock: str | None
) -> None:
    """Each kind of visit is confirmed and cancelled; a moved one is confirmed once more."""
    now = datetime.now(UTC)
    for number, words in enumerate(PHRASES):
        kind = KINDS[number % len(KINDS)]
        answer = intake.take(hostile(words, kind, stock), now, LOT, token=f"T{number}")
        assert answer["appointment"]["status"] == "confirmed"
        moved = hostile(words, kind, stock)
        moved["appointment"]["appointment_at"] = noon(1)
        mail_all(intake, receiver)
        moved_answer = intake.take(moved, now, LOT, token=f"T{number}")
        assert moved_answer["lead_id"] == answer["lead_id"]
        mail_all(intake, receiver)
        intake.cancel_visit(moved_answer, now)
        mail_all(intake, receiver)
    mails = decoded(receiver)
    assert len(mails) == 3 * len(PHRASES)
    for text in mails:
        assert "Hello,\n" in text.replace("\r\n", "\n")
        for phrase in PHRASES:
            assert phrase not in text
        said = re.search(r"(?i)dollars|9005550100|\bwon?\b|click|prize|\bwin\b|bcc", text)
        assert said is None, said


def test_a_name_that_looks_like_one_is_in_the_greeting_and_nowhere_else(
    intake: IntakeSetup, receiver: MailReceiver
) -> None:
    who = customer(email=VICTIM) | {"first_name": "Zo\u00eb", "last_name": "Dollars"}
    lead = a_lead(customer=who, appointment={"appointment_type": "test_drive", "appointment_at": noon()})
    intake.take(lead | {"source_agent": "Dollars"}, datetime.now(UTC), LOT)
    mail_all(intake, receiver)
    (text,) = decoded(receiver)
    assert text.count("Zo\u00eb") == 1
    assert "Hello Zo\u00eb," in text
    assert "Dollars" not in text


def confirmed(intake: IntakeSetup, number: int, token: str | None, *, email: str = VICTIM) -> dict[str, Any]:
    """A visit for this address, of an agent of its own."""
    appointment = {"appointment_type": KINDS[number % len(KINDS)], "appointment_at": noon(number // len(KINDS))}
    lead = a_lead(customer=customer(email=email), appointment=appointment, source_agent=f"Agent {number}")
    wish = {"vehicle_of_interest": {"make": f"Make {number}"}}
    answer = intake.take(lead | wish, datetime.now(UTC), LOT, token=token)
    assert answer["appointment"]["status"] == "confirmed"
    return answer


def test_senders_without_a_token_can_have_few_mails_sent_to_one_address(
    intake: IntakeSetup, receiver: MailReceiver
) -> None:
    answers = [confirmed(intake, number, None, email=VICTIM.upper()) for number in range(MOST_MAILS + 3)]
    mail_all(intake, receiver)
    assert len(receiver.taken) == MOST_MAILS
    rows = [row for row in intake.deliveries() if row.kind == "confirm"]
    dropped = [row.problem for row in rows if row.state == "dropped"]
    assert dropped == [f"this address got {MOST_MAILS} such mails within 24 hours: it gets no more now"] * 3

    # The dealer cancels all of them: as few mails say so.
    for answer in answers:
        intake.cancel_visit(answer, datetime.now(UTC))
    mail_all(intake, receiver)
    assert len(receiver.taken) == 2 * MOST_MAILS


def test_strangers_do_not_use_up_the_mails_of_a_sender_with_a_token(
    intake: IntakeSetup, receiver: MailReceiver
) -> None:
    for number in range(MOST_MAILS + 1):
        confirmed(intake, number, None)
    known = confirmed(intake, MOST_MAILS + 1, TOKEN)
    mail_all(intake, receiver)
    assert len(receiver.taken) == MOST_MAILS + 1
    mailed = {row.lead_id for row in intake.deliveries() if (row.kind, row.state) == ("confirm", "sent")}
    assert known["lead_id"] in mailed
