"""Random stocks and requests that collide: few values, many spellings of one value, many absent values."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from hypothesis import strategies as st
from tests.inventory.oracle.oracle import FilterBlock, Listing

MAKES = ["Ford", "FORD", "Mercedes-Benz", "mercedes benz", "Mercedes", "Chevrolet", "Chevy", "VW", "Volkswagen",
         "Citroën", "Citroen", "Zorvex", "zorvex"]  # fmt: skip
MODELS = ["F-150", "F150", "f 150", "Civic", "CIVIC", "CX-5", "Model 3", "Élan", "Elan", "911", "Straße", "Strasse",
          "Zorvexia"]  # fmt: skip
TRIMS = ["XLT", "Xlt", "EX-L", "EXL", "Sport", "Touring", "Big Horn", "Zorvex", "S/T", "Gray", "!", "+"]
TRANSMISSIONS = ["automatic", "manual", "cvt", "dct", "single_speed", "8-Speed Automatic", "Hyperbox"]
FUELS = ["gas", "Gasoline Fuel", "diesel", "hybrid", "phev", "Plug-In Hybrid", "bev", "flex", "Steam"]
DRIVELINES = ["fwd", "rwd", "awd", "4wd", "2wd", "All-Wheel Drive", "6x6", "hexadrive"]
BODIES = ["sedan", "suv", "Sport Utility", "truck", "minivan", "van", "cruiser", "Gullwing"]
PORTS = ["nacs", "ccs", "j1772", "chademo", "Tesla", "Plug X"]
COLOURS = ["White", "Glacier White", "Gun Metallic", "Grey", "Gray", "Graphite Blue", "Race Red", "Ébène",
           "Black/Gray", "Charcoal", "Zorvex"]  # fmt: skip
ROOFTOPS = ["North Lot", "north-lot", "South Lot", "Südhof"]
STOCKS = ["P100", "p100", "P-100", "P1001", "100", "ß7", "SS7"]
VINS = ["1FTEW1EP0LFA00001", "1ftew1ep0lfa00001", "1FTEW1EP0LFA00002", "WBA00000000000003"]
ENGINES = ["2.0L I4", "5.0L V8", "Twin-Turbo V6", "Zorvex Electric", "Zorvexine"]
FEATURES = ["Heated Seats", "All-Wheel Drive", "Fuel economy package", "Gray leather", "Zorvex audio", "Apple CarPlay"]
DESCRIPTIONS = ["A Ford at heart, with the gray roof.", "One owner. Automatic emergency braking; V8!", "zorvexed",
                "Hybrid-like economy, Civic-sized, F-150 hauler"]  # fmt: skip
PRICES = [0, 19_999, 20_000, 20_001, 2**53 + 1, 2**63 - 1]
MILES = [0, 1, 10, 9_999, 10_000, 120_000]
YEARS = [1899, 1900, 1999, 2019, 2020, 2021, 2100]
ELECTRIC_RANGES = [0.0, 237.5, 238.0, 238.25, 310.0]
DISPLACEMENTS = [0, 471, 649, 650, 2**40]

_NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MOMENTS = [
    _NOON,
    _NOON.astimezone(timezone(timedelta(hours=-5))),
    _NOON + timedelta(milliseconds=1),
    _NOON - timedelta(days=400),
    _NOON.replace(day=2).astimezone(timezone(timedelta(hours=9))),
]

OPTIONAL: dict[str, list[Any]] = {
    "changed_at": MOMENTS,
    "vehicle_type": ["car", "motorcycle", "trailer", "rv", "other"],
    "vin": VINS,
    "stock": STOCKS,
    "year": YEARS,
    "make": MAKES,
    "model": MODELS,
    "trim": TRIMS,
    "condition": ["new", "used", "cpo"],
    "price": PRICES,
    "list_price": PRICES,
    "msrp": PRICES,
    "mileage": MILES,
    "body": BODIES,
    "transmission": TRANSMISSIONS,
    "driveline": DRIVELINES,
    "engine": ENGINES,
    "displacement_cc": DISPLACEMENTS,
    "fuel": FUELS,
    "electric_range_mi": ELECTRIC_RANGES,
    "dc_fast_charge": [True, False],
    "charge_port": PORTS,
    "exterior_color": COLOURS,
    "interior_color": COLOURS,
    "description": DESCRIPTIONS,
    "notes": ["Zorvex inside", "gray"],
}
ABSENT = object()


def _often_absent(values: list[Any]) -> st.SearchStrategy[Any]:
    return st.sampled_from([ABSENT] * max(1, len(values) // 2) + values)


_LISTING = st.fixed_dictionaries(
    {
        "status": st.sampled_from(["available", "intransit", "pending"]),
        "rooftop": st.sampled_from(ROOFTOPS),
        "updated_at": st.sampled_from(MOMENTS),
        "features": st.lists(st.sampled_from(FEATURES), max_size=2).map(lambda some: tuple(some) or ABSENT),
        **{member: _often_absent(values) for member, values in OPTIONAL.items()},
    }
)
_IDS = [f"{kind}-{number}" for kind in ("vin", "stock") for number in range(7, 40)]


@st.composite
def stocks(draw: st.DrawFn, most: int = 40) -> list[Listing]:
    """0 to `most` listings in any order, with distinct vehicle ids. Hypothesis alone prefers small lists."""
    size = draw(st.sampled_from([most, most, most // 2, most // 2, most // 4, 5, 3, 2, 1, 0]))
    ids = draw(st.permutations(_IDS))[:size]
    return [
        {"vehicle_id": one, **{name: value for name, value in draw(_LISTING).items() if value is not ABSENT}}
        for one in ids
    ]


def one_of_each() -> list[Listing]:
    """A listing for each value of each member, with nothing else, and one without values."""
    always = {"status": "available", "rooftop": "North Lot", "updated_at": MOMENTS[0]}
    alone = [{member: value} for member, values in OPTIONAL.items() for value in values]
    alone += [{"features": (feature,)} for feature in FEATURES]
    alone += [{"rooftop": rooftop} for rooftop in ROOFTOPS]
    alone += [{"updated_at": moment} for moment in MOMENTS]
    return [{"vehicle_id": f"vin-{number:03}", **always, **members} for number, members in enumerate([{}, *alone])]


def gone_units() -> st.SearchStrategy[list[Listing]]:
    """Removed units. Some share a VIN or a stock number with a unit in stock."""
    unit = st.fixed_dictionaries({}, optional={"vin": st.sampled_from(VINS), "stock": st.sampled_from(STOCKS)})
    return st.lists(unit, max_size=4).map(
        lambda units: [{"vehicle_id": f"gone-{number}", **one} for number, one in enumerate(units)]
    )


def _wanted(pool: list[str]) -> st.SearchStrategy[list[str]]:
    """One value on its own, or a few, none, or many."""
    return (
        st.sampled_from(pool).map(lambda value: [value])
        | st.lists(st.sampled_from(pool), max_size=3)
        | st.permutations(pool).map(lambda all_of_them: all_of_them[: len(pool) * 3 // 4])
    )


def _near(values: list[Any], least: int = 0, most: int = 2**63 - 1) -> list[int]:
    """The values themselves, and one more and one less."""
    near = {int(value) + step for value in values for step in (-1, 0, 1)}
    return sorted(number for number in near if least <= number <= most)


WORDS = [
    "ford", "F-150", "f150", "150", "chevy", "chev", "mercedes", "civic", "elan", "élan", "strasse", "xlt", "ex-l",
    "used", "new", "certified", "pre-owned", "suv", "sport utility", "sport", "truck", "van", "awd", "4x4", "2wd",
    "all wheel drive", "hybrid", "plug-in hybrid", "gas", "electric", "automatic", "manual", "cvt", "2020", "20", "v8",
    "twin-turbo", "white", "gray", "grey", "heated seats", "leather", "fuel", "economy", "one owner", "zorvex", "zorv",
    "zorvexed", "p100", "p-100", "1ftew", "a", "with the", "body", "make", "body=suv", "nothing", "é", "-", "&",
]  # fmt: skip

WANTED_WORDS: dict[str, list[str]] = {
    "make": [*MAKES, "Fordd", "For", "vw", ""],
    "model": [*MODELS, "F15", "150", "civ ic", " "],
    "trim": [*TRIMS, "x-l-t", "st", "Big"],
    "condition": ["new", "used", "cpo"],
    "vehicle_type": ["car", "motorcycle", "trailer", "rv", "other"],
    "transmission": [*TRANSMISSIONS, "AUTO", "hyper-box", "Manu"],
    "fuel": [*FUELS, "petrol", "Electric", "steam"],
    "charge_port": [*PORTS, "NACS", "plugx"],
    "driveline": [*DRIVELINES, "2WD", "4x4", "Hexa Drive", "Front-Wheel Drive"],
    "body": [*BODIES, "SUVs", "pickup", "gull"],
    "exterior_color": [*COLOURS, "gray", "blue", "ebene", "metallic gun", "silver", "white metallic", ""],
    "interior_color": [*COLOURS, "grey", "black", "gra", "red race"],
    "rooftops": [*ROOFTOPS, "SOUTH LOT", "sudhof", "North"],
}
WANTED_VALUES: dict[str, list[Any]] = {
    "dc_fast_charge": [True, False],
    "electric_range_mi_min": _near(ELECTRIC_RANGES),
    "electric_range_mi_max": _near(ELECTRIC_RANGES),
    "displacement_cc_min": _near(DISPLACEMENTS),
    "displacement_cc_max": _near(DISPLACEMENTS),
    "year_min": _near(YEARS, 1900, 2100),
    "year_max": _near(YEARS, 1900, 2100),
    "price_min": _near(PRICES),
    "price_max": _near(PRICES),
    "mileage_max": _near(MILES),
    "vin": [*(vin for vin in VINS if vin.isupper()), "1FTEW1EP0LFA00009"],
    "stock": [*STOCKS, "P10", "Ss7", ""],
    "query": ["", *WORDS],
}

FILTERS: dict[str, st.SearchStrategy[Any]] = {
    **{member: _wanted(values) for member, values in WANTED_WORDS.items()},
    **{member: st.sampled_from(values) for member, values in WANTED_VALUES.items()},
    "query": st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join) | st.sampled_from(WORDS),
}

SORT_FIELDS = ("price", "list_price", "msrp", "mileage", "year", "make", "model", "stock", "updated_at")


@st.composite
def filter_blocks(draw: st.DrawFn) -> FilterBlock:
    """Up to four members, because more of them rarely find anything. Many have a query."""
    members = draw(st.lists(st.sampled_from([*FILTERS, *["query"] * 8]), min_size=1, max_size=4, unique=True))
    if draw(st.integers(0, 9)) == 0:
        return {}
    return {member: draw(FILTERS[member]) for member in members}


def sorts() -> st.SearchStrategy[tuple[str, str] | None]:
    """None, or a field and an order."""
    return st.none() | st.tuples(st.sampled_from(SORT_FIELDS), st.sampled_from(["asc", "desc"]))


def pages() -> st.SearchStrategy[tuple[int, int]]:
    """`skip`, also past the end, and `limit`."""
    skips = st.sampled_from([0, 0, 0, 1, 2, 5, 20, 39, 40, 41, 10_000, 2**63 - 1])
    return st.tuples(skips, st.sampled_from([1, 2, 3, 5, 20, 39, 40, 99, 100]))


@st.composite
def questions(draw: st.DrawFn, count: int) -> list[tuple[FilterBlock, tuple[str, str] | None, tuple[int, int]]]:
    """`count` questions for one stock."""
    return [(draw(filter_blocks()), draw(sorts()), draw(pages())) for _ in range(count)]
