"""A generated stock of any size and the questions of buyers, the same in every run: the data of every benchmark."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from msgspec import UNSET, UnsetType

from dealer_agent.inventory.catalogue import Listing
from dealer_agent.inventory.listing import ListingPolicy, RooftopRule, Unit, UnitRecord, list_unit, vehicle_id_for
from dealer_agent.protocol.requests import Filters, Sort
from dealer_agent.protocol.vehicle import SaleCondition, Vehicle

MODELS = {
    "Honda": ("Civic", "Accord", "CR-V", "Pilot", "HR-V", "Odyssey"),
    "Toyota": ("Camry", "Corolla", "RAV4", "Highlander", "Tacoma", "Prius"),
    "Ford": ("F-150", "Escape", "Explorer", "Mustang", "Bronco", "Maverick"),
    "Chevrolet": ("Silverado 1500", "Equinox", "Tahoe", "Malibu", "Bolt EV"),
    "Nissan": ("Altima", "Rogue", "Sentra", "Leaf", "Frontier"),
    "Hyundai": ("Elantra", "Tucson", "Santa Fe", "Ioniq 5", "Kona"),
    "Kia": ("Forte", "Sportage", "Sorento", "EV6", "Telluride"),
    "Subaru": ("Outback", "Forester", "Crosstrek", "Impreza"),
    "Volkswagen": ("Jetta", "Tiguan", "Atlas", "ID.4"),
    "Mazda": ("Mazda3", "CX-5", "CX-9", "MX-5 Miata"),
    "BMW": ("330i", "X3", "X5", "i4"),
    "Mercedes-Benz": ("C 300", "GLC 300", "E 350", "EQE"),
    "Tesla": ("Model 3", "Model Y", "Model S"),
    "Jeep": ("Wrangler", "Grand Cherokee", "Compass"),
    "Ram": ("1500", "2500", "ProMaster"),
    "Harley-Davidson": ("Street Glide", "Sportster S", "Road King"),
}
TRIMS = (
    "LX",
    "EX",
    "EX-L",
    "Sport",
    "Touring",
    "SE",
    "XLE",
    "Limited",
    "Lariat",
    "XLT",
    "LT",
    "Premier",
    "SEL",
    "Platinum",
    "S",
    "SV",
    "SL",
    "Base",
    "Premium",
    "Rubicon",
)
BODIES = ("sedan", "suv", "truck", "coupe", "hatchback", "wagon", "convertible", "minivan")
COLOURS = (
    "Glacier White",
    "Gun Metallic",
    "Jet Black",
    "Ruby Red",
    "Lunar Silver Metallic",
    "Atlantic Blue",
    "Sage Green",
    "White",
    "Black",
    "Gray",
)
FEATURES = (
    *(
        f"{grade} {part}"
        for grade in ("Heated", "Power", "Leather", "Dual", "Rear", "Front")
        for part in ("Seats", "Mirrors")
    ),
    *("Apple CarPlay", "Android Auto", "Adaptive Cruise Control", "Lane Departure Warning", "Blind Spot Monitor"),
    *("Moonroof", "Navigation System", "Tow Package", "Third Row Seating", "Premium Audio", "Remote Start"),
)
OPENINGS = ("One owner", "Local trade", "Just arrived", "Well kept", "Fully inspected", "Low miles")


ROOFTOPS = tuple(f"Rooftop {number}" for number in range(12))
POLICY = ListingPolicy("bench", "advertised", tuple(RooftopRule(name) for name in ROOFTOPS))
"""The policy with which the invented dealer lists its units."""


def units(count: int) -> Iterator[tuple[Unit, datetime]]:
    """A generated stock as a feed gives it, with the last change of each unit. The same in every run."""
    dice = random.Random(7)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    makes = list(MODELS)
    for number in range(count):
        make = dice.choice(makes)
        electric = dice.random() < 0.1
        condition: SaleCondition = dice.choice(("new", "used", "used", "cpo"))
        price = dice.randrange(4_000, 90_000)
        model = dice.choice(MODELS[make])
        features = tuple(dice.sample(FEATURES, 8))
        unit = Unit(
            status=dice.choice(("available", "available", "intransit", "pending")),
            rooftop_hints=(dice.choice(ROOFTOPS),),
            feed_updated_at=start + timedelta(seconds=dice.randrange(9_000_000)),
            vin=vin_of(number),
            stock=f"S{number:07d}",
            year=dice.randrange(2008, 2027),
            make=make,
            model=model,
            trim=dice.choice(TRIMS),
            condition=condition,
            selling_price=UNSET if dice.random() < 0.05 else price,
            msrp=price + 900,
            mileage=dice.randrange(150_000) if condition != "new" else dice.randrange(50),
            body=dice.choice(BODIES),
            transmission="single_speed" if electric else dice.choice(("automatic", "automatic", "manual", "cvt")),
            driveline=dice.choice(("fwd", "rwd", "awd", "4wd")),
            engine="Electric Motor" if electric else dice.choice(("2.0L I4 Turbo", "3.5L V6", "5.0L V8")),
            fuel="bev" if electric else dice.choice(("gas", "gas", "hybrid", "diesel")),
            electric_range_mi=float(dice.randrange(150, 400)) if electric else UNSET,
            dc_fast_charge=True if electric else UNSET,
            exterior_color=dice.choice(COLOURS),
            interior_color=dice.choice(("Black", "Gray", "Saddle Tan")),
            features=features,
            photos=tuple(f"https://photos.example.com/{number}/{shot}.jpg" for shot in range(6)),
            vdp_url=f"https://www.example.com/inventory/{number}",
            description=f"{dice.choice(OPENINGS)} {make} {model} with {features[0]}, lot {number}.",
        )
        yield unit, start + timedelta(seconds=dice.randrange(9_000_000))


def vin_of(number: int) -> str:
    """The VIN of a unit by its number, with a correct check digit."""
    before, behind = "1HGCM826", f"{10_000_000 + number}"
    weights = (8, 7, 6, 5, 4, 3, 2, 10, 0, 9, 8, 7, 6, 5, 4, 3, 2)
    worth = {letter: place for place, letter in enumerate("ABCDEFGH", 1)} | {"M": 4}
    total = sum(
        weight * (int(sign) if sign.isdigit() else worth[sign])
        for weight, sign in zip(weights, f"{before}0{behind}", strict=True)
    )
    return f"{before}{'X' if total % 11 == 10 else total % 11}{behind}"


def listed(unit: Unit, changed_at: datetime) -> Vehicle:
    """The listing of a unit."""
    record = UnitRecord(vehicle_id_for(unit), confirmed_at=changed_at, changed_at=changed_at)
    return list_unit(unit, record, POLICY)


def stock(count: int) -> Iterator[Listing]:
    """The listings of a generated stock."""
    for unit, changed_at in units(count):
        yield Listing.of(listed(unit, changed_at))


def searches() -> Iterator[tuple[Filters, int, Sort | UnsetType]]:
    """The searches of buyers: filters, results to skip and, for about half of them, an order."""
    dice = random.Random(11)
    makes = list(MODELS)
    while True:
        make = dice.choice(makes)
        low = dice.randrange(5_000, 50_000)
        filters = dice.choice(
            (
                Filters(make=[make]),
                Filters(make=[make], model=[dice.choice(MODELS[make])], year_min=dice.randrange(2008, 2026)),
                Filters(price_min=low, price_max=low + 15_000, condition=["used", "cpo"]),
                Filters(body=["suv"], driveline=["AWD", "4wd"], price_max=low + 10_000, mileage_max=60_000),
                Filters(fuel=["hybrid"], exterior_color=["white"], year_min=2018),
                Filters(electric_range_mi_min=dice.randrange(200, 350), dc_fast_charge=True),
            )
        )
        order = Sort(dice.choice(("price", "mileage", "year", "updated_at")), dice.choice(("asc", "desc")))
        yield filters, dice.choice((0, 0, 0, 20, 40)), order if dice.random() < 0.5 else UNSET


def queries() -> Iterator[Filters]:
    """Free text."""
    dice = random.Random(13)
    makes = list(MODELS)
    while True:
        make = dice.choice(makes)
        yield Filters(
            query=dice.choice(
                (
                    f"{make} {dice.choice(MODELS[make])}",
                    f"used awd {dice.choice(BODIES)}",
                    f"{dice.choice(COLOURS)} {make} with moonroof",
                    "f150",
                )
            )
        )
