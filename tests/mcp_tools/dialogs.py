"""Dialogs of a model with the tools of the demo dealer, as the page docs/how-to/mcp-dialogs.md shows them.

The shopper's words and the calls are fixed: a person who played a model with only the tools' texts wrote the calls.
The results are those of the real service. `.venv/bin/python -m tests.mcp_tools.dialogs` writes the page anew.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zoneinfo import ZoneInfo

from tests.server.dealership import Dealership, run_dealership
from tests.server.mcp_calls import FORM, ticked, use
from tests.storage.current import make_current

from dealer_agent.config import load_settings
from dealer_agent.config.keys import create_key_file
from dealer_agent.demo import demo_dealer_toml, demo_inventory
from dealer_agent.feeds.files.reader import read_feed
from dealer_agent.feeds.importing import import_feed
from dealer_agent.storage.store import Store

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "mcp-dialogs.md"
LONGEST_LINE, MOST_LINES = 300, 14
ESCAPE = "vin-1FMGU4Z68NH104920"
JO = {"first_name": "Jo", "last_name": "Doe", "email": "jo.doe@example.com", "phone": "+12025550123"}
SATURDAY = "SATURDAY"
"""Stands in a call for the date of a coming Saturday."""
FIRST_HYBRIDS = {"condition": ["used"], "fuel": ["hybrid"], "body": ["suv"], "price_max": 30000}


@dataclass(frozen=True)
class Task:
    """What a shopper wants, the calls of the model, and what it can say then."""

    title: str
    shopper: str
    calls: tuple[tuple[str, dict[str, Any]], ...]
    says: str


TASKS = (
    Task(
        "A budget with everything in it",
        "A used hybrid SUV under 30,000 dollars, all in.",
        (
            ("inventory_search", {"query": "used hybrid SUV under 30k all in"}),
            ("inventory_search", {"filters": FIRST_HYBRIDS}),
        ),
        "Four match. The price of each includes the dealer's fees; taxes are not known here.",
    ),
    Task(
        "All fees of one car",
        "What does the Escape cost with all fees? I live in 37203.",
        (("inventory_vehicle", {"vehicle_id": ESCAPE, "zip": "37203"}),),
        "25,494 dollars. The documentation fee of 599 dollars is inside.",
    ),
    Task(
        "A test drive",
        "Book me a test drive of it on Saturday at 10.",
        (
            ("dealer_information", {}),
            (
                "lead_submit",
                {
                    "customer": JO,
                    "vehicle_of_interest": {"vehicle_id": ESCAPE},
                    "appointment": {
                        "appointment_type": "test_drive",
                        "requested_windows": [{"start": f"{SATURDAY}T10:00:00"}],
                        "timezone": "America/Chicago",
                    },
                },
            ),
        ),
        "It is booked for Saturday at 10:00 AM, at the dealer's local time.",
    ),
    Task(
        "Is it still there?",
        "Is the Escape still there, and U99999 from last week?",
        (("inventory_vehicle", {"vehicle_id": ESCAPE}), ("inventory_vehicle", {"stock": "U99999"})),
        "The Escape is available. U99999 is gone.",
    ),
    Task(
        "The cheapest of a kind",
        "The cheapest with all-wheel drive and less than 40,000 miles.",
        (
            ("inventory_search", {"filters": {"drivetrain": "AWD", "mileage_max": 40000}, "sort": "price", "limit": 1}),
            (
                "inventory_search",
                {
                    "filters": {"driveline": ["awd"], "mileage_max": 40000},
                    "sort": {"field": "price", "order": "asc"},
                    "pagination": {"limit": 1},
                },
            ),
        ),
        "A Subaru Crosstrek for 18,394 dollars, with 39,341 miles.",
    ),
    Task(
        "A wish in prose",
        "Something sporty for a family of five, with a sunroof.",
        (
            ("inventory_search", {"filters": {"query": "something sporty for a family of five with a sunroof"}}),
            ("inventory_search", {"filters": {"query": "sunroof third row"}, "pagination": {"limit": 3}}),
        ),
        "Six have a sunroof and a third row. Whether one is sporty is a matter of taste.",
    ),
    Task(
        "Limits in the wrong place",
        "Anything under 20,000 dollars by Toyota.",
        (
            ("inventory_search", {"price_max": "$20,000", "make": "Toyota"}),
            ("inventory_search", {"filters": {"price_max": 20000, "make": ["Toyota"]}, "pagination": {"limit": 3}}),
        ),
        "The list has only Toyotas below the limit.",
    ),
    Task(
        "A wish without a filter",
        "Seven seats and at least 30 miles per gallon, please.",
        (("inventory_search", {"filters": {"seats_min": 7, "mpg_min": 30}}),),
        "The dealer has no filter for seats or consumption. I can look for a third row, and read the consumption of "
        "single vehicles.",
    ),
    Task(
        "Nothing is found",
        "A diesel convertible under 15,000 dollars.",
        (
            ("inventory_search", {"filters": {"fuel": ["diesel"], "body": ["convertible"], "price_max": 15000}}),
            ("inventory_facets", {"filters": {"fuel": ["diesel"], "body": ["convertible"]}}),
        ),
        "The dealer has no diesel convertible at any price.",
    ),
    Task(
        "A trade-in",
        "Ask them what they would give for my 2018 Civic, 60,000 miles.",
        (
            (
                "lead_submit",
                {
                    "customer": {"name": "Jo Doe", "email": "jo.doe@example.com"},
                    "trade_in": {"make": "Honda", "model": "Civic", "condition": "used"},
                },
            ),
            (
                "lead_submit",
                {
                    "customer": JO,
                    "trade_in": {
                        "year": 2018,
                        "make": "Honda",
                        "model": "Civic",
                        "mileage": 60000,
                        "condition": "good",
                    },
                    "message": "What would you give for it?",
                },
            ),
        ),
        "The dealer has the question, and gets in touch by e-mail.",
    ),
)


def page() -> str:
    """The page, made with a new demo dealer."""
    with TemporaryDirectory() as made:
        folder = Path(made) / "dealer"
        _set_up(folder)
        with run_dealership(folder) as dealership:
            return "".join(_sections(dealership))


def _set_up(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    limits = "".join(f'{name} = ""\n' for name in ("address", "lead_submit", "malformed_leads", "mcp"))
    (folder / "dealer.toml").write_text(f"{demo_dealer_toml()}\n[rate_limits]\n{limits}", "utf-8")
    create_key_file(folder)
    settings = load_settings(folder, {})
    make_current(settings.database_url)
    with Store.open(settings.database_url, settings.cipher) as store:
        feed = read_feed(demo_inventory())
        import_feed(store, settings.dealer, feed, source="inventory.csv", at=datetime.now(UTC))


def _sections(dealership: Dealership) -> Iterator[str]:
    yield (
        "# Dialogs of a model with the tools\n\nThese are the calls of somebody who played a model and had read only "
        "[the tools' texts](mcp.md#what-the-model-sees), wrong calls included, and the real results of the demo "
        "dealer. A test compares this page with the service. Dates and ids are replaced, and long texts are cut.\n"
    )
    for number, task in enumerate(TASKS, 1):
        yield f"\n## {number}. {task.title}\n\n**Shopper:** {task.shopper}\n"
        for tool, arguments in task.calls:
            yield f"\n**Model:** `{tool}`\n\n```json\n{json.dumps(arguments)}\n```\n"
            yield from _result(dealership, tool, json.loads(json.dumps(arguments).replace(SATURDAY, _saturday())))
        yield f"\n**Model, to the shopper:** {task.says}\n"


def _result(dealership: Dealership, tool: str, arguments: dict[str, Any]) -> Iterator[str]:
    result = use(dealership, tool, arguments, capabilities=FORM)
    if result.get("resultType") == "input_required":
        question = result["inputRequests"]["consent"]["params"]["message"]
        yield f"\n**The host asks the shopper:**\n\n{_block(question)}\n**Shopper:** ticks e-mail, and accepts.\n"
        state = result["requestState"]
        result = use(dealership, tool, arguments, capabilities=FORM, state=state, answer=ticked(email=True))
    (content,) = result["content"]
    yield f"\n**Tool:**\n\n{_block(content['text'])}"


def _block(text: str) -> str:
    lines = [line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…" for line in _steady(text).splitlines()]
    if len(lines) > MOST_LINES + 1:
        lines = [*lines[:MOST_LINES], f"… {len(lines) - MOST_LINES} more lines"]
    return "```text\n" + "\n".join(lines) + "\n```\n"


def _steady(text: str) -> str:
    """The text without what changes from run to run."""
    text = re.sub(r"\b[0-9A-HJKMNP-TV-Z]{26}\b", "ID", text)
    text = re.sub(r"(lead_secret: )\S+", r"\1SECRET", text)
    text = re.sub(r"\d{4}-\d\d-\d\d(T[\d:.]+(Z|[+-]\d\d:\d\d)?)?", "DATE", text)
    text = re.sub(r"(\w+day), \w+ \d+(, \d{4})?", r"\1, DATE", text)
    text = re.sub(r"\bC[SD]T\b", "CST", text)
    # When somebody gets in touch depends on the hour.
    return re.sub(r"(has your request\.).*", r"\1 …", text)


def _saturday() -> str:
    """The date of a Saturday that is no holiday of the demo dealer, at least two days ahead."""
    day = datetime.now(ZoneInfo("America/Chicago")).date() + timedelta(days=2)
    while day.strftime("%A") != "Saturday" or str(day) in demo_dealer_toml():
        day += timedelta(days=1)
    return str(day)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
