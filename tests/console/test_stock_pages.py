"""The stock in the console: what agents see, units with a problem, held units, imports with a dry run, and an undo."""

import json
import re
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

import httpx
import pytest
from msgspec import Struct
from tests.console.browsers import ROOT, Browser, add_member, sign_in
from tests.console.conftest import SERVICE, SignedIn
from tests.server.dealership import ACCORD, LOT, NO_LIMITS, Dealership, run_dealership, set_up

from dealer_agent.feeds.staging import import_process, imports, staged_files
from dealer_agent.feeds.staging.staged_files import FOLDER, MOST_STAGED
from dealer_agent.storage.stock.reading import list_imports

pytestmark = pytest.mark.outside_protocol("console")

STOCK = f"{ROOT}/stock"
CHICAGO = ZoneInfo("America/Chicago")
"""The zone of the dealer, whose day counts."""
HOSTILE = """"><script>alert(1)</script><img src=x onerror=alert(2)>'{{7*7}}"""
UNCLOSED = """" onmouseover="alert(5)" '<img src=x onerror=alert(6) <svg/onload=alert(7) """


class _ImportHere:
    """Does the work of the process that reads a staged file, in this process and without its limits."""

    def run(self, module: str, job: Struct) -> tuple[int, str]:
        assert module == import_process.__name__
        assert isinstance(job, import_process.StagedImport)
        import_process.do(job)
        return 0, ""


@pytest.fixture
def imports_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of pages and of the stock. Others read a file in a process of its own, as a service does."""
    monkeypatch.setattr(imports, "ChildJob", _ImportHere)


class Tags(HTMLParser):
    """Counts scripts, and collects attributes that would run something or lead elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts = 0
        self.unsafe: list[tuple[str, str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        for name, value in attrs:
            is_address = name in ("href", "src", "action", "formaction")
            leads_elsewhere = is_address and not (value or "").startswith(
                ("/console", "https://example.com/", "#", "data:,")
            )
            if name.startswith("on") or leads_elsewhere or tag in ("svg", "iframe", "object", "base"):
                self.unsafe.append((tag, name, value))


def drop(
    browser: Browser, units: Sequence[Mapping[str, Any]] | bytes, name: str = "lot.json", **fields: str
) -> httpx.Response:
    """Drops a file into the page of imports."""
    content = units if isinstance(units, bytes) else json.dumps(units).encode()
    parts = [
        f'--edge\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n' for key, value in fields.items()
    ]
    head = f'--edge\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    body = "".join(parts).encode() + head.encode() + content + b"\r\n--edge--\r\n"
    headers = {"content-type": "multipart/form-data; boundary=edge", "origin": browser.origin}
    return browser.send("POST", f"{STOCK}/import", body, headers)


def page_of(browser: Browser, path: str) -> str:
    """The page of a staged file, when nobody works on it any more."""
    for _ in range(1500):
        page = browser.get(path)
        assert page.status_code == 200, page.text
        if "every 2s" not in page.text:
            return page.text
        time.sleep(0.02)
    raise AssertionError("the file is read for too long")


def staged_by(browser: Browser, units: Sequence[Mapping[str, Any]] | bytes, **fields: str) -> str:
    """The path of the page of a file, after its dry run."""
    dropped = drop(browser, units, **fields)
    assert dropped.status_code == 303, dropped.text
    path = dropped.headers["location"]
    page_of(browser, path)
    return str(path)


def imported(browser: Browser, units: Sequence[Mapping[str, Any]]) -> str:
    """The page of a file after its import, for which everything is accepted that the checks refuse."""
    path = staged_by(browser, units)
    accept = re.findall(r'name="accept" value="(\w+)"', browser.get(path).text)
    done = browser.post(path, {"accept": accept, "reason": "A test."})
    assert done.status_code == 303, done.text
    return page_of(browser, path)


def without(*stocks: str) -> list[dict[str, Any]]:
    return [unit for unit in LOT if unit["stock"] not in stocks]


def shown_to_agents(console: Dealership, vin: str = ACCORD) -> dict[str, Any]:
    """The vehicle as an agent gets it, once this process has noticed the newest stock."""
    with console.store() as store, store.read("test-motors") as tx:
        revision = list_imports(tx, 1)[0].revision
    for _ in range(500):
        if console.service.loaded.stock == revision:
            break
        time.sleep(0.02)
    return console.ask("inventory.vehicle", vin=vin)


def test_the_list_has_what_agents_find(signed_in_there: SignedIn) -> None:
    viewer = signed_in_there("viewer")
    everything = viewer.get(STOCK).text
    assert "122 units, as agents see them" in everything
    assert everything.count("<tr>") == 51
    found = viewer.get(f"{STOCK}?q=accord").text
    assert "1 unit with these words" in found
    assert "2024 Honda Accord" in found
    assert "$28,500" in found
    assert "More rows" in everything
    assert viewer.get(f"{STOCK}?page=3").text.count("<tr>") == 23


def test_one_unit_shows_what_agents_see_and_where_it_came_from(signed_in_there: SignedIn) -> None:
    page = signed_in_there("viewer").get(f"{STOCK}/unit?id=vin-{ACCORD}").text
    assert "Agents see" in page
    assert "lot.json" in page
    assert 'src="https://example.com/a.jpg"' in page
    assert "Hide from agents" not in page


def test_units_with_a_problem_have_reason_and_cure(signed_in_there: SignedIn) -> None:
    viewer = signed_in_there("viewer")
    no_price = viewer.get(f"{STOCK}/problems?kind=no-price").text
    without_price = [unit for unit in LOT if "price" not in unit]
    assert f"No price ({len(without_price)})" in no_price
    assert "Write the price into your inventory system" in no_price
    assert "Agents see no photo." in viewer.get(f"{STOCK}/problems?kind=no-photo").text
    wrong = viewer.get(f"{STOCK}/problems?kind=vin").text
    assert "The check digit of the VIN" in wrong
    assert "No unit has this problem" in viewer.get(f"{STOCK}/problems?kind=old").text
    assert viewer.get(f"{STOCK}/problems?kind=other").status_code == 404


def test_a_dry_run_changes_nothing_and_then_the_same_file_is_imported(console: Dealership, signed_in: SignedIn) -> None:
    manager = signed_in("manager")
    cheaper = [{**unit, "price": 27_900} if unit.get("vin") == ACCORD else unit for unit in LOT]
    path = staged_by(manager, cheaper)
    page = manager.get(path).text
    assert re.search(r"Changed</td><td[^>]*>1<", page), page
    assert "Nothing is changed yet" in page
    assert shown_to_agents(console)["price"] == 28_500
    assert manager.post(path).headers["location"] == path
    assert "The file is imported" in page_of(manager, path)
    assert shown_to_agents(console)["price"] == 27_900
    again = manager.post(path)
    assert again.status_code == 303
    with console.store() as store, store.read("test-motors") as tx:
        assert len(list_imports(tx, 10)) == 3


@pytest.mark.usefixtures("imports_here")
def test_a_refused_file_is_accepted_by_name_with_a_reason_that_the_history_keeps(
    console: Dealership, signed_in: SignedIn
) -> None:
    manager = signed_in("manager", email="kim@example.com")
    path = staged_by(manager, LOT[:40])
    page = manager.get(path).text
    assert "The checks refuse this file" in page
    assert "82 of 122 units that are for sale are not in the file." in page
    checks = re.findall(r'name="accept" value="(\w+)"', page)
    assert "units_lost" in checks
    for form in ({}, {"reason": "They are sold."}, {"accept": checks}):
        assert manager.post(path, form).status_code == 422
    assert "Nothing is changed yet" in manager.get(path).text
    reason = f"We sold the trailers. {HOSTILE}"
    assert manager.post(path, {"accept": checks, "reason": reason}).status_code == 303
    assert "The file is imported" in page_of(manager, path)
    with console.store() as store, store.read("test-motors") as tx:
        newest = list_imports(tx, 1)[0]
    accepted = next(each for each in newest.findings if each.check == "units_lost")
    assert (accepted.accepted_by, accepted.accepted_why) == ("kim@example.com", reason)
    entry = signed_in("viewer").get(f"{STOCK}/history/{newest.revision}").text
    assert "Accepted by kim@example.com: We sold the trailers." in entry
    assert "<script>alert" not in entry


@pytest.mark.usefixtures("imports_here")
def test_a_file_that_cannot_be_read_is_not_imported(signed_in: SignedIn) -> None:
    manager = signed_in("manager")
    path = staged_by(manager, b"This is a letter, not a list of vehicles.")
    page = manager.get(path).text
    assert 'role="alert"' in page
    assert "Import it" not in page
    assert manager.post(path).status_code == 422


@pytest.mark.usefixtures("imports_here")
@pytest.mark.parametrize("payload", [HOSTILE, UNCLOSED])
def test_the_text_of_a_feed_never_becomes_markup(console: Dealership, signed_in: SignedIn, payload: str) -> None:
    manager = signed_in("manager")
    texts = ("make", "model", "trim", "description", "engine", "exterior_color", "body", payload)
    photos = ["javascript:alert(3)", 'https://example.com/"><script>alert(4)</script>.jpg', payload]
    shown = dict.fromkeys(texts, payload) | {
        "stock": f"EVIL-1 {payload[:50]}", "year": 2021, "condition": "used", "price": 9_000, "mileage": 41_000,
        "rooftop": "Test Motors South", "photos": photos,
    }  # fmt: skip
    held = {**shown, "stock": f"EVIL-2 {payload[:50]}", "status": payload}
    foreign = {**shown, "stock": "EVIL-3", "rooftop": payload}
    path = staged_by(manager, [*LOT, shown, held, foreign], name=f"{payload.replace(chr(34), '')}.json")
    pages = [manager.get(path).text, imported(manager, [*LOT, shown, held, foreign])]
    shown_to_agents(console)
    found = [STOCK, f"{STOCK}?q={quote(payload)}", f"{STOCK}/history", f"{STOCK}/held", f"{STOCK}/feeds"]
    found += [f"{STOCK}/problems?kind={kind}" for kind in ("no-price", "no-photo", "vin", "price", "old")]
    pages += [manager.get(each).text for each in found]
    ids = {unescape(each) for page in pages for each in re.findall(r'/stock/unit\?id=([^"]+)"', page)}
    evil = [manager.get(f"{STOCK}/unit?id={each}").text for each in ids if "evil" in each.lower()]
    assert len(evil) == 2
    for page in (*pages, *evil):
        tags = Tags()
        tags.feed(page)
        assert tags.scripts == 2, page
        assert not tags.unsafe


@pytest.mark.usefixtures("imports_here")
def test_a_person_releases_and_hides_a_unit(console: Dealership, signed_in: SignedIn) -> None:
    manager = signed_in("manager")
    odd = [{**unit, "price": 99} if unit.get("vin") == ACCORD else unit for unit in LOT]
    imported(manager, odd)
    held = signed_in("viewer").get(f"{STOCK}/held").text
    assert "N-7" in held
    assert "Correct the price in your inventory system" in held
    assert "Release" not in re.sub(r"<p>.*?</p>", "", held)
    assert shown_to_agents(console)["price"] == 28_500
    unit = {"id": f"vin-{ACCORD}"}
    assert manager.post(f"{STOCK}/unit/release", unit).status_code == 303
    assert shown_to_agents(console)["price"] == 99
    assert manager.post(f"{STOCK}/unit/release", unit).status_code == 422
    assert manager.post(f"{STOCK}/unit/hide", unit).status_code == 303
    hidden = manager.get(f"{STOCK}/unit?id=vin-{ACCORD}").text
    assert "Hidden</strong> by manager@example.com" in hidden
    assert manager.post(f"{STOCK}/unit/hide", {"id": "vin-OTHER"}).status_code == 422
    assert signed_in("viewer").post(f"{STOCK}/unit/release", unit).status_code == 403


@pytest.mark.usefixtures("imports_here")
def test_the_last_import_is_undone_only_if_it_is_still_the_last(console: Dealership, signed_in: SignedIn) -> None:
    manager = signed_in("manager")
    imported(manager, without("S-9"))
    page = manager.get(f"{STOCK}/undo").text
    assert re.search(r"Sold units for sale again</td><td[^>]*>1<", page)
    revision = re.search(r'name="revision" value="(\d+)"', page)
    assert revision is not None
    assert manager.post(f"{STOCK}/undo", {"revision": "1"}).status_code == 422
    assert manager.post(f"{STOCK}/undo", {"revision": revision[1]}).status_code == 303
    assert "No import can be undone" in manager.get(f"{STOCK}/undo").text
    assert "undone" in manager.get(f"{STOCK}/history").text


@pytest.mark.usefixtures("imports_here")
def test_staged_files_are_private_few_and_deleted_after_an_hour(
    console: Dealership, signed_in: SignedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = signed_in("manager")
    paths = [staged_by(manager, LOT) for _ in range(MOST_STAGED + 1)]
    folder = console.folder / FOLDER
    assert folder.stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())
    assert len([*folder.glob("*.feed")]) == MOST_STAGED
    gone = manager.get(paths[0])
    assert gone.status_code == 404
    assert "is not here any more" in gone.text
    assert manager.post(paths[0]).status_code == 404
    assert manager.post(f"{paths[1]}/discard").status_code == 303
    assert manager.get(paths[1]).status_code == 404
    staged_files.delete_old_staged(console.folder, datetime.now(UTC) + timedelta(minutes=61))
    assert not [*folder.iterdir()]


@pytest.mark.parametrize("name", ["../../keys", "..%2f..%2fkeys", "%00", "x" * 26])
def test_the_name_of_a_staged_file_leads_nowhere_else(signed_in_there: SignedIn, name: str) -> None:
    assert signed_in_there("manager").get(f"{STOCK}/import/{name}").status_code == 404


@pytest.mark.usefixtures("imports_here")
def test_a_file_of_a_feed_that_was_refused_is_settled_in_the_page(tmp_path: Path, stocked: Path) -> None:
    feed = '\n[[feeds]]\nname = "main"\nrooftops = ["Test Motors South"]\n[feeds.folder]\npath = "drop"\n'
    set_up(tmp_path / "dealer", SERVICE + NO_LIMITS + feed, stocked=stocked)
    refused = tmp_path / "dealer/feeds/main/refused"
    refused.mkdir(parents=True)
    file_id = f"{time.time_ns()}-abcdef"
    (refused / f"{file_id}-lot.json").write_text(json.dumps(LOT[1:40]))
    with run_dealership(tmp_path / "dealer") as opened, opened.store() as store:
        manager = sign_in(opened, store, add_member(store, "manager"))
        assert manager.get(f"{STOCK}/feeds").status_code == 200
        elsewhere = manager.post(f"{STOCK}/feeds/refused", {"feed": "main", "file": f"{file_id}-other"})
        assert (elsewhere.status_code, "another machine" in elsewhere.text) == (422, True)
        taken = manager.post(f"{STOCK}/feeds/refused", {"feed": "main", "file": file_id})
        path = taken.headers["location"]
        accept = re.findall(r'name="accept" value="(\w+)"', page_of(manager, path))
        assert manager.post(path, {"accept": accept, "reason": "Sold at the auction."}).status_code == 303
        assert "The file is imported" in page_of(manager, path)
        with store.read("test-motors") as tx:
            newest = list_imports(tx, 1)[0]
    assert (newest.feed, newest.source, newest.rooftops) == ("main", "lot.json", ("Test Motors South",))


def test_a_viewer_imports_nothing(signed_in_there: SignedIn) -> None:
    assert drop(signed_in_there("viewer"), LOT).status_code == 403
    assert signed_in_there("sales").get(f"{STOCK}/import").status_code == 403


@pytest.mark.usefixtures("imports_here")
def test_a_unit_is_old_by_the_date_of_the_feed(console: Dealership, signed_in: SignedIn) -> None:
    manager = signed_in("manager")
    since = datetime.now(CHICAGO).date() - timedelta(days=91)
    imported(manager, [{**unit, "inventory_date": f"{since}"} if unit["stock"] == "N-7" else unit for unit in LOT])
    assert shown_to_agents(console)["inventory_date"] == f"{since}"
    page = manager.get(f"{STOCK}/problems?kind=old").text
    assert "Long on the lot (1)" in page
    assert f"In the stock since {since}, for 91 days." in page
    assert "Lower the price" in page
