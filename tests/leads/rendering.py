"""A few invented leads as every reader gets them, and the files in `rendered/` that keep what they got last.

`.venv/bin/python -m tests.leads.rendering` writes the files anew.
"""

import csv
import io
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import msgspec
from msgspec import UNSET
from tests.keeping import keep
from tests.leads.lead_views import (
    CUSTOMER,
    LISTING,
    RECEIVED,
    ROOFTOP,
    TEN_IN_NASHVILLE,
    TRADE_IN,
    VIN,
    a_view,
    a_visit,
    cancellation_of,
    confirmation_of,
)

from dealer_agent.leads.adf import render_adf
from dealer_agent.leads.icalendar import CalendarVisit, calendar_file
from dealer_agent.leads.lead_json import render_json
from dealer_agent.leads.lead_view import (
    CancelledVisit,
    DeliveredMessage,
    ErasedLead,
    LeadView,
    RooftopView,
    VisitTime,
    VisitView,
)
from dealer_agent.leads.mails import Mail, adf_mail_subject, staff_mail
from dealer_agent.leads.spreadsheet import COLUMNS, cells
from dealer_agent.leads.us_formats import day_and_time, zone_name
from dealer_agent.protocol.requests import (
    Appointment,
    AppointmentType,
    Customer,
    RequestedWindow,
    SourceAgent,
    TradeIn,
    VehicleOfInterest,
)
from dealer_agent.protocol.responses import PostalAddress

KEPT = Path(__file__).parent / "rendered"

BARE_ROOFTOP = RooftopView(name="Example Motors Honolulu", zone="Pacific/Honolulu")
DAYS = tuple(
    VisitTime(TEN_IN_NASHVILLE + timedelta(days=n), TEN_IN_NASHVILLE + timedelta(days=n, hours=1)) for n in range(3)
)


def _windows(count: int) -> list[RequestedWindow]:
    return [RequestedWindow(f"2026-03-{day:02}T09:00:00", f"2026-03-{day:02}T11:30:00") for day in range(4, 4 + count)]


def _visits() -> tuple[VisitView, ...]:
    """A visit in every state but the confirmed one."""
    declined = Appointment("handover", requested_windows=_windows(10), timezone="America/New_York")
    in_vain = Appointment("sales", requested_windows=_windows(11), timezone="America/Chicago")
    call = Appointment("video_call", appointment_at="2026-03-04T16:00:00Z")
    # One day on the buyer's clock, another on the rooftop's.
    late = Appointment("trade_in", appointment_at="2026-11-01T06:30:00Z", duration_minutes=45, notes="One\n\ntwo")
    return (
        a_visit("cancelled", request=Appointment("service", notes="Oil change")),
        a_visit("rejected", request=declined),
        a_visit("unavailable", appointment_id=None, request=in_vain),
        a_visit("proposed", times=DAYS[:1], request=call),
        a_visit("requested", rooftop=BARE_ROOFTOP, request=late),
    )


def leads() -> dict[str, LeadView]:
    """Name to lead: all that can be known, nothing but what must be, and visits in every state."""
    return {
        "whole": a_view(
            submitted_at=datetime(2026, 3, 2, 21, 5, tzinfo=UTC),
            trade_in=TRADE_IN,
            trade_in_extras={"keys": 2},
            messages=("Is it still there?", "I could come by\nafter work, at half past five."),
            visits=(a_visit(),),
        ),
        "bare": a_view(
            rooftop=BARE_ROOFTOP,
            agent=SourceAgent("Example Agent"),
            customer=Customer("Sam", "Sample", phone="+442079460000", preferred_contact="phone"),
            channels=("phone", "sms"),
            vehicle=None,
            interest=VehicleOfInterest(),
            messages=(),
        ),
        "wish": a_view(
            agent=SourceAgent("Example Agent", url="https://agent.example.com/about"),
            channels=("email", "phone", "sms"),
            customer=Customer("Sam", "Sample", email="sam@example.com", phone="+12025550124", preferred_contact="sms"),
            vehicle=None,
            interest=VehicleOfInterest(
                year=2023, make="Subaru", model="Outback", vehicle_type="other", exterior_color="deep_blue", price=31000
            ),
            interest_extras={"towbar": True, "seats": 7.0, "wheels": {"inches": 19}, "roof": "panoramic"},
            trade_in=TradeIn(vin=VIN, year=2012, make="Ford", condition="poor"),
            visits=(a_visit("proposed", times=DAYS),),
        ),
        "visits": a_view(
            resend=True,
            rooftop=BARE_ROOFTOP,
            channels=("phone",),
            trade_in=TRADE_IN,
            visits=_visits(),
        ),
        "signed": a_view(agent=SourceAgent("Example Agent"), caller="https://agent.example"),
    }


def _long(word: str) -> str:
    return f"{word} ".ljust(300, "x")


def more_leads() -> dict[str, LeadView]:
    """Leads at the edges: every text too long, names that say nothing, one way to reach the customer."""
    in_a_word = Customer(_long("Jordan"), _long("Example"), email="jordan@example.com", preferred_contact="email")
    listing = {name: _long(name) for name in ("make", "model", "trim", "stock", "body", "engine", "exterior_color")}
    plain = replace(
        ROOFTOP, address=PostalAddress("1 Example Way", "Reno", "NV", "89501"), phone=None, zone="US/Pacific"
    )
    asked = Appointment("sales", appointment_at="2026-03-03T16:00:00Z", duration_minutes=30, notes=_long("Notes"))
    return {
        "long": a_view(
            rooftop=replace(ROOFTOP, name=_long("Motors")),
            agent=SourceAgent(_long("Agent"), "https://agent.example.com/" + "x" * 300),
            customer=in_a_word,
            vehicle=msgspec.structs.replace(LISTING, **listing),
            messages=("state-of-the-art " * 9, _long("https://example.com/"), "left\u202eright", "x" * 74, "y" * 75),
            visits=(a_visit(request=asked, rooftop=replace(ROOFTOP, name=_long("Motors"))),),
        ),
        "nameless": a_view(
            rooftop=plain,
            agent=SourceAgent("\u202e"),
            customer=Customer(" ", "\t", email="jordan@example.com", phone="+12025550123", preferred_contact="phone"),
            channels=("email",),
            vehicle=None,
            interest=VehicleOfInterest(make="Kia", condition="new", price=1),
            messages=(" ",),
            visits=(a_visit("requested", rooftop=plain, request=asked),),
        ),
        "cancelled": a_view(
            channels=("phone",),
            customer=Customer(
                "Jo", "Example", email="jordan@example.com", phone="+12025550123", preferred_contact="phone"
            ),
            vehicle=msgspec.structs.replace(LISTING, stock=UNSET, photos=UNSET),
            visits=(a_visit("cancelled", request=asked, times=(VisitTime(TEN_IN_NASHVILLE),)),),
        ),
        "moved": a_view(
            channels=("email", "phone"),
            customer=Customer(
                "Jo", "Example", email="jordan@example.com", phone="+12025550123", preferred_contact="sms"
            ),
            vehicle=msgspec.structs.replace(LISTING, stock=UNSET, price=UNSET),
            visits=(a_visit("confirmed", rooftop=plain, request=asked),),
        ),
    }


def notices() -> dict[str, DeliveredMessage]:
    """What the receivers of a lead are told about it later."""
    erased = ErasedLead(lead_id=a_view().lead_id, rooftop=ROOFTOP, erased_at=RECEIVED)
    ended = CancelledVisit(
        lead_id=a_view().lead_id,
        appointment_id="01KE7AQ2N0V5X3J8R6T4Y9W1ZA",
        kind="test_drive",
        rooftop=ROOFTOP,
        time=VisitTime(TEN_IN_NASHVILLE, TEN_IN_NASHVILLE + timedelta(hours=1)),
        cancelled_at=RECEIVED,
    )
    withdrawn = a_view(channels=("email",), resend=True, withdrawn=("phone", "sms"), visits=(a_visit(),))
    return {"withdrawal": withdrawn, "erasure": erased, "visit_cancelled": ended}


ZONES = (
    *("America/New_York", "America/Phoenix", "US/Eastern", "Pacific/Honolulu", "Pacific/Guam", "Europe/Berlin"),
    *("Asia/Kathmandu", "Asia/Kolkata", "Etc/GMT+5", "UTC", "EST5EDT"),
)


def _mail(mail: Mail) -> str:
    calendars = "".join(f"\n-- {part.name}, {part.method}\n{part.content.decode()}" for part in mail.calendars)
    return f"Subject: {mail.subject}\n\n{mail.text}{calendars}"


def rendered() -> dict[str, str]:
    """File name to text, made now."""
    files: dict[str, str] = {}
    rows = io.StringIO()
    sheet = csv.DictWriter(rows, COLUMNS, lineterminator="\n")
    sheet.writeheader()
    views = leads() | more_leads()
    for name, message in (views | notices()).items():
        files[f"{name}.adf.xml"] = render_adf(message).decode()
        files[f"{name}.json"] = msgspec.json.format(render_json(message), indent=2).decode() + "\n"
        files[f"{name}.mail.txt"] = _mail(staff_mail(message)) + f"\nSubject with ADF: {adf_mail_subject(message)}\n"
    for view in views.values():
        sheet.writerow(cells(view))
    files["leads.csv"] = rows.getvalue()
    for kind in get_args(AppointmentType):
        request = Appointment(kind, appointment_at="2026-03-03T16:00:00Z", notes="Ours")
        visits = (a_visit(request=request),)
        told = [a_view(visits=visits), a_view(visits=visits, trade_in=TRADE_IN), a_view(visits=visits, vehicle=None)]
        files[f"confirmation.{kind}.txt"] = "\n\n".join(_mail(confirmation_of(view)) for view in told)
        off = a_view(visits=(a_visit("cancelled", request=request),))
        files[f"cancellation.{kind}.txt"] = _mail(cancellation_of(off))
    edges = [view for view in more_leads().values() if any(visit.status == "confirmed" for visit in view.visits)]
    files["confirmation.edges.txt"] = "\n\n".join(_mail(confirmation_of(view)) for view in edges)
    summer = RECEIVED + timedelta(days=120)
    files["zones.txt"] = "".join(
        f"{zone}: {day_and_time(moment, zone, RECEIVED)}, {zone_name(zone, moment)}\n"
        for zone in ZONES
        for moment in (TEN_IN_NASHVILLE, summer)
    )
    files["calendar.ics"] = calendar_file("Example Motors", [_entry(), _entry(cancelled=True, end=None)]).decode()
    return {name: text.replace("\r\n", "\n") for name, text in files.items()}


def _entry(**changes: Any) -> CalendarVisit:
    facts: dict[str, Any] = {
        "appointment_id": "01KE7AQ2N0V5X3J8R6T4Y9W1ZA",
        "title": f"Test drive, {CUSTOMER.first_name}, {LISTING.make}",
        "start": TEN_IN_NASHVILLE,
        "end": TEN_IN_NASHVILLE + timedelta(hours=1),
        "rooftop": a_view().rooftop,
        "changed_at": RECEIVED,
        "notes": ("First line", "second\nthird"),
    }
    return CalendarVisit(**(facts | changes))


if __name__ == "__main__":
    keep(KEPT, rendered())
