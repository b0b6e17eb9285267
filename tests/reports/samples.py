"""Made-up facts of two months."""

from datetime import date
from typing import Any

from tests.storage.samples import NO_NOTICES

from dealer_agent.inventory.listing import Unit
from dealer_agent.reports.month import Month
from dealer_agent.reports.report import Facts, Names, Report, make_report
from dealer_agent.storage.daily_counts import SUBJECTS, Subject
from dealer_agent.storage.leads.monthly_reports import LeadCounts

OCTOBER = Month(2026, 10)
TOKEN = "01M837000000000000000000AA"
ACCORD = Unit(vehicle_id="v1", stock="N-7", year=2024, make="Honda", model="Accord", trim="EX")

NO_LEADS = LeadCounts(0, 0, 0, 0)


def facts(leads: LeadCounts = NO_LEADS, days: dict[date, int] | None = None, **counts: dict[str, int]) -> Facts:
    """Facts with these counts by subject."""
    found: dict[Subject, dict[str, int]] = {subject: {} for subject in SUBJECTS}
    assert counts.keys() <= found.keys()
    found |= counts  # type: ignore[arg-type]  # They are subjects.
    return Facts(found, leads, days or {})


NOTHING = facts()

FACTS = facts(
    LeadCounts(leads=12, visits=5, confirmed=4, cancelled=1),
    {date(2026, 10, 1): 1_000, date(2026, 10, 31): 500},
    requests={
        "inventory.search OK": 1_200,
        "inventory.search RATE_LIMITED": 7,
        "inventory.vehicle OK": 230,
        "inventory.vehicle VEHICLE_NOT_FOUND": 9,
        "lead.submit OK": 12,
        "lead.submit DUPLICATE": 3,
        "lead.submit REPEATED": 2,
        "lead.submit INVALID_CONSENT": 4,
        "lead.submit APPOINTMENT_TIME_UNAVAILABLE": 1,
        "unknown SCHEMA_VALIDATION_FAILED": 7,
    },
    agents={
        f"{TOKEN} inventory.search": 200,
        f"{TOKEN} lead.submit": 10,
        "Acme Shopper inventory.search": 700,
        "Acme Shopper inventory.vehicle": 230,
        "other inventory.search": 300,
        "other": 5,
    },
    searches={
        "examined": 1_000,
        "found_nothing": 90,
        "with_price": 400,
        "price_checked": 300,
        "no_price_units": 900,
        "outside_price_units": 750,
    },
    make={f"Make {number:02}": number for number in range(1, 14)} | {"other": 99},
    model={"Honda: Accord": 70, "Toyota: other": 20, "Leaf": 1},
    body={"suv": 400, "truck": 20},
    price={"up to 20000": 300, "from 30000": 90, "above 100000": 10},
    nothing_make={"Toyota": 80},
    nothing_model={"Toyota: other": 20},
    nothing_filter={"make": 80, "price_max": 60, "query": 2},
    no_price={"v1": 300, "v2": 4, "v3": 1},
    outside_price={"v1": 2},
    viewed={"v2": 30, "other": 5},
)
BEFORE = facts(
    LeadCounts(leads=10, visits=0, confirmed=0, cancelled=0),
    {date(2026, 9, 30): 900},
    requests={"inventory.search OK": 900, "lead.submit INVALID_CONSENT": 1},
    agents={"Acme Shopper inventory.search": 600},
    make={"Make 13": 5, "Make 99": 400},
)
NAMES = Names({TOKEN: "Partner & Sons <bots>"}, {"v1": ("N-7", ACCORD), "v2": ("S-9", None)})


def sample_report(**more: Any) -> Report:
    """The report of the facts above."""
    options = {"profile": NO_NOTICES, "month": OCTOBER, "facts": FACTS, "before": BEFORE, "names": NAMES, **more}
    return make_report(**options)
