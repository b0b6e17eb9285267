"""Leads as they are delivered: one complete sample, and any valid lead. Nobody in them is real."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import UNSET
from tests.leads.json_values import as_body, json_values

from dealer_agent.leads.consent import with_allowed_contact_points
from dealer_agent.leads.customer_links import CustomerLinks
from dealer_agent.leads.lead_view import LeadView, RooftopView, VisitTime, VisitView, extras_of
from dealer_agent.leads.mails import Mail, visit_mail
from dealer_agent.leads.received_lead import contact_points, source_agent, with_normal_phone
from dealer_agent.leads.statuses import AT_A_TIME, VisitStatus
from dealer_agent.leads.wording import VISITS
from dealer_agent.protocol.envelope import decode_request
from dealer_agent.protocol.requests import Address, Appointment, Customer, SourceAgent, TradeIn, VehicleOfInterest
from dealer_agent.protocol.responses import PostalAddress
from dealer_agent.protocol.skill import LeadSubmitRequest
from dealer_agent.protocol.vehicle import Fee, Vehicle
from dealer_agent.protocol.vocabulary import proto, vocabularies_of

WIRE = vocabularies_of("proto", proto())
LEAD_ID = "01KE7AQ2N0V5X3J8R6T4Y9W1ZB"
APPOINTMENT_ID = "01KE7AQ2N0V5X3J8R6T4Y9W1ZA"
VIN = "1HGCY2F57RA000001"
LINKS = CustomerLinks("example", "https://dealer.test", bytes(range(32)), timedelta(days=30))
RECEIVED = datetime(2026, 3, 2, 21, 5, 7, 123456, tzinfo=UTC)
TEN_IN_NASHVILLE = datetime(2026, 3, 3, 16, tzinfo=UTC)

ROOFTOP = RooftopView(
    name="Example Motors Nashville",
    zone="America/Chicago",
    url="https://www.example.com/nashville",
    phone="+12025550110",
    email="nashville@example.com",
    address=PostalAddress("1200 Example Pike", "Nashville", "TN", "37203", address_line_2="Suite 2"),
)
CUSTOMER = Customer(
    "Jordan",
    "Example",
    email="jordan@example.com",
    phone="+12025550123",
    preferred_contact="email",
    address=Address("1 Sample Street", "Unit 4", "Franklin", "TN", "37064", "US"),
)
LISTING = Vehicle(
    vehicle_id=f"vin-{VIN}",
    status="available",
    rooftop=ROOFTOP.name,
    updated_at=RECEIVED,
    vin=VIN,
    stock="P1234",
    year=2024,
    make="Honda",
    model="Accord",
    trim="EX",
    condition="used",
    price=27999,
    msrp=33000,
    fees=(Fee("Documentation fee", 599),),
    mileage=28450,
    body="sedan",
    transmission="automatic",
    driveline="fwd",
    fuel="gas",
    exterior_color="Gray",
    interior_color="Black",
    features=("Heated seats", "Moonroof"),
    photos=("https://www.example.com/1.jpg", "https://www.example.com/2.jpg"),
    vdp_url="https://www.example.com/p1234",
)
TRADE_IN = TradeIn(year=2016, make="Ford", model="Focus", mileage=91000, condition="good", notes="A small dent")
VISIT = VisitView(
    appointment_id=APPOINTMENT_ID,
    status="confirmed",
    rooftop=ROOFTOP,
    request=Appointment("test_drive", appointment_at="2026-03-03T16:00:00Z"),
    changed_at=RECEIVED,
    times=(VisitTime(TEN_IN_NASHVILLE, TEN_IN_NASHVILLE + timedelta(hours=1)),),
)
VIEW = LeadView(
    lead_id=LEAD_ID,
    dealer_id="example-motors",
    dealer_name="Example Motors Group",
    rooftop=ROOFTOP,
    received_at=RECEIVED,
    agent=SourceAgent("Example Shopping Agent", "https://agent.example.com"),
    customer=CUSTOMER,
    channels=("email", "sms"),
    vehicle=LISTING,
    interest=VehicleOfInterest(vin=VIN),
    messages=("Is it still there?",),
)


def a_view(**changes: Any) -> LeadView:
    """The sample lead with changes, without the contact points that may not be used."""
    view = replace(VIEW, **changes)
    return replace(view, customer=with_allowed_contact_points(view.customer, view.channels))


def a_visit(status: VisitStatus = "confirmed", *, request: Appointment | None = None, **changes: Any) -> VisitView:
    """The sample visit with changes; only one with a confirmed time keeps it."""
    times = VISIT.times if status in AT_A_TIME else ()
    return replace(VISIT, **{"status": status, "request": request or VISIT.request, "times": times, **changes})


NASTY = (
    "",
    " ",
    "\0",
    "\x1b[31m",
    "\ud800",
    "\udfff\ud800",
    "\ufffe\uffff",
    "\u202eelpmaxe",
    "\u200f\u05d0\u200e",
    "]]>",
    "<![CDATA[",
    "&amp;&#0;",
    "<adf/>",
    "\U0001f469\u200d\U0001f527",
    "a\r\nb\rc\x85d\u2028e\u2029f\x0bg\tz",
    "\r\nBcc: other@example.com",
    "x" * 5000,
    "\N{COMBINING ACUTE ACCENT}" * 50,
    "\u200b\ufeff",
)
nasty = st.one_of(st.text(st.characters(), max_size=30), st.sampled_from(NASTY))
"""Any string at all, lone surrogates included."""

sent = st.one_of(st.text(max_size=30), st.sampled_from([text for text in NASTY if "\ud800" not in text]))
"""Any string that a body can bring: lone surrogates are not UTF-8."""


def _at_most(length: int) -> st.SearchStrategy[str]:
    """The same within a bound of the schema."""
    return sent.map(lambda text: text[:length])


naturals = st.one_of(st.integers(0, 200_000), st.sampled_from([0, 2**63 - 1]))
numbers = st.floats(0, 1e300)
moments = st.datetimes(datetime(2, 1, 2), datetime(9998, 12, 30), timezones=st.just(UTC))  # noqa: DTZ001
near = st.datetimes(datetime(2025, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
zones = st.sampled_from(
    ["America/Chicago", "America/New_York", "America/Phoenix", "Pacific/Honolulu", "Asia/Kathmandu"]
)


def _members(text: st.SearchStrategy[str]) -> dict[str, st.SearchStrategy[Any]]:
    """A strategy for each member of a vehicle."""
    words = (
        "vin stock make model trim body transmission driveline engine fuel charge_port exterior_color interior_color "
        "vdp_url description notes"
    )
    counts = "year list_price msrp mileage displacement_cc city_mpg highway_mpg"
    return {
        **dict.fromkeys(words.split(), text),
        **dict.fromkeys(counts.split(), naturals),
        **dict.fromkeys(["electric_range_mi", "battery_kwh", "motor_power_hp"], numbers),
        "vehicle_type": st.sampled_from(["car", "motorcycle", "trailer", "rv", "other"]),
        "dc_fast_charge": st.booleans(),
        "fees": st.lists(st.fixed_dictionaries({"name": text, "amount": naturals}), max_size=2),
        "features": st.lists(text, max_size=3),
        "photos": st.lists(text, max_size=3),
        "other_attributes": st.dictionaries(
            _at_most(200), st.one_of(text, st.booleans(), naturals, numbers), max_size=2
        ),
        "inventory_date": st.dates(date(1900, 1, 1)).map(str),
    }


def _vehicles(own: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    members = {**_members(_at_most(2000)), **own}
    known = st.lists(st.sampled_from(sorted(members)), max_size=8, unique=True).flatmap(
        lambda names: st.fixed_dictionaries({name: members[name] for name in names})
    )
    extras = st.dictionaries(_at_most(200).filter(lambda name: name not in members), json_values, max_size=2)
    return st.builds(lambda extra, told: extra | told, extras, known)


def _timestamps(offset: bool) -> st.SearchStrategy[str]:
    times = st.one_of(near, moments).map(lambda moment: moment.replace(tzinfo=None).isoformat())
    return times.map(lambda text: f"{text}Z" if offset else text)


def _windows(offset: bool) -> st.SearchStrategy[list[dict[str, str]]]:
    def window(start: datetime, minutes: int | None) -> dict[str, str]:
        end = {} if minutes is None else {"end": start + timedelta(minutes=minutes)}
        return {
            name: f"{moment.replace(tzinfo=None).isoformat()}{'Z' if offset else ''}"
            for name, moment in {"start": start, **end}.items()
        }

    return st.lists(st.builds(window, near, st.none() | st.integers(1, 10_000)), min_size=1, max_size=12)


_appointments = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"appointment_at": _timestamps(offset=True)}, optional={"timezone": zones}),
    st.fixed_dictionaries({"requested_windows": _windows(offset=True)}, optional={"timezone": zones}),
    st.fixed_dictionaries({"requested_windows": _windows(offset=False), "timezone": zones}),
).flatmap(
    lambda times: st.fixed_dictionaries(
        {
            "appointment_type": st.sampled_from(sorted(VISITS)),
            **{name: st.just(value) for name, value in times.items()},
        },
        optional={"duration_minutes": st.integers(15, 2**63 - 1), "notes": _at_most(2000)},
    )
)
_ways = st.sampled_from(
    [
        {"email": "jordan@example.com"},
        {"phone": "+1 202 555 0123"},
        {"email": "\U0001f600@example.com", "phone": "+442079460000"},
    ]
)
_customers = _ways.flatmap(
    lambda ways: st.fixed_dictionaries(
        {
            "first_name": _at_most(200).filter(bool),
            "last_name": _at_most(200).filter(bool),
            **{name: st.just(value) for name, value in ways.items()},
        },
        optional={
            "preferred_contact": st.sampled_from(["email", "phone", "sms", "any"]),
            "address": st.dictionaries(
                st.sampled_from(Address.__struct_fields__),
                _at_most(200),
            ),
        },
    )
)
payloads = st.fixed_dictionaries(
    {
        "type": st.just("lead.submit.request"),
        "customer": _customers,
        "source_agent": st.one_of(
            _at_most(200),
            st.fixed_dictionaries({"name": _at_most(200).filter(bool)}, optional={"url": _at_most(2000)}),
        ),
        "consent": st.just({}),
    },
    optional={
        "vehicle_of_interest": _vehicles(
            {"vehicle_id": _at_most(2000), "condition": st.sampled_from(["new", "used", "cpo"]), "price": naturals}
        ),
        "trade_in": _vehicles({"condition": st.sampled_from(["excellent", "good", "fair", "poor"])}),
        "appointment": _appointments,
        "message": _at_most(4000),
        "submitted_at": _timestamps(offset=True),
    },
)
"""Every valid lead, as JSON values; consent is checked elsewhere."""

_listings = st.builds(
    lambda known, more: msgspec.convert(msgspec.to_builtins(LISTING) | known | more, Vehicle),
    st.fixed_dictionaries({"status": st.sampled_from(["available", "intransit", "pending"])}),
    st.fixed_dictionaries({}, optional=_members(sent)),
)
_stretches = st.builds(
    lambda start, minutes: VisitTime(start, None if minutes is None else start + timedelta(minutes=minutes)),
    near,
    st.none() | st.integers(15, 3000),
)
_rooftops = st.builds(
    lambda name, zone, bare: RooftopView(name=name, zone=zone) if bare else replace(ROOFTOP, name=name, zone=zone),
    sent,
    zones,
    st.booleans(),
)


def lead_in(payload: dict[str, Any]) -> LeadSubmitRequest:
    """The lead, as the service decodes it. Fails if it is not valid."""
    part = {"data": payload, "mediaType": "application/vnd.proto.lead-submit-request+json"}
    message = {"messageId": "01", "role": "ROLE_USER", "parts": [part]}
    body = {"message": message, "configuration": {"acceptedOutputModes": ["application/json"]}}
    request = decode_request(as_body(body), WIRE)
    assert isinstance(request.payload, LeadSubmitRequest), request.problems
    return request.payload


@st.composite
def views(draw: Callable[..., Any]) -> LeadView:
    """Any admitted lead, with any listing or none, any state of its visit, and any channels left."""
    payload = draw(payloads)
    lead = lead_in(payload)
    rooftop = draw(_rooftops)
    visits: tuple[VisitView, ...] = ()
    if lead.appointment is not UNSET:
        status = draw(st.sampled_from(["requested", "proposed", "confirmed", "rejected", "cancelled", "unavailable"]))
        count = {"proposed": 3, "confirmed": 1, "cancelled": 1}.get(status, 0)
        visits = (
            VisitView(
                appointment_id=None if status == "unavailable" else APPOINTMENT_ID,
                status=status,
                rooftop=rooftop,
                request=lead.appointment,
                changed_at=RECEIVED,
                times=tuple(draw(_stretches) for _ in range(count)),
            ),
        )
    return LeadView(
        lead_id=LEAD_ID,
        dealer_id="example-motors",
        dealer_name="Example Motors Group",
        rooftop=rooftop,
        received_at=RECEIVED,
        submitted_at=None if lead.submitted_at is UNSET else datetime.fromisoformat(lead.submitted_at),
        agent=source_agent(lead),
        customer=with_normal_phone(lead.customer, contact_points(lead.customer)),
        channels=tuple(draw(st.sets(st.sampled_from(["email", "phone", "sms"])))),
        vehicle=draw(st.none() | _listings),
        interest=lead.vehicle_of_interest,
        interest_extras=extras_of(payload.get("vehicle_of_interest"), VehicleOfInterest),
        trade_in=lead.trade_in,
        trade_in_extras=extras_of(payload.get("trade_in"), TradeIn),
        messages=() if lead.message is UNSET else (lead.message,),
        visits=visits,
        resend=draw(st.booleans()),
    )


def confirmation_of(view: LeadView) -> Mail:
    """The mail about the last confirmed visit."""
    return visit_mail(view, [visit for visit in view.visits if visit.status == "confirmed"][-1], LINKS)


def cancellation_of(view: LeadView) -> Mail:
    """The mail about the last cancelled visit."""
    return visit_mail(view, [visit for visit in view.visits if visit.status == "cancelled"][-1], LINKS)
