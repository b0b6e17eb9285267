"""A believable dealer, a bare one and a hostile one, for the pages."""

from datetime import UTC, datetime

from dealer_agent.dealers.opening import WeekHours
from dealer_agent.dealers.profile import DealerRooftop, Profile, RooftopAddress
from dealer_agent.protocol.card import CardFacts
from dealer_agent.protocol.responses import Facets, IntRange, TextCount, YearCount
from dealer_agent.protocol.skill import SKILLS, Skill
from dealer_agent.protocol.vehicle import Fee

FRIDAY_NOON = datetime(2026, 11, 20, 17, 0, tzinfo=UTC)
BASE = "https://agent.example.com"


def card_facts(base: str = BASE, below: str = "", bearer: frozenset[str] = frozenset()) -> CardFacts:
    """A service at `base`, its interfaces under the path `below`."""
    return facts_of(SKILLS, base=base, below=below, bearer=bearer)


def facts_of(
    skills: tuple[Skill, ...], *, base: str = BASE, below: str = "", bearer: frozenset[str] = frozenset()
) -> CardFacts:
    return CardFacts(
        name="Potomac Motor Group",
        description="Two stores in Northern Virginia: cars, trucks and motorcycles.",
        version="0.1.0",
        organization="Potomac Motor Group",
        website="https://www.example.com",
        http_json_url=base + below,
        json_rpc_url=f"{base}{below}/rpc",
        schemas_url=f"{base}/schemas",
        documentation_url=f"{base}/docs",
        skills=skills,
        bearer_skills=bearer,
    )


def week(weekday: str, saturday: str, sunday: str = "closed") -> WeekHours:
    return WeekHours(weekday, weekday, weekday, weekday, weekday, saturday, sunday)


SALES = week("09:00-20:00", "09:00-18:00", "11:00-17:30")
SERVICE = week("07:30-18:00", "08:00-16:00")


def profile(name: str, *rooftops: DealerRooftop, welcome: str = "") -> Profile:
    return Profile(id="plain", name=name, welcome_message=welcome, feed_price="advertised", rooftops=rooftops)


POTOMAC = profile(
    "Potomac Motor Group",
    DealerRooftop(
        name="Potomac Honda of Alexandria",
        legal_name="Potomac Automotive LLC",
        website="https://alexandria.example.com",
        emails={"sales": "sales@alexandria.example.com"},
        phones={"sales": "+12025550110", "service": "+12025550111"},
        address=RooftopAddress("2100 Example Avenue", "Alexandria", "VA", "22301"),
        timezone="America/New_York",
        capabilities=("sales", "service", "parts", "financing", "trade_in", "delivery"),
        fees=(Fee("Processing fee", 799), Fee("Online filing fee", 25)),
        notes="Free shuttle from King Street station.",
        hours={"sales": SALES, "service": SERVICE},
    ),
    DealerRooftop(
        name="Potomac Powersports",
        website="https://powersports.example.com",
        phones={"sales": "+12025550120"},
        address=RooftopAddress("41 Sample Road", "Fairfax", "VA", "22030", "Unit 3"),
        timezone="America/New_York",
        capabilities=("motorcycle_sales", "service", "parts"),
        fees=(),
        hours={"sales": week("10:00-19:00", "10:00-18:00")},
    ),
    welcome="Family owned since 1987. One price for everyone, and every fee already in it.",
)

MAKES = [
    ("Honda", 118),
    ("Toyota", 41),
    ("Ford", 33),
    ("Chevrolet", 24),
    ("Harley-Davidson", 21),
    ("Tesla", 17),
    ("Hyundai", 14),
    ("Subaru", 12),
    ("Mercedes-Benz", 9),
    ("Jeep", 8),
    ("BMW", 7),
    ("Yamaha", 6),
    ("Kia", 4),
    ("Land Rover", 2),
    ("Volvo", 1),
]


def counts(*pairs: tuple[str, int]) -> list[TextCount]:
    return [TextCount(value, count) for value, count in pairs]


STOCK = Facets(
    makes=counts(*MAKES),
    conditions=counts(("used", 164), ("new", 109), ("cpo", 44)),
    bodies=counts(("suv", 131), ("sedan", 74), ("truck", 42), ("hatchback", 22), ("cruiser", 19), ("minivan", 12)),
    fuels=counts(("gas", 201), ("hybrid", 62), ("bev", 31), ("phev", 14), ("diesel", 9)),
    rooftops=counts(("Potomac Honda of Alexandria", 286), ("Potomac Powersports", 31)),
    years=[YearCount(2025, 102), YearCount(2023, 60)],
    price_range=IntRange(4995, 96480),
    year_range=IntRange(2009, 2027),
)
TOTAL = 317
UPDATED = datetime(2026, 11, 20, 16, 37, tzinfo=UTC)

BARE = profile("Plain Cars", DealerRooftop(name="Plain Cars", timezone="America/New_York"))

HOSTILE_TEXT = "<script>alert('x')</script>\"><img src=x onerror=alert(1)>"
HOSTILE = profile(
    HOSTILE_TEXT,
    DealerRooftop(
        name=HOSTILE_TEXT,
        legal_name=HOSTILE_TEXT,
        website=f"https://alexandria.example.com/{HOSTILE_TEXT}",
        emails={HOSTILE_TEXT: "o'neil@example.com"},
        phones={HOSTILE_TEXT: "+12025550110"},
        address=RooftopAddress(*[HOSTILE_TEXT] * 6),
        timezone="America/New_York",
        capabilities=(HOSTILE_TEXT,),
        fees=(Fee(HOSTILE_TEXT, 2**63 - 1),),
        notes=HOSTILE_TEXT,
        hours={HOSTILE_TEXT: SALES},
    ),
    welcome=HOSTILE_TEXT,
)
LONG = "Wolfeschlegelsteinhausenbergerdorff" * 6
MANY_MAKES = Facets(
    makes=[TextCount(f"{LONG} {HOSTILE_TEXT}", 900), *(TextCount(f"Maker {n}", 60 - n) for n in range(59))],
    conditions=counts((HOSTILE_TEXT, 3)),
    bodies=counts((LONG, 2)),
)
