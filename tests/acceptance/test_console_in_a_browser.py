"""The console in a real browser, Debian's Chromium, that the scripts `js/console*.js` drive with the keyboard alone."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.acceptance.asking import asked, body, lead
from tests.acceptance.dealers import HONDA_VIN
from tests.acceptance.filled_dealer import FEED, NORTH, PROBLEM, SOUTH, customer, open_dealer, quarter
from tests.acceptance.running import Running, eventually, serving, succeed
from tests.acceptance.test_javascript_client import JS, installed
from tests.console.payloads import PAYLOADS
from tests.console.test_demand_page import TALLY
from tests.installation.platform import DEALERS, add, make_installation

from dealer_agent.console.routes import ROUTES, find_route
from dealer_agent.feeds.staging.staged_files import StagedFacts, stage
from dealer_agent.storage.daily_counts import add_counts
from dealer_agent.storage.store import Store

pytestmark = [pytest.mark.outside_protocol("console"), pytest.mark.soak]

OWNER = "owner@example.com"
CONSOLE = "/console"
DEALER = f"{CONSOLE}/d/acceptance"
MOST_BYTES = 100_000
NOT_SEEN = ["/d/{dealer}/privacy/export", "/d/{dealer}/privacy/erase", "/d/{dealer}/privacy/erase/confirmed"]
"""The pages to which the browser comes back when a proof has ended while a form was filled in: five minutes later."""
PICTURES = os.environ.get("CONSOLE_PICTURES", "")
"""A folder in which the pictures of all pages are kept, for a person to look at."""
INSTALLATION = '[installation]\npublic_url = "http://localhost:8080"\n'
BAD_FEED = b"VIN,Stock,Make,Price\n,Z1,Honda,9000\n"
"""A file that the checks refuse: most of the stock is not in it."""


ACTS: dict[str, Any] = {
    # An answer of a passkey that is sent again.
    "replayed": 401,
    "prove": "Today",
    "retry": "The deliveries of the lead are tried again now.",
    "reached": "The lead is marked.",
    "took-place": "This is recorded, and the CRM is notified.",
    "asked": "Lead of ",
    "confirm": "The visit is changed.",
    "no-show": "This is recorded, and the CRM is notified.",
    "mark": "The lead is marked.",
    "note": "The note is added.",
    "resend": "It is sent again now.",
    "arrange": "The visit is changed.",
    "move": "The visit is changed.",
    "cancel": "The visit is changed.",
    "export": "leads-",
    "search": "Leads",
    "visits": "Visits from ",
    "quarantine": "The policy is changed.",
    "waits": "Lead of ",
    "release": "The lead is released. The service sends it now.",
    "refuse": "The lead is refused.",
    "allow": "The policy is changed.",
    "token": "The token is made",
    "shown": "dat_",
    "revoke": "The token is revoked.",
    "ask": "Ask your own agent",
    "wire": True,
    "ask-lead": "The form of the lead is right. It was not sent.",
    "hide": "The unit is hidden.",
    "show": "The unit is released.",
    "hold-extended": "The hold is extended.",
    "hold-ended": "The hold is ended.",
    "drop": "export.csv",
    "discard": "The file is deleted. Nothing was changed.",
    "unread": "export.csv",
    "again": "export.csv",
    "look-at-refused": "lot.csv",
    "accept": "The file is imported.",
    "undo": "The import is undone.",
    "difference": "What would change",
    "change": "The settings are saved.",
    "back": "The settings are saved.",
    "find": "What is stored of this customer",
    "proof": "Proof of consent",
    "record": "consent-",
    "withdraw": "The withdrawal is recorded for all leads of the customer.",
    "erase-customer": "Erase a customer",
    "erased-customer": "The customer is erased",
    "erase-lead": "Erase a customer",
    "erased-lead": "The customer is erased",
    "erased": "Lead",
    "log": "Access log",
    "invite": "The invitation",
    "role": "The role is changed.",
    "person": "kim@example.com",
    "session": "The session is ended.",
    "again-invited": "The invitation",
    "remove": "The person is removed",
    "health": "Health",
    "codes": "Your recovery codes",
    "last-way": "This is not possible",
    "own": "Sign in",
}
"""What a page says after each act, in its first words."""


class Seen(NamedTuple):
    """What the browser saw, as the script of the browser says it, and the log of the service."""

    found: dict[str, Any]
    log: str

    @property
    def looks(self) -> list[dict[str, Any]]:
        """The pages, each on each screen in each colour scheme."""
        looks: list[dict[str, Any]] = self.found["looks"]
        return looks


def invited(folder: Path, *role: str) -> str:
    """The path of an invitation."""
    printed = succeed("console", "invite", OWNER, "--role", *role, "--dir", folder)
    path = re.search(r"/console/invitation/\S+", printed)
    assert path is not None
    return path[0]


def driven(script: str, running: Running, invitation: str, dealer: str, *more: str) -> Seen:
    """What a script saw that uses an invitation."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("GAP: no Chromium here, so the console was not tried in a browser")
    if PICTURES:
        Path(PICTURES).mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [installed(), script, f"http://localhost:{running.port}{invitation}", dealer, PICTURES, *more],
        cwd=JS,
        env=os.environ | {"CHROMIUM": chromium},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return Seen(json.loads(done.stdout), running.stderr())


def working_dealer(folder: Path) -> Path:
    """A dealer with leads and visits that wait for a person, and with a file of a feed that is about to be refused."""
    filled, now = open_dealer(folder), datetime.now(UTC)
    wish: Mapping[str, Any] = {"make": "Honda", "model": "Accord", "vehicle_type": "car", "rooftop": SOUTH}
    for number in range(5):
        at = now - timedelta(minutes=10 + number)
        filled.take(at, customer=customer(number, f"Example{number}"), vehicle_of_interest=wish, message="Is it there?")
    begins, came = quarter(now), now - timedelta(hours=3)
    for number in (5, 6):
        seen = {"stock": f"S{number}", "rooftop": SOUTH, "vehicle_type": "car"}
        filled.take(came, begins, customer=customer(number, "Visitor"), vehicle_of_interest=seen)
    start = now + timedelta(days=1)
    window = {"start": start.isoformat(), "end": (start + timedelta(hours=4)).isoformat()}
    asked_for = {"appointment_type": "test_drive", "requested_windows": [window]}
    north = {**wish, "rooftop": NORTH}
    filled.take(came, customer=customer(7, "Asking"), vehicle_of_interest=north, appointment=asked_for)
    parked, _ = filled.take(came, customer=customer(8, "Parked"), vehicle_of_interest=wish)
    filled.settle(parked, state="undeliverable", problem=PROBLEM)
    settings = filled.settings
    (folder / "dealer.toml").write_text(
        (folder / "dealer.toml").read_text("utf-8") + "\n[offers]\nenabled = true\n", "utf-8"
    )
    with Store.open(settings.database_url, settings.cipher) as store, store.write(settings.dealer.id) as tx:
        add_counts(tx, now.date(), TALLY)
    filled.hold(f"vin-{HONDA_VIN}")
    (folder / "incoming/lot.csv").write_bytes(BAD_FEED)
    return folder


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """The ways to sign in, and every page to which a link leads, of a dealer with texts of strangers everywhere."""
    folder = working_dealer(tmp_path_factory.mktemp("console") / "dealer")
    with serving(folder) as running:
        for number, payload in enumerate(PAYLOADS[:12]):
            sent = lead(number, vehicle_of_interest={"vin": HONDA_VIN}, message=payload, source_agent=payload[:100])
            sent["customer"] |= {"first_name": payload[:60], "last_name": "Browser"}
            asked(running.url, "lead.submit", **sent)
        return driven("console.js", running, invited(folder, "owner"), DEALER, OWNER)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """Every act of every page."""
    folder = working_dealer(tmp_path_factory.mktemp("acts") / "dealer")
    facts = StagedFacts(name="export.csv", by=OWNER, at=datetime.now(UTC))
    unread = stage(folder, BytesIO(BAD_FEED), facts).file_id
    with serving(folder) as running:
        refused = folder / "feeds" / FEED / "refused"
        eventually("the file is refused", lambda: [*refused.glob("*")])
        sent = json.dumps(body("lead.submit", **lead(9)))
        return driven("console_acts.js", running, invited(folder, "owner"), DEALER, sent, unread)


@pytest.fixture(scope="module")
def operated(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """The pages of an operator."""
    installation = make_installation(tmp_path_factory.mktemp("operator") / "platform", INSTALLATION)
    for dealer_id in DEALERS:
        add(installation, dealer_id)
    with serving(installation.folder) as running:
        link = invited(installation.folder, "operator")
        return driven("console_operator.js", running, link, f"{CONSOLE}/d/{DEALERS[0]}")


@pytest.fixture(scope="module")
def everything(seen: Seen, done: Seen, operated: Seen) -> list[dict[str, Any]]:
    """All looks at pages."""
    return [*seen.looks, *done.looks, *operated.looks]


def test_an_owner_does_every_act_of_every_page(done: Seen) -> None:
    found = dict(done.found["said"])
    assert found.pop("checks") > 10
    first = {
        name: words[: len(ACTS.get(name, ""))] if isinstance(words, str) else words for name, words in found.items()
    }
    assert first == ACTS, found


def test_the_browser_uses_every_route(seen: Seen, done: Seen, operated: Seen) -> None:
    used = set()
    for each in (*seen.found["answered"], *done.found["answered"], *operated.found["answered"]):
        method, _, path = each.partition(" ")
        if path.startswith(CONSOLE) and isinstance(
            found := find_route(method, path.removeprefix(CONSOLE) or "/"), tuple
        ):
            used.add(found[0])
    assert [route.path for route in ROUTES if route.method == "POST" and route not in used] == []
    assert [route.path for route in ROUTES if route.method == "GET" and route not in used] == NOT_SEEN


def test_a_person_signs_in_by_passkey_by_password_and_by_recovery_code(seen: Seen) -> None:
    # `console.js` says what each step is: a text of the page, or the path to which the act led.
    assert seen.found["steps"] == {
        "added": "The passkey is added.",
        "codes": 10,
        "back": "/console/sign-in",
        "passkey": DEALER,
        "password": DEALER,
        "proved": f"{DEALER}/people",
        "removed": "The passkey is removed.",
        "recovery": "/console/account",
    }


def test_a_salesperson_opens_the_first_lead_soon_after_the_invitation(seen: Seen) -> None:
    assert seen.found["stories"]["lead"].startswith("Lead ")
    # A person is slower than the browser. Nothing but two buttons and three links is in the way.
    assert seen.found["stories"]["seconds"] < 180


def test_a_person_who_is_removed_is_signed_out(seen: Seen) -> None:
    assert seen.found["stories"]["removed"].startswith("The person is removed")
    assert seen.found["stories"]["sam"] == "/console/sign-in"


def test_an_operator_sees_all_dealers_and_no_page_of_one(operated: Seen) -> None:
    assert operated.found["said"] == {
        "first": "All dealers",
        "dealers": list(DEALERS),
        "health": "Health",
        "foreign": 404,
    }


def test_every_page_answers_without_an_error_of_a_script_or_a_policy(seen: Seen, done: Seen, operated: Seen) -> None:
    assert {page["status"] for page in seen.found["opened"]} == {200}
    assert seen.found["troubles"] == []
    # The browser also reports the statuses of what must be refused.
    statuses = r"console: Failed to load resource: the server responded with a status of (404|422) .*"
    others = [*done.found["troubles"], *operated.found["troubles"]]
    assert [each for each in others if not re.fullmatch(statuses, each)] == []


def test_no_page_has_a_violation_of_accessibility(everything: list[dict[str, Any]]) -> None:
    assert [(look["name"], each) for look in everything for each in look["violations"]] == []


def test_no_page_scrolls_sideways_on_a_phone_or_a_desk(everything: list[dict[str, Any]]) -> None:
    assert [(look["name"], look["screen"]) for look in everything if look["beyond"] > 0] == []


def test_the_keyboard_reaches_everything(everything: list[dict[str, Any]]) -> None:
    assert [(look["name"], each) for look in everything for each in look.get("unreached", [])] == []


def test_a_page_is_small_and_its_title_names_nobody(seen: Seen, everything: list[dict[str, Any]]) -> None:
    assert [page["path"] for page in seen.found["opened"] if page["bytes"] > MOST_BYTES] == []
    titles = {look["title"] for look in everything}
    assert [
        title for title in titles if any(name in title for name in ("Browser", "Example", "Maximiliana", "@"))
    ] == []


def test_the_log_names_nobody(seen: Seen, done: Seen) -> None:
    for secret in (OWNER, "Browser", "Maximiliana", "invitation/"):
        assert secret not in seen.log + done.log
