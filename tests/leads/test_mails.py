"""The mails about a lead (docs/reference/delivery.md, "Mails to people")."""

import re
import shlex
from dataclasses import replace
from datetime import timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

import icalendar
import msgspec
import pytest
from hypothesis import given
from msgspec import UNSET
from tests.leads.lead_views import (
    APPOINTMENT_ID,
    CUSTOMER,
    LEAD_ID,
    LINKS,
    LISTING,
    NASTY,
    RECEIVED,
    ROOFTOP,
    TEN_IN_NASHVILLE,
    TRADE_IN,
    a_view,
    a_visit,
    cancellation_of,
    confirmation_of,
    nasty,
    views,
)

from dealer_agent.leads.lead_view import LeadView, RooftopView, VisitTime, VisitView
from dealer_agent.leads.mails import CalendarPart, Mail, adf_mail_subject, staff_mail
from dealer_agent.protocol.requests import Appointment, Customer, SourceAgent, VehicleOfInterest

pytestmark = pytest.mark.outside_protocol("mails")

UNPRINTABLE = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def is_sound(mail: Mail) -> None:
    """Checks that the subject is one short line, and that the mail comes out of Python's own composer as it went in."""
    assert not UNPRINTABLE.search(mail.subject)
    assert len(mail.subject) < 400
    assert mail.text.endswith("\n")
    assert not UNPRINTABLE.search(mail.text.replace("\n", ""))
    message = EmailMessage(policy=policy.SMTP)
    message["Subject"] = mail.subject
    message.set_content(mail.text)
    read = message_from_bytes(message.as_bytes(), policy=policy.SMTP)
    assert read.keys() == message.keys()
    assert "bcc" not in map(str.lower, read.keys())
    body = read.get_body()
    assert body is not None
    assert body.get_content().replace("\r\n", "\n") == mail.text


def subject_of_adf(view: LeadView) -> Mail:
    return Mail(adf_mail_subject(view), "text\n")


@given(view=views())
def test_any_lead_makes_sound_mails(view: LeadView) -> None:
    is_sound(staff_mail(view))
    is_sound(subject_of_adf(view))
    if any(visit.status == "confirmed" for visit in view.visits):
        is_sound(confirmation_of(view))
    if any(visit.status == "cancelled" for visit in view.visits):
        is_sound(cancellation_of(view))
        off = replace(view, ended_visit=view.visits[0], resend=True)
        is_sound(staff_mail(off))
        is_sound(subject_of_adf(off))


@given(text=nasty)
def test_no_text_of_a_stranger_reaches_a_header_or_breaks_a_mail(text: str) -> None:
    view = a_view(
        customer=Customer(text, text, email="jordan@example.com"),
        agent=SourceAgent(text),
        vehicle=msgspec.structs.replace(LISTING, make=text, stock=text, rooftop=text),
        messages=(text,),
        visits=(a_visit(request=Appointment("test_drive", notes=text)),),
        rooftop=RooftopView(name=text, zone="America/Chicago"),
    )
    for mail in (staff_mail(view), confirmation_of(view), subject_of_adf(view)):
        is_sound(mail)


def test_every_subject_begins_with_the_rooftops_name() -> None:
    """There are CRMs that drop a lead without it."""
    view = a_view(visits=(a_visit(),))
    for mail in (staff_mail(view), confirmation_of(view), subject_of_adf(view)):
        assert mail.subject.startswith("Example Motors Nashville: ")


@pytest.mark.parametrize(
    ("changes", "subject"),
    [
        ({}, "new lead, 2024 Honda Accord EX"),
        ({"resend": True, "added": True}, "lead with additions, 2024 Honda Accord EX"),
        ({"resend": True}, "lead sent again, 2024 Honda Accord EX"),
        ({"resend": True, "withdrawn": ("phone",)}, "consent withdrawn, 2024 Honda Accord EX"),
        ({"resend": True, "ended_visit": a_visit("cancelled")}, "test drive cancelled, 2024 Honda Accord EX"),
        ({"resend": True, "ended_visit": a_visit("done")}, "test drive done, 2024 Honda Accord EX"),
        ({"resend": True, "ended_visit": a_visit("no_show")}, "test drive missed, 2024 Honda Accord EX"),
        ({"vehicle": None, "interest": VehicleOfInterest(make="Kia")}, "new lead, Kia"),
        ({"vehicle": None, "interest": UNSET}, "new lead"),
    ],
)
def test_the_subject_of_an_adf_mail_names_the_vehicle_and_not_the_customer(changes: Any, subject: str) -> None:
    assert adf_mail_subject(a_view(**changes)) == f"Example Motors Nashville: {subject}"


def test_the_salesperson_reads_the_lead_in_plain_words() -> None:
    visit = a_visit(request=Appointment("test_drive", appointment_at="2026-03-03T16:00:00Z", notes="I bring my dog"))
    mail = staff_mail(a_view(visits=(visit,), trade_in=TRADE_IN))
    assert mail.subject == "Example Motors Nashville: test drive confirmed, Jordan Example, 2024 Honda Accord EX"
    assert mail.calendars == ()
    assert (
        mail.text
        == """\
Jordan Example is interested in the 2024 Honda Accord EX.

Test drive confirmed, at Example Motors Nashville
  When: Tuesday, March 3, 2026, 10:00 AM to 11:00 AM CST
  Their trade-in is to be appraised at the same visit.

Their notes for the visit:
> I bring my dog

How to reach them
  E-mail: jordan@example.com (preferred)
  Phone: +1 202-555-0123, for text messages only
  Do not contact by phone.

The vehicle
  2024 Honda Accord EX, used
  Stock P1234, VIN 1HGCY2F57RA000001
  Stock status: available, Example Motors Nashville
  28,450 miles, Gray outside, Black inside, sedan, automatic transmission
  Price $27,999, all our charges included
  Fuel: gas
  Drive: fwd
  Web page: https://www.example.com/p1234

Their trade-in, as they describe it
  2016 Ford Focus
  91,000 miles
  Condition, in their words: good
  Notes: A small dent

They write:
> Is it still there?

Sent on their behalf by an AI shopping agent on Monday, March 2, 2026, 3:05
  PM CST. Lead 01KE7AQ2N0V5X3J8R6T4Y9W1ZB.

Source: Example Shopping Agent (says so itself, not verified)

What became of it (reached, wrong, spam or sold)?
  dealer-agent leads mark 01KE7AQ2N0V5X3J8R6T4Y9W1ZB reached
All about its sender:
  dealer-agent agents show anonymous
To read the next leads of this sender before anybody gets them:
  dealer-agent agents quarantine anonymous
To see its leads that wait:
  dealer-agent leads quarantined --agent anonymous
To send them on, to your CRM and your staff:
  dealer-agent leads release --agent anonymous
"""
    )


def test_a_lead_that_waited_names_the_command_that_lets_its_sender_through() -> None:
    text = staff_mail(a_view(waited_since=RECEIVED)).text
    assert "It waited in quarantine since " in text
    assert "dealer-agent agents allow anonymous" in text
    assert "dealer-agent agents quarantine" not in text


def test_no_sender_can_change_a_command_of_the_mail() -> None:
    """The id of a client may be a text that the client has chosen."""
    sender = "https://login.example#https://host.example/$(reboot);'`x`"
    lines = staff_mail(a_view(caller=sender)).text.splitlines()
    named = [shlex.split(line) for line in lines if line.startswith("  dealer-agent ")]
    assert [words[-1] for words in named if words[2] != "mark"] == [sender] * 4


WRITE = "E-mail: jordan@example.com"
CALL = "Phone: +1 202-555-0123"


@pytest.mark.parametrize(
    ("preferred", "channels", "lines"),
    [
        ("email", ("email", "phone", "sms"), [f"{WRITE} (preferred)", f"{CALL}, for calls and text messages"]),
        (
            "sms",
            ("phone", "sms"),
            [f"{CALL}, for calls and text messages, text messages preferred", "Do not contact by e-mail."],
        ),
        ("any", ("phone",), [f"{CALL}, for calls only", "Do not contact by e-mail or text message."]),
        (UNSET, ("email",), [WRITE, "Do not contact by phone or text message."]),
        (
            "email",
            (),
            [
                "They agree to no channel: their consent was withdrawn or has expired.",
                "Do not contact by e-mail, phone, or text message.",
            ],
        ),
    ],
)
def test_the_salesperson_sees_only_what_may_be_used(
    preferred: Any, channels: tuple[str, ...], lines: list[str]
) -> None:
    customer = msgspec.structs.replace(CUSTOMER, preferred_contact=preferred)
    text = staff_mail(a_view(customer=customer, channels=channels)).text
    part = text.partition("How to reach them\n")[2].partition("\n\n")[0]
    assert " ".join(part.split()) == " ".join(lines)
    assert ("jordan@example.com" in text) == ("email" in channels)
    assert ("+1 202-555-0123" in text) == bool({"phone", "sms"} & set(channels))


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"vehicle": None, "interest": UNSET}, "Jordan Example would like to hear from you."),
        ({"vehicle": None, "interest": VehicleOfInterest(make="Kia")}, "Jordan Example is interested in the Kia."),
        ({"vehicle": None, "interest": VehicleOfInterest(stock="X1")}, "  Make and model not given"),
        ({"vehicle": None, "interest": VehicleOfInterest(stock="X1")}, "  Stock X1"),
        ({"vehicle": None, "interest": VehicleOfInterest(stock="X1")}, "  Not found in stock when the lead came."),
        ({"vehicle": None, "interest": VehicleOfInterest(price=50000)}, "  The price that they name: $50,000"),
        ({"vehicle": msgspec.structs.replace(LISTING, condition="cpo")}, "  2024 Honda Accord EX, certified pre-owned"),
        ({"resend": True, "added": True}, "  already: something was added to it. This mail has the whole lead."),
        (
            {"resend": True, "ended_visit": a_visit("cancelled")},
            "  already: the test drive on Tuesday, March 3, 2026, 10:00 AM CST was",
        ),
        (
            {"resend": True, "ended_visit": a_visit("cancelled", times=())},
            "  already: the test drive was cancelled. This mail has the whole lead.",
        ),
        (
            {"resend": True, "ended_visit": a_visit("done", times=())},
            "  already: the test drive took place. This mail has the whole lead.",
        ),
        (
            {"resend": True, "ended_visit": a_visit("no_show", times=())},
            "  already: the test drive did not take place, because the customer did not",
        ),
        ({"visits": (a_visit("unavailable"),)}, "  Nothing is booked: please find a time with the customer."),
        ({"interest_extras": {f"x{number}": 1 for number in range(23)}, "vehicle": None}, "  ... and 3 more"),
    ],
)
def test_the_staff_mail_has_all_known_facts(changes: Any, line: str) -> None:
    assert line in staff_mail(a_view(**changes)).text.splitlines()


@pytest.mark.parametrize(
    ("visits", "about"),
    [
        ((), "new lead"),
        ((a_visit("proposed", times=()),), "test drive asked for, other times proposed"),
        ((a_visit("cancelled"),), "new lead"),
        ((a_visit("requested", request=Appointment("sales")), a_visit()), "test drive confirmed"),
    ],
)
def test_the_subject_names_the_active_visit(visits: Any, about: str) -> None:
    subject = staff_mail(a_view(visits=visits)).subject
    assert subject == f"Example Motors Nashville: {about}, Jordan Example, 2024 Honda Accord EX"


def test_the_customer_reads_when_where_and_what_to_bring() -> None:
    mail = confirmation_of(a_view(visits=(a_visit(),)))
    assert mail.subject == "Example Motors Nashville: your test drive on Tuesday, March 3, 2026, 10:00 AM CST"
    assert (
        mail.text
        == f"""\
Hello Jordan,

Your test drive with Example Motors Nashville is confirmed.

When:     Tuesday, March 3, 2026, 10:00 AM to 11:00 AM CST
Where:    Example Motors Nashville, 1200 Example Pike, Suite 2, Nashville,
          TN 37203
Vehicle:  2024 Honda Accord EX (stock P1234)

Please bring your driver's license. If you have a question, please call +1
202-555-0110 or write to nashville@example.com.

See, move or cancel this visit:
{LINKS.address("visit", LEAD_ID, APPOINTMENT_ID, TEN_IN_NASHVILLE + timedelta(hours=1))}

We look forward to seeing you.

Example Motors Nashville

You get this mail because a shopping agent asked for this visit. It gave us
your address, and said that you agreed to be contacted by e-mail. If you did
not ask for this visit, please tell us.

To stop e-mail, calls or text messages about this request:
{LINKS.address("contact", LEAD_ID, APPOINTMENT_ID, TEN_IN_NASHVILLE + timedelta(hours=1))}
"""
    )


def event_in(part: CalendarPart) -> icalendar.Event:
    """The one event of a calendar file, whose method is the one that the mail names."""
    calendar = icalendar.Calendar.from_ical(part.content)
    assert isinstance(calendar, icalendar.Calendar)
    assert calendar["method"] == part.method
    (event,) = calendar.events
    return event


def test_the_calendar_entry_is_the_visit() -> None:
    (part,) = confirmation_of(a_view(visits=(a_visit(),))).calendars
    assert (part.name, part.method) == ("visit.ics", "PUBLISH")
    event = event_in(part)
    assert event["uid"] == APPOINTMENT_ID
    assert event.start == TEN_IN_NASHVILLE
    assert event.end == TEN_IN_NASHVILLE + timedelta(hours=1)
    assert event["summary"] == "Test drive, Example Motors Nashville"
    assert str(event["description"]).split("\n") == [
        "2024 Honda Accord EX (stock P1234)",
        "Tuesday, March 3, 2026, 10:00 AM to 11:00 AM CST",
        "+1 202-555-0110",
    ]


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        ("America/New_York", "          (Tuesday, March 3, 2026, 11:00 AM to 12:00 PM EST on your clock)"),
        ("America/Chicago", None),
        # Another name, the same clock.
        ("America/Winnipeg", None),
    ],
)
def test_a_buyer_with_another_clock_reads_the_time_on_it_too(zone: str, expected: str | None) -> None:
    request = Appointment("test_drive", appointment_at="2026-03-03T16:00:00Z", timezone=zone)
    lines = confirmation_of(a_view(visits=(a_visit(request=request),))).text.splitlines()
    assert [line for line in lines if "on your clock" in line] == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("kind", "trade_in", "words", "vehicle"),
    [
        ("test_drive", UNSET, "Please bring your driver's license.", True),
        ("test_drive", TRADE_IN, "we will appraise it at the same visit.", True),
        ("trade_in", UNSET, "Please bring the vehicle with its keys, title and registration.", False),
        ("trade_in_appraisal", UNSET, "Please bring the vehicle with its keys, title and registration.", False),
        ("handover", UNSET, "Please bring your driver's license and proof of insurance.", True),
        ("service", UNSET, "Your service visit with Example Motors Nashville is confirmed.", False),
        ("sales", UNSET, "Your sales visit with Example Motors Nashville is confirmed.", True),
        ("phone_call", UNSET, "We look forward to talking with you.", True),
        ("video_call", UNSET, "With: Example Motors Nashville", True),
    ],
)
def test_each_kind_of_visit_has_its_own_words(kind: Any, trade_in: Any, words: str, vehicle: bool) -> None:
    view = a_view(visits=(a_visit(request=Appointment(kind)),), trade_in=trade_in)
    text = " ".join(confirmation_of(view).text.split())
    assert words in text
    assert ("Vehicle: 2024 Honda Accord EX" in text) == vehicle


@pytest.mark.parametrize(
    "name", ["Visit http://example.com", "example.com", "WWW example", "you@example", "<b>", "a\\b", "\0.net"]
)
@pytest.mark.parametrize(("make", "status"), [(confirmation_of, "confirmed"), (cancellation_of, "cancelled")])
def test_a_sender_cannot_send_own_text_to_a_stranger_by_mail(name: str, make: Any, status: Any) -> None:
    view = a_view(
        customer=Customer(name, name, email="stranger@example.org"),
        agent=SourceAgent(name, "https://other.example"),
        vehicle=None,
        interest=VehicleOfInterest(make=name),
        trade_in=TRADE_IN,
        messages=(name,),
        visits=(a_visit(status, request=Appointment("test_drive", notes=name)),),
    )
    mail = make(view)
    assert name not in mail.text.replace("nashville@example.com", "")
    (part,) = mail.calendars
    assert name.encode() not in part.content.replace(b"nashville@example.com", b"")
    assert mail.text.startswith("Hello,\n")


@pytest.mark.parametrize("name", ["Mary-Jane", "O'Neil", "J.", "Dr. Anna", "Zoë", "李"])
def test_a_name_that_looks_like_one_is_used(name: str) -> None:
    view = a_view(customer=Customer(name, "Example", email="j@example.com"), visits=(a_visit(),))
    assert confirmation_of(view).text.startswith(f"Hello {name},\n")


@pytest.mark.parametrize(
    ("phone", "email", "words"),
    [
        (None, "a@example.com", "please write to a@example.com."),
        ("+12025550110", None, "please call +1 202-555-0110."),
        (None, None, "please let us know."),
    ],
)
def test_the_message_has_the_phone_number_to_call(phone: str | None, email: str | None, words: str) -> None:
    rooftop = RooftopView(name="Example", zone=ROOFTOP.zone, phone=phone, email=email)
    assert words in " ".join(confirmation_of(a_view(visits=(a_visit(rooftop=rooftop),))).text.split())


EARLIER = TEN_IN_NASHVILLE - timedelta(hours=1)
MOVED = a_visit(
    replaces=(
        a_visit(
            "cancelled",
            appointment_id="01KE7AQ2N0V5X3J8R6T4Y9W1ZE",
            times=(VisitTime(EARLIER, TEN_IN_NASHVILLE),),
            replaces=(a_visit("cancelled", appointment_id="01KE7AQ2N0V5X3J8R6T4Y9W1ZF"),),
        ),
    )
)


@pytest.mark.parametrize(
    ("make", "visit"),
    [(confirmation_of, MOVED), (cancellation_of, replace(MOVED, status="cancelled"))],
)
def test_a_visit_that_was_moved_takes_its_earlier_times_out_of_the_customers_calendar(
    make: Any, visit: VisitView
) -> None:
    """Each under the UID that the customer may have had a mail of; RFC 5546 wants one UID in a CANCEL."""
    first, *earlier = make(a_view(visits=(visit,))).calendars
    assert event_in(first)["uid"] == APPOINTMENT_ID
    gone = [event_in(part) for part in earlier]
    assert [part.method for part in earlier] == ["CANCEL", "CANCEL"]
    assert [(event["uid"], event["status"], event.sequence) for event in gone] == [
        ("01KE7AQ2N0V5X3J8R6T4Y9W1ZE", "CANCELLED", 1),
        ("01KE7AQ2N0V5X3J8R6T4Y9W1ZF", "CANCELLED", 1),
    ]
    assert gone[0].start == EARLIER


def test_the_customer_reads_which_time_is_off_where_it_is_another() -> None:
    text = " ".join(confirmation_of(a_view(visits=(MOVED,))).text.split())
    assert "is confirmed. It replaces the test drive on Tuesday, March 3, 2026, 9:00 AM CST. When:" in text
    same_time = a_visit(replaces=(a_visit("cancelled"),))
    assert "takes the place" not in confirmation_of(a_view(visits=(same_time,))).text


def test_the_customer_reads_that_the_visit_of_that_day_and_time_is_off() -> None:
    mail = cancellation_of(a_view(visits=(a_visit("cancelled"),)))
    assert mail.subject == (
        "Example Motors Nashville: your test drive on Tuesday, March 3, 2026, 10:00 AM CST is cancelled"
    )
    assert (
        mail.text
        == f"""\
Hello Jordan,

Your test drive with Example Motors Nashville is cancelled:

When:     Tuesday, March 3, 2026, 10:00 AM to 11:00 AM CST
Where:    Example Motors Nashville, 1200 Example Pike, Suite 2, Nashville,
          TN 37203
Vehicle:  2024 Honda Accord EX (stock P1234)

If you would like another time, please call +1 202-555-0110 or write to
nashville@example.com.

Example Motors Nashville

You get this mail because a shopping agent asked for this visit. It gave us
your address, and said that you agreed to be contacted by e-mail. If you did
not ask for this visit, please tell us.

To stop e-mail, calls or text messages about this request:
{LINKS.address("contact", LEAD_ID, APPOINTMENT_ID, TEN_IN_NASHVILLE + timedelta(hours=1))}
"""
    )
    (part,) = mail.calendars
    assert (part.name, part.method) == ("visit.ics", "CANCEL")
    event = event_in(part)
    assert (event["uid"], event["status"], event.sequence) == (APPOINTMENT_ID, "CANCELLED", 1)
    assert event.start == TEN_IN_NASHVILLE


@pytest.mark.parametrize("text", NASTY)
def test_a_strangers_words_are_marked_line_by_line(text: str) -> None:
    message = f"begin\n{text}\nend"
    body = staff_mail(a_view(messages=(message,))).text
    words = body.partition("They write:\n")[2].partition("\n\nSent on their behalf")[0]
    assert all(line.startswith(">") for line in words.split("\n"))


@pytest.mark.parametrize("member", ["first_name", "last_name", "agent", "vehicle"])
def test_text_of_a_sender_never_begins_at_the_margin(member: str) -> None:
    """A long name that is wrapped cannot look like a part of the mail."""
    for length in range(1, 80):
        forged = f"{'x' * length} How to reach them"
        changes: dict[str, Any] = {
            "first_name": {"customer": Customer(forged, "Example", email="sam@example.com")},
            "last_name": {"customer": Customer("Sam", forged, email="sam@example.com")},
            "agent": {"agent": SourceAgent(forged)},
            "vehicle": {"vehicle": None, "interest": VehicleOfInterest(make=forged)},
        }
        text = staff_mail(a_view(**changes[member])).text
        assert [line for line in text.splitlines() if line.startswith("How to")] == ["How to reach them"]


def test_a_mail_names_another_lead_that_may_be_of_the_same_person() -> None:
    text = " ".join(staff_mail(a_view(may_be_same_person_as="01KE7AQ2N0V5X3J8R6T4Y9W1ZD")).text.split())
    assert "This may be the same person as lead 01KE7AQ2N0V5X3J8R6T4Y9W1ZD" in text
