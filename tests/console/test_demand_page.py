"""The demand of a month in the console: plots whose numbers are also in tables."""

from datetime import date

import pytest
from tests.console.browsers import ROOT
from tests.console.conftest import SignedIn
from tests.console.test_stock_pages import HOSTILE, Tags
from tests.server.dealership import ACCORD, Dealership

from dealer_agent.storage.daily_counts import Tally, add_counts

pytestmark = pytest.mark.outside_protocol("console")

DEMAND = f"{ROOT}/demand"
TALLY: Tally = {
    "requests": {"inventory.search OK": 12, "lead.submit OK": 2},
    "searches": {"examined": 12, "found_nothing": 5},
    "make": {"Honda": 9, "Subaru": 4},
    "nothing_make": {"Subaru": 4},
    "nothing_model": {"Subaru: Outback": 3, HOSTILE: 1},
    "nothing_filter": {"price_max": 2},
    "outside_price": {f"vin-{ACCORD}": 6},
}


def count(console: Dealership, day: date, tally: Tally = TALLY) -> None:
    with console.store() as store, store.write("test-motors") as tx:
        add_counts(tx, day, tally)


def test_the_page_has_what_was_not_found_and_what_was_priced_out(console: Dealership, signed_in: SignedIn) -> None:
    count(console, date(2026, 3, 5))
    page = signed_in("viewer").get(f"{DEMAND}?month=2026-03").text
    assert "Demand in March 2026" in page
    assert "<title>Subaru: 4</title>" in page
    assert '<td data-label="Model">Subaru Outback</td><td class="number" data-label="March 2026">3</td>' in page
    assert "2024 Honda Accord, stock N-7" in page
    assert "Price, at most" in page
    assert "<title>2026-03-05: 14</title>" in page


def test_the_month_is_chosen(console: Dealership, signed_in: SignedIn) -> None:
    count(console, date(2026, 3, 5))
    viewer = signed_in("viewer")
    page = viewer.get(f"{DEMAND}?month=2026-04").text
    assert '<option value="2026-04" selected>April 2026</option>' in page
    assert '<option value="2026-03">March 2026</option>' in page
    assert "Nothing was counted" in page
    assert viewer.get(DEMAND).status_code == 200
    for wrong in ("2026-13", "yesterday", "0000-01"):
        assert viewer.get(f"{DEMAND}?month={wrong}").status_code == 422


def test_a_word_of_a_search_never_becomes_markup(console: Dealership, signed_in: SignedIn) -> None:
    count(console, date(2026, 3, 5))
    tags = Tags()
    tags.feed(signed_in("viewer").get(f"{DEMAND}?month=2026-03").text.replace("<svg ", "<figure "))
    assert (tags.scripts, tags.unsafe) == (2, [])
