"""Defines every vehicle field in one table: the members of a listing in search results and details. Pure types.

Each member of `VehicleMembers` and `Vehicle` is a row of the table. Its annotation defines everything about the field
(`protocol.vehicle_field`). The members are typed attributes, so code reads `listing.price`. To add a field, add a
member here. `FIELDS` is the table as data. These derive from it:

- the filters, the sort fields, the facets and their schemas (`protocol.requests`, `protocol.responses`),
- the bounds of the vehicles in a lead, and their lines in texts for people (`leads.wording`),
- the columns of the catalogue and the weights of free-text search (`inventory.catalogue`),
- the names of columns in feeds and the parsing of their cells (`feeds.files`), and the documentation.

An absent member is unknown, never null. Money is whole US dollars, mileage is miles (docs/protocol.md#listings).
"""

from collections.abc import Mapping
from datetime import date
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import fields

from dealer_agent.protocol.vehicle_field import (
    LAST,
    AnyOf,
    Counts,
    Exact,
    Feed,
    Field,
    IsTrue,
    LeadFact,
    MinMax,
    Moment,
    Natural,
    Range,
    VehicleField,
    Vin,
    Year,
)

VehicleType = Literal["car", "motorcycle", "trailer", "rv", "other"]
SaleCondition = Literal["new", "used", "cpo"]
ListingStatus = Literal["available", "intransit", "pending"]
FeedPrice = Literal["advertised", "before_fees"]
"""Whether the price of a feed is the advertised price, or the price before the rooftop's mandatory charges
(docs/protocol.md#feed-price)."""

Scalar = str | int | float | bool

_TRANSMISSIONS = "automatic, manual, cvt, dct, single_speed."
_DRIVELINES = "fwd, rwd, awd, 4wd, 2wd (axle unknown)."
_FUELS = "gas, diesel, hybrid, phev, bev, flex, hydrogen."
_CHARGE_PORTS = "nacs, ccs, j1772, chademo."
_BODIES = (
    "sedan, suv, truck, coupe, hatchback, wagon, convertible, minivan, van; motorcycles: cruiser, sport, touring, "
    "adventure, standard, scooter."
)
_OWN_WORDS = "Other words of the dealer are kept."
_DOLLARS_FILTER = "Whole US dollars, of the advertised price."


class Fee(Struct, frozen=True, omit_defaults=True):
    """A mandatory dealer charge, in whole US dollars."""

    name: str
    amount: Natural


class VehicleMembers(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a listing, a feed's unit, and a buyer's vehicle of interest or trade-in can all have."""

    vin: Annotated[
        str | UnsetType,
        Field("VIN", search="identifier"),
        Exact(20, "The exact VIN.", Vin),
        Feed("vin", "VIN | VIN_No | VIN Number | Vehicle Identification Number"),
    ] = UNSET
    stock: Annotated[
        str | UnsetType,
        Field("Stock number", search="identifier", sort=True),
        Exact(21, "The stock number, without regard to case."),
        Feed("stock", "Stock | Stock # | Stock_No | StockID | StockNumber | Stock Num | Stk | Stock No.", limit=64),
    ] = UNSET
    vehicle_type: Annotated[
        VehicleType | UnsetType,
        Field("Type", "Absent means `car`.", vocabulary="vehicle_type", absent_means="car"),
        AnyOf(5, "Types to include. A listing without a type counts as `car`."),
        Counts("vehicle_types", 6),
        LeadFact(0, claim_only=True),
        Feed("vehicle_type", "vehicle_type"),
    ] = UNSET
    year: Annotated[
        Natural | UnsetType,
        Field("Model year", search="fact", sort=True),
        Range(17, "Model year.", bound=Year),
        Counts("years", 4),
        MinMax(3),
        Feed("year", "Year | ModelYear | Model Year"),
    ] = UNSET
    make: Annotated[
        str | UnsetType,
        Field("Make", vocabulary="make", search="name", sort=True),
        AnyOf(1),
        Counts("makes", 1),
        Feed("word", "Make | Brand"),
    ] = UNSET
    model: Annotated[
        str | UnsetType,
        Field("Model", search="name", sort=True),
        AnyOf(2),
        Counts("models", 2),
        Feed("line", "Model", limit=100),
    ] = UNSET
    trim: Annotated[
        str | UnsetType,
        Field("Trim", search="name"),
        AnyOf(3),
        Counts("trims", 3),
        Feed("line", "Trim | Series | Trim Level", limit=150),
    ] = UNSET
    list_price: Annotated[
        Natural | UnsetType,
        Field("List price", "Whole US dollars.", sort=True),
        Feed("dollars", "ListPrice | RetailPrice | Retail | Other Price"),
    ] = UNSET
    msrp: Annotated[
        Natural | UnsetType,
        Field("MSRP", "Whole US dollars.", sort=True),
        Feed("dollars", "MSRP | Sticker Price"),
    ] = UNSET
    fees: Annotated[
        tuple[Fee, ...] | UnsetType,
        Field("Fees", "Mandatory dealer charges, already inside `price`.", lead_bounds={"maxItems": 50}),
    ] = UNSET
    mileage: Annotated[
        Natural | UnsetType,
        Field("Mileage", "Miles.", sort=True),
        Range(19, max_description="Miles.", minimum=False),
        MinMax(2),
        Feed("miles", "Mileage | Miles | Odometer", more_columns={"mileage_unit": "Mileage Unit | Odometer Unit"}),
    ] = UNSET
    body: Annotated[
        str | UnsetType,
        Field("Body", f"{_BODIES} {_OWN_WORDS}", vocabulary="body", search="fact"),
        AnyOf(12, f"Body styles or segments. {_BODIES}"),
        Counts("bodies", 12),
        Feed("word", "Body | BodyStyle | Body Type | Body Style"),
    ] = UNSET
    transmission: Annotated[
        str | UnsetType,
        Field("Transmission", f"{_TRANSMISSIONS} {_OWN_WORDS}", vocabulary="transmission", search="fact"),
        AnyOf(6, f"{_TRANSMISSIONS} `automatic` finds neither cvt nor dct."),
        Counts("transmissions", 7),
        Feed("word", "Transmission | Tranmission | Transmission_Description | Trans"),
    ] = UNSET
    driveline: Annotated[
        str | UnsetType,
        Field("Drive", f"{_DRIVELINES} {_OWN_WORDS}", vocabulary="driveline", search="fact"),
        AnyOf(11, f"{_DRIVELINES} `2wd` finds fwd, rwd and 2wd."),
        Counts("drivelines", 11),
        LeadFact(4),
        Feed("word", "Drivetrain | Driveline | Drive Train | Drive Type | Drivetrain Desc | Drive"),
    ] = UNSET
    engine: Annotated[
        str | UnsetType,
        Field("Engine", search="fact"),
        LeadFact(1),
        Feed("line", "Engine | Engine Description", limit=200),
    ] = UNSET
    displacement_cc: Annotated[
        Natural | UnsetType,
        Field("Displacement", "Cubic centimetres."),
        Range(13, "Cubic centimetres."),
        MinMax(4),
        LeadFact(2, " cc"),
        Feed(
            "cubic_centimetres",
            "Engine Displacement | Displacement | Displacement CC",
            more_columns={"displacement_litres": "", "displacement_cubic_inches": "EngineDisplacementCubicInches"},
        ),
    ] = UNSET
    fuel: Annotated[
        str | UnsetType,
        Field("Fuel", f"{_FUELS} {_OWN_WORDS}", vocabulary="fuel", search="fact"),
        AnyOf(7, f"{_FUELS} `hybrid` does not find phev."),
        Counts("fuels", 8),
        LeadFact(3),
        Feed("word", "Fuel | Fuel Type"),
    ] = UNSET
    city_mpg: Annotated[
        Natural | UnsetType,
        Field("City", "Miles per gallon."),
        LeadFact(5, " mpg"),
        Feed("whole", "City MPG | MPGCity | EPACity | MPG City"),
    ] = UNSET
    highway_mpg: Annotated[
        Natural | UnsetType,
        Field("Highway", "Miles per gallon."),
        LeadFact(6, " mpg"),
        Feed("whole", "Highway MPG | MPGHighway | EPAHighway | MPG Hwy | HwyMPG"),
    ] = UNSET
    electric_range_mi: Annotated[
        float | UnsetType,
        Field("Electric range", "Miles."),
        Range(8, "Miles."),
        MinMax(5),
        LeadFact(7, " mi"),
        Feed("amount", "Electric Range | EV Range | Range Miles"),
    ] = UNSET
    battery_kwh: Annotated[
        float | UnsetType,
        Field("Battery", "Kilowatt-hours."),
        LeadFact(8, " kWh"),
        Feed("amount", "Battery kWh | Battery Capacity"),
    ] = UNSET
    motor_power_hp: Annotated[
        float | UnsetType,
        Field("Motor power", "Horsepower."),
        LeadFact(9, " hp"),
        Feed("amount"),
    ] = UNSET
    dc_fast_charge: Annotated[
        bool | UnsetType,
        Field("DC fast charging"),
        IsTrue(9, "When true, only vehicles that charge with direct current. False is not a constraint."),
        Counts("dc_fast_charge", 9),
        LeadFact(10),
        Feed("truth"),
    ] = UNSET
    charge_port: Annotated[
        str | UnsetType,
        Field("Charge port", f"{_CHARGE_PORTS} {_OWN_WORDS}", vocabulary="charge_port"),
        AnyOf(10, _CHARGE_PORTS),
        Counts("charge_ports", 10),
        LeadFact(11),
        Feed("word", "Charge Port"),
    ] = UNSET
    exterior_color: Annotated[
        str | UnsetType,
        Field("Exterior colour", vocabulary="colour", search="fact"),
        AnyOf(14, "All words must be in the listing's colour; paint names count as their basic colour too."),
        Counts("exterior_colors", 13),
        Feed(
            "line",
            "ExteriorColor | ExtColor | Color | Colour | OEMColorNameExterior | Exterior Colour | Ext_Color_Generic",
            limit=120,
        ),
    ] = UNSET
    interior_color: Annotated[
        str | UnsetType,
        Field("Interior colour", vocabulary="colour", search="fact"),
        AnyOf(15, "As for `exterior_color`."),
        Counts("interior_colors", 14),
        Feed(
            "line", "InteriorColor | IntColor | OEMColorNameInterior | Interior Colour | Int_Color_Generic", limit=120
        ),
    ] = UNSET
    features: Annotated[
        tuple[str, ...] | UnsetType,
        Field("Features", search="prose", lead_bounds={"maxItems": 500}),
        Feed("features", "Features | Options | Categorized Options | StandardEquipment | Equipment"),
    ] = UNSET
    photos: Annotated[
        tuple[str, ...] | UnsetType,
        Field("Photos", "URLs.", lead_bounds={"maxItems": 200}),
        Feed(
            "photos",
            "Photos | Photo_URLs | ImageList | ImageURLs | Images | Photo Url List | Image URL | Photo URL | Pictures",
        ),
    ] = UNSET
    vdp_url: Annotated[
        str | UnsetType,
        Field("Web page", "The vehicle's page on the dealer's website."),
        LeadFact(12),
        Feed(
            "address", "VDPURL | VDP | DetailPageUrl | Website VDP URL | Listing Url | URL | Link | Vehicle Detail Link"
        ),
    ] = UNSET
    description: Annotated[
        str | UnsetType,
        Field("Description", search="prose", lead_bounds={"maxLength": 20_000}),
        LeadFact(LAST + 2, claim_only=True),
        Feed("prose", "Description | VehicleComments | Comments | Dealer Comments | Seller Notes"),
    ] = UNSET
    notes: Annotated[
        str | UnsetType,
        Field("Notes", lead_bounds={"maxLength": 20_000}),
        LeadFact(LAST + 3, claim_only=True),
        Feed("prose"),
    ] = UNSET
    other_attributes: Annotated[
        dict[str, Scalar] | UnsetType,
        Field("Other", "Facts of the dealer that have no member of their own.", lead_bounds={"maxProperties": 200}),
    ] = UNSET
    inventory_date: Annotated[
        date | UnsetType,
        Field("In stock since", "When the unit came into stock."),
        LeadFact(LAST + 1, claim_only=True),
        Feed("day", "DATE-IN-STOCK | DateInStock | Inventory Date | InDate | In Stock Date | Date In Stock"),
    ] = UNSET


class Vehicle(VehicleMembers, frozen=True, omit_defaults=True, kw_only=True):
    """A listing. An absent member is unknown. A dealer can add members of its own."""

    vehicle_id: Annotated[
        str,
        Field("Vehicle id", "The dealer agent's own id of the unit; it never changes."),
        Feed("line", "vehicle_id", limit=100),
    ]
    status: Annotated[
        ListingStatus,
        Field("Status", vocabulary="status"),
        Counts("statuses", 16),
        Feed("status", "Status | Availability | Vehicle Status"),
    ]
    rooftop: Annotated[
        str,
        Field("Rooftop", "One of the names of dealer.information."),
        AnyOf(16, "Names from dealer.information.", "rooftops"),
        Counts("rooftops", 15),
        Feed(
            "names",
            "Rooftop | DealerId | DealerName | Dealer Name | Store | Location | FeedId",
            own_columns="rooftop | dealer_id | rooftop_hints",
            member="rooftop_hints",
        ),
    ]
    updated_at: Annotated[
        Moment,
        Field("Updated", "RFC 3339. The feed's time for this unit, else the last import that confirmed it.", sort=True),
        Feed(
            "moment",
            "Last Modified | Last Updated | Modified Date | Updated At | LastModifiedDate | Date Modified",
            own_columns="updated_at | feed_updated_at",
            member="feed_updated_at",
        ),
    ]
    changed_at: Annotated[
        Moment | UnsetType, Field("Changed", "RFC 3339. When price, status or content last changed.")
    ] = UNSET
    dealer_id: Annotated[str | UnsetType, Field("Dealer id", "The dealer's own id in the feed.")] = UNSET
    condition: Annotated[
        SaleCondition | UnsetType,
        Field("Condition", vocabulary="condition", search="fact"),
        AnyOf(4, "Sale conditions to include."),
        Counts("conditions", 5),
        Feed(
            "condition",
            "NEW-USED | New/Used | New_Used | UsedNew | NewUsed | Condition | Type | Sale Condition"
            " | Vehicle Condition",
            more_columns={
                "certified": "Certified | IsCpo | CPO | Is Certified | Certified Pre-Owned",
                "is_used": "IsUsed",
                "is_new": "IsNew",
            },
        ),
    ] = UNSET
    price: Annotated[
        Natural | UnsetType,
        Field(
            "Price",
            "The advertised price in whole US dollars: with every mandatory dealer charge, without government charges.",
            sort=True,
        ),
        Range(18, _DOLLARS_FILTER, f"{_DOLLARS_FILTER} Vehicles without a price do not match."),
        MinMax(1),
        Feed(
            "dollars",
            "Internet_Price | InternetPrice | InternetSpecial | Preferred_Price | SalePrice | Low_Price"
            " | SellingPrice | Price | Selling Price | Asking Price | AdvertisedPrice | Our Price | WebPrice",
            own_columns="price | selling_price",
            member="selling_price",
        ),
    ] = UNSET


def _value_type(annotation: Any) -> Any:
    """A member's type without `Annotated` and `UnsetType`."""
    if get_origin(annotation) is Annotated:
        return _value_type(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return _value_type(next(option for option in get_args(annotation) if option is not UnsetType))
    return annotation


def _row(name: str, annotation: Any) -> VehicleField:
    """The row of a field in the table, from the marks of its annotation."""
    marks = {mark.__class__: mark for mark in annotation.__metadata__}
    return VehicleField(
        name,
        _value_type(annotation),
        field=marks[Field],
        filter=next((marks[kind] for kind in (AnyOf, Range, IsTrue, Exact) if kind in marks), None),
        counts=marks.get(Counts),
        minmax=marks.get(MinMax),
        lead_fact=marks.get(LeadFact),
        feed=marks.get(Feed),
    )


_ANNOTATIONS = {member.name: member.type for member in fields(Vehicle)}

FIELDS: Final[Mapping[str, VehicleField]] = {
    # The members that only a listing has come first.
    name: _row(name, annotation)
    for name, annotation in sorted(
        _ANNOTATIONS.items(), key=lambda member: member[0] in VehicleMembers.__struct_fields__
    )
}
"""The table by field name."""
