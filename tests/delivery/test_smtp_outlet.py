"""Leads by mail: to a CRM, to the rooftop's people, to the customer (docs/reference/delivery.md)."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import AuthResult, LoginPassword
from tests.delivery.certificates import server_certificate
from tests.delivery.receivers import NOBODY, HttpReceiver, MailReceiver, always, receiving_http, receiving_mail
from tests.delivery.samples import NORTH, Parcel, parcel, visit
from tests.delivery.samples import sent as make_and_send
from tests.leads.lead_views import LINKS

from dealer_agent.config.settings import MailSettings
from dealer_agent.delivery.attempt import DeliveryDropped, NotDelivered
from dealer_agent.delivery.mail_server import MailServer
from dealer_agent.delivery.outlet import Outlet
from dealer_agent.delivery.outlets.mail import CrmMailOutlet, CustomerMailOutlet, StaffMailOutlet
from dealer_agent.leads.adf import render_adf
from dealer_agent.leads.mails import adf_mail_subject
from dealer_agent.protocol.requests import Customer
from dealer_agent.storage.errors import CANNOT_BE_REACHED

CRM = ("leads@crm.example.com",)
BOTH = ("one@crm.example.com", "two@crm.example.com")


@pytest.fixture
def receiver() -> Iterator[MailReceiver]:
    with receiving_mail(MailReceiver(always("take"))) as running:
        yield running


def server(receiver: Any, **more: Any) -> MailServer:
    values: dict[str, Any] = {
        "host": "127.0.0.1",
        "port": receiver.port,
        "security": "none",
        "from_address": "leads@dealer.example.com",
        "timeout_seconds": 120,
    } | more
    given = {name: values.pop(name) for name in ("user", "password") if name in values}
    return MailServer(from_name=values.pop("from_name", "Example Motors"), settings=MailSettings(**values), **given)


def send(outlet: Outlet, sent: Parcel | None = None) -> str | None:
    return asyncio.run(make_and_send(outlet, sent or parcel()))


def failure(outlet: Outlet, sent: Parcel | None = None) -> NotDelivered:
    with pytest.raises(NotDelivered) as raised:
        send(outlet, sent)
    return raised.value


def test_a_crm_gets_the_adf_alone_as_plain_ascii_text(receiver: MailReceiver) -> None:
    odd = Customer(first_name="Zo\u00eb", last_name="O'Sample \N{AUTOMOBILE}", email="zoe@example.com")
    sent = parcel(customer=odd, messages=("caf\u00e9 \u202e & <b>",))
    assert send(CrmMailOutlet(server(receiver), CRM), sent) is None
    (mailed,) = receiver.taken
    assert (mailed.sender, mailed.recipients) == ("leads@dealer.example.com", list(CRM))
    assert mailed.message.get_content_type() == "text/plain"
    assert not mailed.message.is_multipart()
    assert mailed.raw.isascii()
    assert mailed.message["Content-Transfer-Encoding"] == "7bit"
    assert mailed.message.get_content().replace("\r\n", "\n").encode() == render_adf(sent.message)
    assert mailed.message["To"] == CRM[0]


def test_the_subject_names_the_dealership_and_not_the_customer(receiver: MailReceiver) -> None:
    send(CrmMailOutlet(server(receiver), CRM))
    (mailed,) = receiver.taken
    lead = parcel().message
    assert mailed.message["Subject"] == adf_mail_subject(lead)
    assert NORTH.name in mailed.message["Subject"]
    assert lead.customer.first_name not in mailed.message["Subject"]


@pytest.mark.parametrize(
    ("customer", "channels", "reply_to"),
    [
        (Customer(first_name="Sam", last_name="Sample", email="sam@example.com"), ("email",), "sam@example.com"),
        (Customer(first_name="Sam", last_name="Sample", email="sam@example.com"), ("phone",), None),
        (Customer(first_name="Sam", last_name="Sample", phone="+12025550123"), ("email",), None),
    ],
)
@pytest.mark.parametrize("kind", [CrmMailOutlet, StaffMailOutlet])
def test_a_reply_goes_to_a_customer_who_agrees_to_e_mail(
    receiver: MailReceiver, kind: Any, customer: Customer, channels: tuple[str, ...], reply_to: str | None
) -> None:
    sent = parcel(customer=customer, channels=channels)
    assert send(kind(server(receiver), CRM), sent) is None
    (mailed,) = receiver.taken
    assert mailed.message["Reply-To"] == reply_to
    assert mailed.message["From"] == "Example Motors <leads@dealer.example.com>"


def test_every_attempt_of_a_delivery_has_one_message_id(receiver: MailReceiver) -> None:
    outlet = CrmMailOutlet(server(receiver), CRM)
    for delivery_id in ("D1", "D1", "D2"):
        send(outlet, parcel(delivery_id))
    ids = [mailed.message["Message-ID"] for mailed in receiver.taken]
    assert ids == ["<D1@dealer.example.com>", "<D1@dealer.example.com>", "<D2@dealer.example.com>"]


def test_a_line_longer_than_mail_allows_is_encoded_and_comes_out_whole(receiver: MailReceiver) -> None:
    sent = parcel(messages=("x" * 4000,))
    send(CrmMailOutlet(server(receiver), CRM), sent)
    (mailed,) = receiver.taken
    assert max(map(len, mailed.raw.splitlines())) <= 998
    assert mailed.message.get_content().replace("\r\n", "\n").encode() == render_adf(sent.message)


@pytest.mark.parametrize(
    ("what", "problem", "ails", "permanent"),
    [
        ("reject", "the mail server refused the mail (550)", False, True),
        ("fail", "the mail server refused the mail (451)", False, False),
        ("cut", "the mail server cut the connection", True, False),
        ("die", "the mail server cut the connection", True, False),
    ],
)
def test_every_failure_has_words_of_our_own(
    receiver: MailReceiver, what: str, problem: str, ails: bool, permanent: bool
) -> None:
    receiver.behaviour = always(what)
    failed = failure(CrmMailOutlet(server(receiver), CRM))
    assert (failed.problem, failed.channel_failed, failed.permanent) == (problem, ails, permanent)


def test_a_server_that_says_nothing_is_given_up(receiver: MailReceiver) -> None:
    receiver.behaviour = always("hang")
    failed = failure(CrmMailOutlet(server(receiver, timeout_seconds=0.7), CRM))
    assert failed.problem == "the mail server did not answer in time"
    assert (failed.channel_failed, failed.permanent) == (True, False)


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid"])
def test_a_closed_port_and_an_unknown_host_have_the_same_words(host: str) -> None:
    gone = server(MailReceiver(always("take"), port=NOBODY), host=host)
    assert failure(CrmMailOutlet(gone, CRM)).problem == f"the mail server {CANNOT_BE_REACHED}"


def test_what_is_no_mail_server_is_no_delivery() -> None:
    with receiving_http(HttpReceiver(always("take"))) as http:
        assert failure(CrmMailOutlet(server(http, timeout_seconds=0.7), CRM)).channel_failed


@pytest.mark.parametrize(("answer", "permanent"), [("550 sam@example.com", True), ("450 sam@example.com", False)])
def test_a_refused_recipient_is_no_delivery_and_no_fault_of_the_channel(
    receiver: MailReceiver, answer: str, permanent: bool
) -> None:
    receiver.refused = {CRM[0]: answer}
    failed = failure(CrmMailOutlet(server(receiver), CRM))
    assert failed.problem == f"the mail server refused the recipient ({answer[:3]})"
    assert (failed.channel_failed, failed.permanent) == (False, permanent)


def test_with_one_recipient_refused_for_good_the_others_have_it_and_it_is_noted(receiver: MailReceiver) -> None:
    receiver.refused = {BOTH[0]: "550 no such mailbox"}
    assert send(CrmMailOutlet(server(receiver), BOTH)) == "1 of 2 recipients refused (550)"
    assert [mailed.recipients for mailed in receiver.taken] == [[BOTH[1]]]


def test_with_one_recipient_refused_for_now_all_get_it_again_later(receiver: MailReceiver) -> None:
    receiver.refused = {BOTH[0]: "450 greylisted"}
    failed = failure(CrmMailOutlet(server(receiver), BOTH))
    assert (failed.problem, failed.channel_failed) == ("1 of 2 recipients refused (450)", False)


def only_one(user: bytes, password: bytes) -> Any:
    def authenticate(_server: Any, _session: Any, _envelope: Any, _mechanism: str, data: Any) -> AuthResult:
        right = isinstance(data, LoginPassword) and (data.login, data.password) == (user, password)
        return AuthResult(success=right, handled=False, auth_data=data)

    return authenticate


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_mail_goes_and_logs_in_only_where_the_certificate_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, security: str
) -> None:
    context, trusted = server_certificate(tmp_path)
    options: dict[str, Any] = {"authenticator": only_one(b"dealer", b"secret"), "auth_required": True}
    if security == "starttls":
        options |= {"tls_context": context, "require_starttls": True}
    else:
        options |= {"ssl_context": context, "auth_require_tls": False}
    with receiving_mail(MailReceiver(always("take")), **options) as receiver:
        secure = server(receiver, security=security, user="dealer", password="secret")
        failed = failure(CrmMailOutlet(secure, CRM))
        assert failed.problem.startswith("no safe connection to the mail server")
        assert not receiver.taken
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
        assert send(CrmMailOutlet(secure, CRM)) is None
        (mailed,) = receiver.taken
        assert (mailed.secure, mailed.user) == (True, b"dealer")
        wrong = replace(secure, password="another")
        assert (
            failure(CrmMailOutlet(wrong, CRM)).problem
            == "the mail server refused user and password (535): check both under [mail]"
        )
    assert "secret" not in repr(secure)


def test_where_tls_is_asked_for_nothing_goes_without_it(receiver: MailReceiver) -> None:
    """A server, or somebody on the way, that leaves STARTTLS out gets neither the mail nor the password."""
    failed = failure(CrmMailOutlet(server(receiver, security="starttls", user="dealer", password="secret"), CRM))
    assert failed.problem.startswith("the mail server offers no STARTTLS or no login")
    assert not receiver.taken


def test_the_people_get_it_in_plain_words(receiver: MailReceiver) -> None:
    send(StaffMailOutlet(server(receiver), ("sales@dealer.example.com",)))
    (mailed,) = receiver.taken
    assert mailed.message.get_content_type() == "text/plain"
    assert "Sam Sample" in mailed.message.get_content()
    assert "<adf>" not in mailed.message.get_content()


def test_a_customer_gets_the_confirmed_visit_with_its_calendar_entry(receiver: MailReceiver) -> None:
    visits = (visit("A1", "confirmed"), visit("A2", "confirmed", begins_in_hours=72))
    send(CustomerMailOutlet(server(receiver), LINKS), parcel(event_id="A1", kind="confirm", visits=visits))
    (mailed,) = receiver.taken
    assert mailed.recipients == ["sam@example.com"]
    body = mailed.message.get_body(("plain",))
    assert body is not None
    assert "confirmed" in body.get_content()
    (entry,) = mailed.message.iter_attachments()
    assert entry.get_content_type() == "text/calendar"
    assert b"UID:A1" in entry.get_payload(decode=True)
    assert b"UID:A2" not in entry.get_payload(decode=True)


def test_a_customer_gets_the_cancelled_visit_with_an_entry_that_takes_it_out(receiver: MailReceiver) -> None:
    earlier = visit("A0", "cancelled", begins_in_hours=24)
    visits = (visit("A2", "cancelled"), replace(visit("A1", "cancelled", begins_in_hours=0), replaces=(earlier,)))
    send(CustomerMailOutlet(server(receiver), LINKS), parcel(event_id="A1", kind="cancel", visits=visits))
    (mailed,) = receiver.taken
    assert mailed.recipients == ["sam@example.com"]
    assert mailed.message["Subject"].endswith(" is cancelled")
    body = mailed.message.get_body(("plain",))
    assert body is not None
    assert "is cancelled:" in body.get_content()
    entries = list(mailed.message.iter_attachments())
    assert [(entry.get_content_type(), entry["Content-Type"].params["method"]) for entry in entries] == [
        ("text/calendar", "CANCEL"),
        ("text/calendar", "CANCEL"),
    ]
    for entry, uid in zip(entries, (b"UID:A1", b"UID:A0"), strict=True):
        for words in (b"METHOD:CANCEL", uid, b"SEQUENCE:1", b"STATUS:CANCELLED"):
            assert words in entry.get_payload(decode=True)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"channels": ("phone",)}, "the customer does not agree to e-mail any more"),
        ({"visits": (visit("A1", "confirmed"),)}, "the visit is not cancelled"),
        ({"visits": (visit("A2", "cancelled"),)}, "the visit is not cancelled"),
        ({"visits": (replace(visit("A1", "cancelled"), times=()),)}, "the visit is not cancelled"),
        ({"visits": (visit("A1", "cancelled", begins_in_hours=-2),)}, "the cancelled visit would be over by now"),
        (
            {"customer": Customer(first_name="Sam", last_name="Sample", phone="+12025550123")},
            "the customer has no e-mail address any more",
        ),
    ],
)
def test_a_customer_gets_no_mail_about_a_cancellation_without_consent(
    receiver: MailReceiver, more: dict[str, Any], reason: str
) -> None:
    sent = parcel(event_id="A1", kind="cancel", **({"visits": (visit("A1", "cancelled"),)} | more))
    with pytest.raises(DeliveryDropped, match=f"^{reason}$"):
        send(CustomerMailOutlet(server(receiver), LINKS), sent)
    assert not receiver.taken


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"channels": ("phone",)}, "the customer does not agree to e-mail any more"),
        ({"visits": (visit("A1", "cancelled"),)}, "the visit is not confirmed any more"),
        ({"visits": ()}, "the visit is not confirmed any more"),
        ({"visits": (visit("A2"),)}, "the visit is not confirmed any more"),
        ({"visits": (visit("A1", begins_in_hours=-2),)}, "the visit has begun"),
        (
            {"customer": Customer(first_name="Sam", last_name="Sample", phone="+12025550123")},
            "the customer has no e-mail address any more",
        ),
    ],
)
def test_a_customer_is_not_written_to_without_consent_or_cause(
    receiver: MailReceiver, more: dict[str, Any], reason: str
) -> None:
    sent = parcel(event_id="A1", kind="confirm", **({"visits": (visit("A1"),)} | more))
    with pytest.raises(DeliveryDropped, match=f"^{reason}$"):
        send(CustomerMailOutlet(server(receiver), LINKS), sent)
    assert not receiver.taken


@pytest.mark.parametrize(
    "address",
    [
        "j\u00f6rg@example.com",
        "sam@b\u00fccher.example",
        '"sam sample"@example.com',
        "sam+x@example.com",
        "o'sample@example.com",
    ],
)
def test_any_address_that_a_lead_may_hold_can_be_written_to(receiver: MailReceiver, address: str) -> None:
    customer = Customer(first_name="Sam", last_name="Sample", email=address)
    send(CustomerMailOutlet(server(receiver), LINKS), parcel(event_id="A1", visits=(visit("A1"),), customer=customer))
    (mailed,) = receiver.taken
    assert len(mailed.recipients) == 1


def test_no_name_of_the_profile_breaks_a_header(receiver: MailReceiver) -> None:
    named = replace(NORTH, name="Example, Motors\r\nBcc: other@example.com")
    send(CrmMailOutlet(server(receiver, from_name="A\nB, \u00fc"), CRM), parcel(rooftop=named))
    (mailed,) = receiver.taken
    assert mailed.message["Bcc"] is None
    assert mailed.recipients == list(CRM)
