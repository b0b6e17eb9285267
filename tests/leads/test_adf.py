"""The elements of ADF for each member of a lead: the table of docs/reference/delivery.md, "ADF", row by row."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from msgspec import UNSET
from tests.leads.adf_documents import comments, prospect_of, text_at
from tests.leads.lead_views import CUSTOMER, LEAD_ID, LISTING, ROOFTOP, TRADE_IN, VIN, a_view, a_visit

from dealer_agent.leads.lead_view import RooftopView, VisitTime
from dealer_agent.protocol.requests import (
    Address,
    Appointment,
    Customer,
    RequestedWindow,
    SourceAgent,
    VehicleOfInterest,
)
from dealer_agent.protocol.vehicle import Fee

pytestmark = pytest.mark.outside_protocol("ADF")


def test_the_prospect_is_named_by_the_lead_and_says_when_the_buyer_asked() -> None:
    prospect = prospect_of(a_view(submitted_at=datetime(2026, 3, 2, 21, 4, 59, 999, tzinfo=UTC)))
    (first, *_) = prospect
    assert first.tag == "id"
    assert first.text == LEAD_ID
    assert first.get("source") == "dealer-agent"
    assert text_at(prospect, "requestdate") == "2026-03-02T15:04:59-06:00"


@pytest.mark.parametrize(
    ("moment", "zone", "written"),
    [
        (datetime(2026, 7, 2, 21, 5, tzinfo=UTC), "America/Chicago", "2026-07-02T16:05:00-05:00"),
        (datetime(2026, 7, 2, 21, 5, tzinfo=UTC), "America/Phoenix", "2026-07-02T14:05:00-07:00"),
        # Before 1883 clocks went by the sun: no offset in whole minutes.
        (datetime(1700, 1, 1, 12, tzinfo=UTC), "America/Chicago", "1700-01-01T12:00:00+00:00"),
    ],
)
def test_the_request_date_is_on_the_rooftops_clock(moment: datetime, zone: str, written: str) -> None:
    rooftop = RooftopView(name="Example Motors", zone=zone, email="sales@example.com")
    assert text_at(prospect_of(a_view(submitted_at=moment, rooftop=rooftop)), "requestdate") == written


def test_a_lead_without_a_submission_time_was_asked_when_it_was_received() -> None:
    assert text_at(prospect_of(a_view(submitted_at=None)), "requestdate") == "2026-03-02T15:05:07-06:00"


@pytest.mark.parametrize(("resend", "status"), [(False, "new"), (True, "resend")])
def test_a_lead_sent_again_says_so_under_the_same_id(resend: bool, status: str) -> None:
    prospect = prospect_of(a_view(resend=resend))
    assert prospect.get("status") == status
    assert text_at(prospect, "id") == LEAD_ID


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("id", f"vin-{VIN}"),
        ("year", "2024"),
        ("make", "Honda"),
        ("model", "Accord"),
        ("vin", VIN),
        ("stock", "P1234"),
        ("trim", "EX"),
        ("bodystyle", "sedan"),
        ("transmission", "automatic"),
        ("odometer[@units='mi']", "28450"),
        ("colorcombination/interiorcolor", "Black"),
        ("colorcombination/exteriorcolor", "Gray"),
        ("colorcombination/preference", "1"),
        ("imagetag", "https://www.example.com/1.jpg"),
        ("price[@type='asking'][@currency='USD']", "27999"),
        ("pricecomments", "MSRP $33,000. Included charges: Documentation fee $599"),
        ("option[1]/optionname", "Heated seats"),
        ("option[2]/optionname", "Moonroof"),
    ],
)
def test_a_vehicle_known_to_the_stock_is_filled_from_its_listing(path: str, text: str) -> None:
    claim = VehicleOfInterest(
        vin=VIN,
        stock="X",
        year=1999,
        make="Yugo",
        model="GV",
        trim="X",
        price=1,
        msrp=1,
        mileage=1,
        body="van",
        transmission="manual",
        exterior_color="Red",
        interior_color="Red",
        features=("Chauffeur",),
        photos=("https://agent.example.com/x.jpg",),
        condition="new",
        fees=(Fee("None", 0),),
    )
    (vehicle,) = prospect_of(a_view(interest=claim)).findall("vehicle")
    assert text_at(vehicle, path) == text
    assert vehicle.get("status") == "used"
    assert "Yugo" not in "".join(map(str, vehicle.itertext()))


def test_a_listing_comes_with_what_its_system_has_no_field_for() -> None:
    lines = comments(prospect_of(a_view()), "vehicle")
    assert lines == [
        "Stock status: available, Example Motors Nashville",
        "Fuel: gas",
        "Drive: fwd",
        "Web page: https://www.example.com/p1234",
    ]


def test_what_a_listing_cannot_say_is_kept_of_the_wish_as_the_agents_words() -> None:
    interest = VehicleOfInterest(vin=VIN, notes="With a tow hitch", other_attributes={"seats": 5})
    lines = comments(
        prospect_of(a_view(interest=interest, interest_extras={"needed_by": "spring", "paid": ["cash"]})), "vehicle"
    )
    assert lines[-4:] == [
        "Buyer's agent: Notes: With a tow hitch",
        "Buyer's agent: seats: 5",
        "Buyer's agent: needed_by: spring",
        'Buyer\'s agent: paid: ["cash"]',
    ]


@pytest.mark.parametrize(
    ("condition", "status", "certified"),
    [("new", "new", False), ("used", "used", False), ("cpo", "used", True), (UNSET, None, False)],
)
@pytest.mark.parametrize("listed", [True, False])
def test_the_sale_condition_is_the_status_and_cpo_a_comment(
    condition: Any, status: str | None, certified: bool, listed: bool
) -> None:
    listing = msgspec.structs.replace(LISTING, condition=condition) if listed else None
    interest = UNSET if listed else VehicleOfInterest(make="Honda", condition=condition)
    prospect = prospect_of(a_view(vehicle=listing, interest=interest))
    assert prospect.find("vehicle").get("status") == status  # type: ignore[union-attr]
    assert ("Certified pre-owned" in comments(prospect, "vehicle")) == certified


@pytest.mark.parametrize(
    ("kind", "interest"),
    [("test_drive", "test-drive"), ("sales", "buy"), ("trade_in", "buy"), ("phone_call", "buy"), (None, "buy")],
)
def test_the_first_vehicle_is_for_a_test_drive_where_one_is_asked_for(kind: Any, interest: str) -> None:
    visits = () if kind is None else (a_visit("requested", request=Appointment(kind)),)
    vehicles = prospect_of(a_view(visits=visits, trade_in=TRADE_IN)).findall("vehicle")
    assert [vehicle.get("interest") for vehicle in vehicles] == [interest, "trade-in"]


def test_a_vehicle_that_is_not_in_stock_is_shown_as_the_buyer_described_it() -> None:
    interest = VehicleOfInterest(
        vehicle_id="theirs-1",
        year=2025,
        make="Kia",
        model="EV9",
        price=50000,
        vehicle_type="car",
        electric_range_mi=304.0,
        dc_fast_charge=True,
        photos=("https://agent.example.com/1.jpg",),
        description="Six seats",
    )
    prospect = prospect_of(a_view(vehicle=None, interest=interest, interest_extras={"towing": False}))
    vehicle = prospect.find("vehicle")
    assert vehicle is not None
    assert text_at(vehicle, "make") == "Kia"
    assert text_at(vehicle, "price[@type='quote'][@currency='USD']") == "50000"
    # Only the stock's own ids are ids.
    assert vehicle.find("id") is None
    assert comments(prospect, "vehicle") == [
        "Not found in stock when the lead came.",
        "Vehicle id: theirs-1",
        "Type: car",
        "Electric range: 304 mi",
        "DC fast charging: yes",
        "Description: Six seats",
        "Photo: https://agent.example.com/1.jpg",
        "towing: no",
    ]


@pytest.mark.parametrize("interest", [UNSET, VehicleOfInterest(), VehicleOfInterest(make="", model=" ")])
def test_an_unknown_vehicle_is_not_specified(interest: Any) -> None:
    prospect = prospect_of(a_view(vehicle=None, interest=interest))
    assert [text_at(prospect, f"vehicle/{name}") for name in ("year", "make", "model")] == ["Not specified"] * 3
    assert (comments(prospect, "vehicle") == ["The customer named no vehicle."]) == (interest is UNSET)


@pytest.mark.parametrize(
    ("amounts", "kind", "amount", "words"),
    [
        ({"price": 5, "list_price": 6, "msrp": 7}, "asking", "5", "List price $6. MSRP $7"),
        ({"list_price": 6, "msrp": 7}, "asking", "6", "The price is the list price. MSRP $7"),
        ({"msrp": 7}, "msrp", "7", None),
        ({}, None, None, None),
        ({"fees": (Fee("Doc", 599), Fee(" ", 1))}, None, None, "Mandatory charges: Doc $599, fee $1"),
    ],
)
def test_the_price_is_the_advertised_one_else_the_list_price_else_the_msrp(
    amounts: dict[str, Any], kind: str | None, amount: str | None, words: str | None
) -> None:
    bare = {"price": UNSET, "list_price": UNSET, "msrp": UNSET, "fees": UNSET}
    vehicle = prospect_of(a_view(vehicle=msgspec.structs.replace(LISTING, **bare | amounts))).find("vehicle")
    assert vehicle is not None
    price = vehicle.find("price")
    assert (None if price is None else (price.get("type"), price.text)) == (kind and (kind, amount))
    assert text_at(vehicle, "pricecomments") == words


def test_a_trade_in_follows_the_wanted_vehicle() -> None:
    prospect = prospect_of(a_view(trade_in=TRADE_IN, trade_in_extras={"owners": 2}))
    wanted, trade_in = prospect.findall("vehicle")
    assert text_at(wanted, "make") == "Honda"
    assert (trade_in.get("interest"), trade_in.get("status")) == ("trade-in", "used")
    assert [text_at(trade_in, name) for name in ("year", "make", "model", "odometer[@units='mi']", "condition")] == [
        "2016",
        "Ford",
        "Focus",
        "91000",
        "good",
    ]
    assert (text_at(trade_in, "comments") or "").split("\n") == ["Notes: A small dent", "owners: 2"]


def test_a_trade_in_without_a_wanted_vehicle_follows_an_empty_vehicle() -> None:
    prospect = prospect_of(a_view(vehicle=None, interest=UNSET, trade_in=TRADE_IN))
    assert [vehicle.get("interest") for vehicle in prospect.findall("vehicle")] == ["buy", "trade-in"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("name[@part='first'][@type='individual']", "Jordan"),
        ("name[@part='last'][@type='individual']", "Example"),
        ("email[@preferredcontact='1']", "jordan@example.com"),
        ("phone", "+12025550123"),
        ("address/street[@line='1']", "1 Sample Street"),
        ("address/street[@line='2']", "Unit 4"),
        ("address/city", "Franklin"),
        ("address/regioncode", "TN"),
        ("address/postalcode", "37064"),
        ("address/country", "US"),
    ],
)
def test_the_customer_is_the_contact(path: str, text: str) -> None:
    assert text_at(prospect_of(a_view()), f"customer/contact/{path}") == text


@pytest.mark.parametrize(
    ("preferred", "channels", "email", "phone", "kind"),
    [
        ("email", ("email", "phone"), "1", None, "voice"),
        ("phone", ("email", "phone"), None, "1", "voice"),
        ("sms", ("sms", "email"), None, "1", "cellphone"),
        ("any", ("email", "phone", "sms"), None, None, "cellphone"),
        (UNSET, ("email", "phone"), None, None, "voice"),
        # What is preferred is not allowed any more.
        ("sms", ("email", "phone"), None, None, "voice"),
    ],
)
def test_the_preferred_contact_is_marked_while_consent_allows_it(
    preferred: Any, channels: tuple[str, ...], email: str | None, phone: str | None, kind: str
) -> None:
    customer = msgspec.structs.replace(CUSTOMER, preferred_contact=preferred)
    contact = prospect_of(a_view(customer=customer, channels=channels)).find("customer/contact")
    assert contact is not None
    assert contact.find("email").get("preferredcontact") == email  # type: ignore[union-attr]
    number = contact.find("phone")
    assert number is not None
    assert (number.get("preferredcontact"), number.get("type")) == (phone, kind)


@pytest.mark.parametrize(
    ("address", "streets", "city"),
    [
        (UNSET, [], None),
        (Address(), [], None),
        (Address(address_line_1=" ", city=""), [], None),
        (Address(city="Franklin"), ["Not specified"], "Franklin"),
        (Address(address_line_2="Unit 4"), ["Unit 4"], None),
    ],
)
def test_an_address_has_a_street_or_is_left_out(address: Any, streets: list[str], city: str | None) -> None:
    customer = Customer("Jordan", "Example", email="jordan@example.com", address=address)
    contact = prospect_of(a_view(customer=customer)).find("customer/contact")
    assert contact is not None
    assert (contact.find("address") is not None) == bool(streets)
    assert [street.text for street in contact.findall("address/street")] == streets
    assert text_at(contact, "address/city") == city


@pytest.mark.parametrize(
    ("channels", "words"),
    [
        (
            ("sms", "phone", "email"),
            ["The customer agreed to be contacted by e-mail, phone, and text message.", "Prefers e-mail."],
        ),
        (
            ("email",),
            [
                "The customer agreed to be contacted by e-mail.",
                "Do not contact by phone or text message.",
                "Prefers e-mail.",
            ],
        ),
        (("phone",), ["The customer agreed to be contacted by phone.", "Do not contact by e-mail or text message."]),
        (
            (),
            [
                "The customer agrees to no channel: the consent was withdrawn or has expired.",
                "Do not contact by e-mail, phone, or text message.",
            ],
        ),
    ],
)
def test_the_allowed_channels_are_named_in_prose(channels: tuple[str, ...], words: list[str]) -> None:
    lines = comments(prospect_of(a_view(channels=channels, messages=())))
    assert lines == [
        *words,
        "Sent on the customer's behalf by an AI shopping agent.",
        "Source: Example Shopping Agent (says so itself, not verified)",
    ]


def test_the_customers_own_words_stand_last_and_keep_their_lines() -> None:
    request = Appointment("test_drive", notes="I bring\r\nmy dog")
    prospect = prospect_of(a_view(visits=(a_visit(request=request),), messages=("Hello,\n\nis it red?", "Or blue?")))
    assert comments(prospect)[-11:] == [
        "Sent on the customer's behalf by an AI shopping agent.",
        "Source: Example Shopping Agent (says so itself, not verified)",
        "Notes for the visit:",
        "I bring",
        "my dog",
        "Message from the customer:",
        "Hello,",
        "",
        "is it red?",
        "Later message from the customer:",
        "Or blue?",
    ]


TWO = (
    VisitTime(datetime(2026, 3, 4, 15, tzinfo=UTC), datetime(2026, 3, 4, 16, tzinfo=UTC)),
    VisitTime(datetime(2026, 3, 5, 20, 30, tzinfo=UTC)),
)
WINDOWS = Appointment(
    "trade_in_appraisal",
    requested_windows=[
        RequestedWindow("2026-03-03T09:00:00", "2026-03-03T12:00:00"),
        RequestedWindow("2026-03-04T15:00Z"),
    ],
    timezone="America/New_York",
    duration_minutes=45,
)


@pytest.mark.parametrize(
    ("visit", "words"),
    [
        (
            a_visit("confirmed"),
            [
                "Test drive confirmed, at Example Motors Nashville",
                "When: Tuesday, March 3, 2026, 10:00 AM to 11:00 AM CST",
            ],
        ),
        (
            a_visit("done"),
            [
                "Test drive done, at Example Motors Nashville",
                "When: Tuesday, March 3, 2026, 10:00 AM to 11:00 AM CST",
            ],
        ),
        (
            a_visit("no_show"),
            [
                "Test drive missed, at Example Motors Nashville",
                "When: Tuesday, March 3, 2026, 10:00 AM to 11:00 AM CST",
            ],
        ),
        (
            a_visit("cancelled"),
            [
                "Test drive cancelled, at Example Motors Nashville",
                "When: Tuesday, March 3, 2026, 10:00 AM to 11:00 AM CST",
            ],
        ),
        (
            a_visit("proposed", times=TWO),
            [
                "Test drive asked for, other times proposed, at Example Motors Nashville",
                "Asked for: Tuesday, March 3, 2026, 10:00 AM CST",
                "Proposed: Wednesday, March 4, 2026, 9:00 AM to 10:00 AM CST",
                "Proposed: Thursday, March 5, 2026, 2:30 PM CST",
                "Nothing is booked: the customer has yet to choose.",
            ],
        ),
        (
            a_visit("unavailable", request=WINDOWS, appointment_id=None),
            [
                "Trade-in appraisal asked for, no time found, at Example Motors Nashville",
                # On the rooftop's clock, though the buyer reads another.
                "Asked for: Tuesday, March 3, 2026, 8:00 AM to 11:00 AM CST",
                "Asked for: Wednesday, March 4, 2026, 9:00 AM CST",
                "Nothing is booked: please find a time with the customer.",
                "Length asked for: 45 minutes",
            ],
        ),
        (
            a_visit("requested", request=Appointment("video_call")),
            [
                "Video call asked for, at Example Motors Nashville",
                "Nothing is booked: please agree on a time with the customer.",
            ],
        ),
        (
            a_visit("rejected", request=Appointment("service")),
            ["Service visit declined, at Example Motors Nashville"],
        ),
    ],
)
def test_a_visit_is_described_on_the_rooftops_clock(visit: Any, words: list[str]) -> None:
    lines = comments(prospect_of(a_view(visits=(visit,))))
    assert lines[: len(words)] == words
    assert lines[len(words)].startswith("The customer agreed")


def test_the_first_ten_windows_are_listed_and_the_others_counted() -> None:
    windows = [RequestedWindow(f"2026-03-{day:02}T15:00:00Z") for day in range(1, 14)]
    visit = a_visit("unavailable", request=Appointment("sales", requested_windows=windows))
    asked = [line for line in comments(prospect_of(a_view(visits=(visit,)))) if line.startswith("Asked for")]
    assert len(asked) == 11
    assert asked[-1] == "Asked for: 3 more times"


@pytest.mark.parametrize(("status", "shared"), [("confirmed", True), ("proposed", False)])
def test_a_trade_in_is_appraised_at_a_confirmed_test_drive(status: Any, shared: bool) -> None:
    lines = comments(prospect_of(a_view(visits=(a_visit(status),), trade_in=TRADE_IN)))
    assert ("The trade-in is to be appraised at the same visit." in lines) == shared


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("vendorname", "Example Motors Nashville"),
        ("url", "https://www.example.com/nashville"),
        ("contact/name[@part='full'][@type='business']", "Example Motors Nashville"),
        ("contact/email", "nashville@example.com"),
        ("contact/phone[@type='voice']", "+12025550110"),
        ("contact/address/street[@line='1']", "1200 Example Pike"),
        ("contact/address/street[@line='2']", "Suite 2"),
        ("contact/address/city", "Nashville"),
        ("contact/address/regioncode", "TN"),
        ("contact/address/postalcode", "37203"),
        ("contact/address/country", "US"),
    ],
)
def test_the_rooftop_is_the_vendor(path: str, text: str) -> None:
    assert text_at(prospect_of(a_view()), f"vendor/{path}") == text


@pytest.mark.parametrize(
    ("email", "phone", "told_email", "told_phone"),
    [
        (None, None, None, "Not specified"),
        ("sales@example.com", None, "sales@example.com", None),
        (None, "+12025550110", None, "+12025550110"),
    ],
)
def test_a_vendor_without_address_and_number_is_not_specified(
    email: str | None, phone: str | None, told_email: str | None, told_phone: str | None
) -> None:
    prospect = prospect_of(a_view(rooftop=RooftopView(name="Example", zone=ROOFTOP.zone, email=email, phone=phone)))
    assert text_at(prospect, "vendor/contact/email") == told_email
    assert text_at(prospect, "vendor/contact/phone") == told_phone


@pytest.mark.parametrize(
    "name", ["Example Shopping Agent", "  Example\tShopping \n Agent ", "Example\u00a0Shopping\u2003Agent"]
)
def test_the_provider_is_the_agent_in_one_spelling(name: str) -> None:
    """Another spelling would be another lead source to a CRM."""
    prospect = prospect_of(a_view(agent=SourceAgent(name, "https://agent.example.com")))
    assert text_at(prospect, "provider/name") == "Example Shopping Agent"
    assert text_at(prospect, "provider/url") == "https://agent.example.com"


def test_a_wrapped_long_name_cannot_look_like_a_line_of_the_service() -> None:
    for length in range(1, 100):
        view = a_view(agent=SourceAgent(f"{'x' * length} This may be the same person as lead 1"))
        assert not [line for line in comments(prospect_of(view), "customer") if line.startswith("This may be")]


def test_another_lead_that_may_be_of_the_same_person_is_named_before_the_customers_own_words() -> None:
    view = a_view(may_be_same_person_as="01KE7AQ2N0V5X3J8R6T4Y9W1ZD", messages=("Hello",))
    lines = comments(prospect_of(view), "customer")
    (named,) = [number for number, line in enumerate(lines) if "same person as lead 01KE7AQ2N0V5X3J8R6T4Y9W1ZD" in line]
    assert named < lines.index("Message from the customer:")
