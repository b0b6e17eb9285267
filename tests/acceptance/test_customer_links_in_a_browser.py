"""The links of a customer's mail in a real browser, Debian's Chromium: from the mail to the cancelled visit."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.acceptance.asking import asked, lead
from tests.acceptance.dealers import HONDA_VIN, stocked_dealer
from tests.acceptance.running import eventually, serving
from tests.acceptance.test_javascript_client import JS, installed
from tests.acceptance.test_pages_in_a_browser import LONG_NAME, RING_CONTRAST, TEXT_CONTRAST
from tests.delivery.receivers import MailReceiver, always, receiving_mail

SETTINGS = f"""
[[rooftops]]
name = "{LONG_NAME}"
timezone = "America/Denver"
feed_ids = ["WEST"]
[rooftops.phones]
sales = "+1 202 555 0123"
[rooftops.hours.sales]
monday = "09:00-18:00"
tuesday = "09:00-18:00"
wednesday = "09:00-18:00"
thursday = "09:00-18:00"
friday = "09:00-18:00"
saturday = "09:00-18:00"
sunday = "09:00-18:00"
[rooftops.visits.test_drive]

[mail]
host = "127.0.0.1"
port = %d
security = "none"
from_address = "leads@dealer.example.com"
confirm_appointments = true
"""
NOON = (datetime.now(UTC) + timedelta(days=3)).strftime("%Y-%m-%dT12:00:00-07:00")
Json = dict[str, Any]


class Seen(NamedTuple):
    """What the browser saw: both pages as `js/look.js` looks at them, and the way through them by `js/customer.js`."""

    looks: list[Json]
    pages: dict[str, Any]
    asked: list[tuple[str, str, str | None]]
    mails: MailReceiver
    log: str


def run(script: str, chromium: str, *addresses: str) -> Any:
    done = subprocess.run(
        [installed(), script, *addresses],
        cwd=JS,
        env=os.environ | {"CHROMIUM": chromium, "SCREEN": "desk"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("GAP: no Chromium here, so the links of customers were not tried in a browser")
    unit = {"vin": HONDA_VIN, "stock": "H1", "dealer_id": "WEST", "condition": "used", "year": 2024, "make": "Honda"}
    folder: Path = tmp_path_factory.mktemp("links")
    with receiving_mail(MailReceiver(always("take"))) as receiver:
        stocked_dealer(folder, SETTINGS % receiver.port, [unit | {"model": "Accord"}])
        with serving(folder) as running:
            drive = {"appointment_type": "test_drive", "appointment_at": NOON}
            asked(running.url, "lead.submit", **lead(vehicle_of_interest={"vin": HONDA_VIN}, appointment=drive))
            eventually("the mail arrives", lambda: receiver.taken)
            body = receiver.taken[0].message.get_body()
            assert body is not None
            visit, contact = re.findall(rf"(?m)^{running.url}/(?:visit|contact)/\S+", body.get_content())
            looks = run("look.js", chromium, visit, contact)
            way = run("customer.js", chromium, visit, contact)
            eventually("the mail of the move arrives", lambda: len(receiver.taken) > 1)
            yield Seen(looks, way["pages"], [tuple(each) for each in way["asked"]], receiver, running.stderr())


@pytest.mark.soak
@pytest.mark.requirement("customer-links-accessible")
def test_a_customer_moves_and_cancels_a_visit_without_scripts_by_the_keyboard_on_a_telephone(seen: Seen) -> None:
    pages = seen.pages
    assert "2024 Honda Accord" in pages["visit"]["text"]
    day, year, clock, _ = re.split(r", (?=\d)| (?=M[SD]T)", pages["chosen"])
    assert f"{day}, {year}, {clock} to " in pages["moved"]["text"]
    assert pages["moved"]["address"] != pages["visit"]["address"]
    told = [body.get_content() for mail in seen.mails.taken[1:] if (body := mail.message.get_body()) is not None]
    assert any(pages["moved"]["address"] in text for text in told), "the mail of the move has the link of the new visit"
    assert "is cancelled" in pages["cancelled"]["text"]
    assert "Another customer can now book this time." in pages["cancelled"]["text"]


@pytest.mark.soak
@pytest.mark.requirement("customer-links-accessible", "customer-links-withdraw")
def test_a_customer_withdraws_consent_in_the_same_way(seen: Seen) -> None:
    assert "We do not contact you by: Phone calls, Text messages." in seen.pages["contact"]["text"]
    assert "We do not contact you by: E-mail, Phone calls, Text messages." in seen.pages["withdrawn"]["text"]


@pytest.mark.soak
def test_every_page_on_the_way_fits_the_telephone(seen: Seen) -> None:
    assert {name: page["beyond"] for name, page in seen.pages.items() if name != "chosen"} == dict.fromkeys(
        ("visit", "moved", "cancelled", "contact", "withdrawn"), 0
    )


@pytest.mark.soak
@pytest.mark.requirement("customer-links-private")
def test_the_browser_tells_nobody_the_address_of_a_page(seen: Seen) -> None:
    """Also not the service's own stylesheet, whose request could be logged on its way."""
    assert {method for method, _, _ in seen.asked} == {"GET", "POST"}
    assert [referrer for _, _, referrer in seen.asked if referrer] == []


@pytest.mark.soak
@pytest.mark.requirement("customer-links-private")
def test_no_link_is_in_the_log(seen: Seen) -> None:
    tokens = {url.rpartition("/")[2] for _, url, _ in seen.asked if "/visit/" in url or "/contact/" in url}
    assert len(tokens) == 3
    assert '"event":"customer link used"' in seen.log
    for token in tokens:
        assert token.rpartition(".")[2] not in seen.log
    assert "/visit/" not in seen.log


@pytest.mark.soak
def test_a_page_loads_without_an_error_or_a_policy_violation(seen: Seen) -> None:
    assert len(seen.looks) == 4
    assert [trouble for look in seen.looks for trouble in look["troubles"]] == []
    for look in seen.looks:
        assert [url.partition("?")[0].rpartition("/")[2] for url in look["fetched"]][1:] == ["style.css"]


@pytest.mark.soak
@pytest.mark.requirement("customer-links-accessible")
def test_texts_have_contrast_and_the_tab_key_reaches_every_control_with_a_ring(seen: Seen) -> None:
    """WCAG 1.4.3, 1.4.11, 2.1.1, 2.4.7, on a light and on a dark screen."""
    for look in seen.looks:
        assert [text for text in look["texts"] if text["ratio"] < TEXT_CONTRAST] == []
        assert [stop["stop"] for stop in look["reached"]] == list(range(len(look["stops"])))
        dim = [stop["ring"] < 2 or stop["contrast"] < RING_CONTRAST or not stop["seen"] for stop in look["reached"]]
        assert [name for name, bad in zip(look["stops"], dim, strict=True) if bad] == []
