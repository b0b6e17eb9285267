"""What drives the vehicle: transmission, driveline, fuel and charge port (contract, part 6). Pure data."""

from dealer_agent.inventory.vocabulary.tables import Table

_GEARS = range(1, 13)


def _geared(*kinds: str) -> tuple[str, ...]:
    """`8-speed automatic` and its like, so that a query for one is understood as a whole."""
    return tuple(f"{gears} {speed} {kind}" for gears in _GEARS for speed in ("speed", "spd") for kind in kinds)


TRANSMISSION = Table(
    spellings={
        "automatic": (
            "automatic transmission", "auto transmission", "shiftable automatic", "automatic with overdrive",
            *(text for text in _geared("automatic", "auto", "shiftable automatic") if not text.startswith("1 ")),
        ),
        "manual": ("manual transmission", "stick shift", "stickshift", "stick", "manual shift", *_geared("manual")),
        "cvt": (
            "cvt xtronic", "xtronic cvt", "xtronic", "lineartronic", "ecvt", "cvt transmission", "automatic cvt",
            "continuously variable", "continuously variable transmission", "continuously variable automatic",
        ),
        "dct": ("dual clutch", "dual clutch transmission", "double clutch", "dsg", "pdk", "s tronic",
                *_geared("dual clutch", "dct", "dsg", "pdk")),
        "single_speed": (
            "single speed automatic", "1 speed automatic", "1 speed", "one speed", "single speed transmission",
            "single speed fixed gear", "direct drive",
        ),
    },
    codes={
        "automatic": ("a", "at", "aut", "auto", "autom"),
        "manual": ("m", "mt", "man", "standard", "std"),
        "cvt": ("variable", "ivt"),
        "single_speed": ("fixed gear", "single"),
    },
    patterns=(
        (r"e?cvt\d*|continuously|variable|x ?tronic|lineartronic|multitronic|ivt", "cvt"),
        (r"dual clutch|double clutch|twin clutch|\d*dct|dsg|pdk|s tronic|dualclutch|doppelkupplung|m dct|powershift",
        "dct"),
        (r"(?:1|one|single) (?:speed|spd)|single reduction|direct drive|fixed gear", "single_speed"),
        (r"automated manual", None),
        (r"\w*matic|\w*automatic|auto|aut|a t|\d{1,2}at?|\w*tronic|tiptronic|torqueflite|sportshift|skyactiv drive",
        "automatic"),
        (r"manual|man|m t|\d{1,2}mt?|stick|skyactiv mt|standard transmission", "manual"),
    ),
)  # fmt: skip

DRIVELINE = Table(
    spellings={
        "awd": (
            "all wheel drive", "all wheel", "awd all wheel drive", "quattro", "4matic", "xdrive", "4motion",
            "sh awd", "htrac",
            "all4", "eawd", "e awd", "symmetrical awd", "symmetrical all wheel drive", "all wheel drive awd",
            "intelligent awd",
            "dual motor awd", "dual motor all wheel drive",
        ),
        "4wd": (
            "4x4", "four wheel drive", "4 wheel drive", "4wd 4 wheel drive 4x4", "four by four", "4wd 4x4", "4x4 4wd",
            "four wheel drive 4wd",
        ),
        "fwd": ("front wheel drive", "2 wheel drive front", "fwd front wheel drive", "front wheel drive fwd"),
        "rwd": ("rear wheel drive", "2 wheel drive rear", "rwd rear wheel drive", "rear wheel drive rwd"),
        "2wd": ("4x2", "two wheel drive", "2 wheel drive", "2wd 4x2", "4x2 2wd", "2wd 4x2 2 wheel drive"),
    },
    codes={
        "awd": ("a", "all"),
        "4wd": ("4", "four wheel", "4 wheel"),
        "fwd": ("f", "front", "front wheel"),
        "rwd": ("r", "rear", "rear wheel"),
        "2wd": ("2", "two wheel", "2 wheel"),
    },
    patterns=(
        (r"\w*awd|all wheel|all wheels|quattro|4matic|\w*xdrive\w*|4motion|htrac|all4|e 4orce", "awd"),
        (r"4wd|4x4|four wheel|4 wheel|four by four|4 x 4|4motion", "4wd"),
        (r"fwd|front wheel|2 wheel drive front|front", "fwd"),
        (r"rwd|rear wheel|2 wheel drive rear|rear", "rwd"),
        (r"2wd|4x2|2x4|two wheel|2 wheel|4 x 2", "2wd"),
    ),
)  # fmt: skip

DRIVELINE_INCLUDES = {"2wd": frozenset({"2wd", "fwd", "rwd"})}
"""What a wanted driveline finds beside itself: `2wd` says that the axle does not matter."""

FUEL = Table(
    spellings={
        "gas": ("gasoline", "gasoline fuel", "gas fuel", "petrol", "regular unleaded", "premium unleaded", "unleaded",
                "unleaded gas", "unleaded gasoline", "gas powered", "gas engine", "gasoline engine"),
        "diesel": ("diesel fuel", "diesels", "biodiesel", "turbodiesel", "turbo diesel", "clean diesel",
                   "diesel engine"),
        "hybrid": ("hybrids", "hybrid fuel", "hybrid gas electric", "gas electric hybrid", "hev", "hybrid electric",
                   "mhev",
                   "gasoline hybrid", "gas hybrid", "mild hybrid", "full hybrid", "hybrid electric vehicle",
                   "electric gas hybrid",
                   "gasoline electric hybrid", "gas electric"),
        "phev": ("plug in hybrid", "plug in hybrids", "plug in", "plugin", "plug in electric gas", "phevs",
                 "plug in hybrid electric", "plug in hybrid electric vehicle", "plug in gas electric"),
        "bev": ("electric", "all electric", "fully electric", "electric fuel system", "ev", "evs", "bevs",
                "battery electric",
                "battery electric vehicle", "electric vehicle", "electric vehicles", "pure electric",
                "full electric"),
        "flex": ("flex fuel", "e85 flex fuel", "flexible fuel", "flexfuel", "e85", "ffv", "flex fuel vehicle",
                 "flex fuel e85"),
        "hydrogen": ("fuel cell", "hydrogen fuel cell", "fcev", "fcv", "hydrogen fuel", "fuel cell electric"),
    },
    codes={
        "gas": ("g", "regular", "premium", "midgrade", "u"),
        "diesel": ("d", "tdi", "b20"),
        "hybrid": ("h", "y"),
        "phev": ("p",),
        "bev": ("e", "battery"),
        "flex": ("f", "flexible", "ethanol"),
    },
    patterns=(
        (r"plug in|plugin|phev", "phev"),
        (r"hydrogen|fuel cell|fcev", "hydrogen"),
        (r"natural gas|cng|lpg|propane|methanol", None),
        (r"hybrid|m?hev|gas(?:oline)? (?:and )?electric|electric (?:and )?gas(?:oline)?", "hybrid"),
        (r"flex|flexible|e85|ffv|ethanol|flexfuel", "flex"),
        (r"\w*diesel|tdi|duramax|ecodiesel|b20|cummins", "diesel"),
        (r"electric|bev|ev|battery", "bev"),
        (r"gas|gasoline|petrol|unleaded|premium recommended|premium required", "gas"),
    ),
)  # fmt: skip

CHARGE_PORT = Table(
    spellings={
        "nacs": ("j3400", "sae j3400", "nacs j3400", "tesla supercharger", "tesla supercharger nacs", "tesla nacs",
                 "north american charging standard"),
        "ccs": ("ccs1", "ccs combo", "ccs combo 1", "ccs type 1", "sae combo", "combined charging system",
                "j1772 combo",
                "combo 1", "ccs j1772"),
        "j1772": ("sae j1772", "type 1", "type 1 j1772", "j1772 type 1"),
        "chademo": ("chademo dc",),
    },
    codes={"nacs": ("tesla", "tesla connector"), "ccs": ("combo", "ccs2")},
    patterns=(
        (r"ccs\d?(?! adapt)|sae combo|combined charging", "ccs"),
        (r"nacs(?! adapt)|j ?3400|tesla|north american charging", "nacs"),
        (r"chademo", "chademo"),
        (r"(?:sae )?j ?1772", "j1772"),
    ),
)  # fmt: skip
