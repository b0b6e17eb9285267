"""The console in a real browser, Debian's Chromium, that `js/console.js` drives: sign-in, and every page."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.acceptance.asking import asked, body, lead
from tests.acceptance.dealers import HONDA_VIN, stocked_dealer
from tests.acceptance.running import Running, serving, succeed
from tests.acceptance.test_javascript_client import JS, installed
from tests.console.payloads import PAYLOADS

from dealer_agent.console.routes import ROUTES

pytestmark = [pytest.mark.outside_protocol("console"), pytest.mark.soak]

OWNER = "owner@example.com"
DEALER = "/console/d/acceptance"
MOST_BYTES = 100_000
NOT_REACHED = [
    "/d/{dealer}/privacy/export",
    "/d/{dealer}/privacy/erase",
    "/d/{dealer}/privacy/erase/confirmed",
    "/d/{dealer}/settings/history/{number}",
    "/d/{dealer}/stock/import/{file}",
]
"""Pages behind forms. `tests/console` sends these."""
PICTURES = os.environ.get("CONSOLE_PICTURES", "")
"""A folder in which the pictures of all pages are kept, for a person to look at."""


ACTS: dict[str, Any] = {
    "replayed": 401,
    "mark": "The lead is marked.",
    "note": "The note is added.",
    # The dealer has no channel.
    "resend": "This is not possible",
    "arrange": "The visit is changed.",
    "move": "The visit is changed.",
    "cancel": "The visit is changed.",
    "export": "leads-",
    "search": "Leads",
    "visits": "Visits from ",
    "quarantine": "The policy is changed.",
    "release": "The lead is released. The service sends it now.",
    "allow": "The policy is changed.",
    "token": "The token is made",
    "shown": "dat_",
    "revoke": "The token is revoked.",
    "ask": "Ask your own agent",
    "wire": True,
    "hide": "The unit is hidden.",
    "show": "The unit is released.",
    "undo": "The import is undone.",
    "change": "The settings are saved.",
    "back": "The settings are saved.",
    "proof": "Proof of consent",
    "record": "consent-",
    "withdraw": "The withdrawal is recorded for all leads of the customer.",
    "log": "Access log",
    "invite": "The invitation",
    "role": "The role is changed.",
    "session": "The session is ended.",
    "again": "The invitation",
    "health": "Health",
    "codes": "Your recovery codes",
    "own": "Sign in",
}
"""What a page says after each act, in its first words. The first one is an answer of a passkey that is sent again."""


class Seen(NamedTuple):
    """What the browser saw."""

    steps: dict[str, Any]
    looks: list[dict[str, Any]]
    acts: dict[str, Any]
    troubles: list[str]
    log: str


def invited(folder: Path) -> str:
    """The path of an invitation of an owner."""
    printed = succeed("console", "invite", OWNER, "--role", "owner", "--dir", folder)
    path = re.search(r"/console/invitation/\S+", printed)
    assert path is not None
    return path[0]


def driven(script: str, running: Running, path: str, *more: str) -> dict[str, Any]:
    """What a script saw that uses an invitation."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("GAP: no Chromium here, so the console was not tried in a browser")
    done = subprocess.run(
        [installed(), script, f"http://localhost:{running.port}{path}", DEALER, *more],
        cwd=JS,
        env=os.environ | {"CHROMIUM": chromium},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    folder = stocked_dealer(tmp_path_factory.mktemp("console"))
    if PICTURES:
        Path(PICTURES).mkdir(parents=True, exist_ok=True)
    with serving(folder) as running:
        for number, payload in enumerate(PAYLOADS[:12]):
            sent = lead(number, vehicle_of_interest={"vin": HONDA_VIN}, message=payload, source_agent=payload[:100])
            sent["customer"] |= {"first_name": payload[:60], "last_name": "Browser"}
            asked(running.url, "lead.submit", **sent)
        made = invited(folder)
        found = driven("console.js", running, made, PICTURES, OWNER)
    return Seen(found["steps"], found["looks"], found["acts"], found["troubles"], running.stderr())


def test_an_owner_does_every_act_of_every_page(tmp_path: Path) -> None:
    folder = stocked_dealer(tmp_path / "dealer")
    with serving(folder) as running:
        for number in range(4):
            asked(running.url, "lead.submit", **lead(number, vehicle_of_interest={"vin": HONDA_VIN}))
        found = driven("console_acts.js", running, invited(folder), json.dumps(body("lead.submit", **lead(9))))
        assert "console failed" not in running.stderr()
    assert found.pop("checks") > 10
    first = {
        name: words[: len(ACTS.get(name, ""))] if isinstance(words, str) else words for name, words in found.items()
    }
    assert first == ACTS, found


def test_a_person_signs_in_by_passkey_by_password_and_by_recovery_code(seen: Seen) -> None:
    assert seen.steps == {
        "added": "The passkey is added.",
        "codes": 10,
        "back": "/console/sign-in",
        "passkey": DEALER,
        "password": DEALER,
        "recovery": "/console/account",
    }


def test_a_salesperson_opens_the_first_lead_soon_after_the_invitation(seen: Seen) -> None:
    assert seen.acts["lead"].startswith("Lead ")
    # A person is slower than the browser. Nothing but three buttons and two links is in the way.
    assert seen.acts["seconds"] < 180


def test_an_owner_settles_a_feed_erases_a_customer_and_removes_a_person(seen: Seen) -> None:
    assert seen.acts["dry"].startswith("Nothing is changed yet")
    assert seen.acts["feed"].startswith("The file is imported")
    assert seen.acts["erased"] == "The customer is erased"
    assert seen.acts["removed"].startswith("The person is removed")
    assert seen.acts["sam"] == "/console/sign-in"


def test_every_page_answers_without_an_error_of_a_script_or_a_policy(seen: Seen) -> None:
    assert {look["status"] for look in seen.looks} == {200}
    assert seen.troubles == []


def test_every_page_of_a_dealer_is_reached_by_links(seen: Seen) -> None:
    reached = [look["path"].partition("?")[0].removeprefix("/console") for look in seen.looks]
    pages = [route for route in ROUTES if route.method == "GET" and route.path.startswith("/d/")]
    assert [route.path for route in pages if not any(map(route.pattern.match, reached))] == NOT_REACHED


def test_no_page_has_a_violation_of_accessibility(seen: Seen) -> None:
    assert [(look["path"], each) for look in seen.looks for each in look["violations"]] == []


def test_no_page_scrolls_sideways_on_a_phone_or_a_desk(seen: Seen) -> None:
    assert [(look["path"], look["screen"]) for look in seen.looks if look["beyond"] > 0] == []


def test_the_keyboard_reaches_everything(seen: Seen) -> None:
    assert [(look["path"], each) for look in seen.looks for each in look["unreached"]] == []


def test_a_page_is_small_and_its_title_names_nobody(seen: Seen) -> None:
    assert [look["path"] for look in seen.looks if look["bytes"] > MOST_BYTES] == []
    assert [look["title"] for look in seen.looks if "Browser" in look["title"] or "@" in look["title"]] == []


def test_the_log_names_nobody(seen: Seen) -> None:
    for secret in (OWNER, "Browser", "invitation/"):
        assert secret not in seen.log
