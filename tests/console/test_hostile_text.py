"""200 texts of strangers in every field of a lead, a feed and an agent's name: none becomes more than text.

In a short run, a lead has every fourth of them.
"""

import json
from collections import Counter
from datetime import UTC, datetime

import html5lib
import pytest
from tests.console.browsers import Browser
from tests.console.conftest import SignedIn
from tests.console.filled import page
from tests.console.payloads import PAYLOADS
from tests.server.dealership import LOT, Dealership, message
from tests.soak import SOAK

from dealer_agent.config import load_settings
from dealer_agent.feeds.files.checks import EVERY_CHECK
from dealer_agent.feeds.files.reader import read_feed
from dealer_agent.feeds.importing import import_feed

pytestmark = pytest.mark.outside_protocol("console")

Structure = Counter[tuple[str, tuple[tuple[str, str], ...]]]
POINTERS = ("href", "src", "action", "formaction", "content", "style", "hx-get", "http-equiv", "id", "name")


def structure_of(html: str) -> Structure:
    """The elements of a page, with the names of their attributes, and the values of those that lead somewhere."""
    found: Structure = Counter()
    for element in html5lib.parse(html, namespaceHTMLElements=False).iter():
        if isinstance(element.tag, str):
            attributes = sorted((name, value if name in POINTERS else "") for name, value in element.attrib.items())
            found[element.tag, tuple(attributes)] += 1
    return found


def lead_with(text: str) -> dict[str, object]:
    """A lead with a text in every field that a stranger fills."""
    name = " ".join(text.split())[:90] or "-"
    sent = message(
        "lead.submit",
        message=text,
        source_agent=name,
        vehicle_of_interest={"make": name[:50], "model": name[:50], "vehicle_type": "car"},
        trade_in={"make": name[:50], "model": name[:50], "year": 2015, "other_attributes": {name[:50]: name}},
    )
    data = sent["message"]["parts"][0]["data"]
    data["customer"] = {"first_name": name[:50], "last_name": name[:50], "email": "jordan@example.com"}
    data["consent"]["consent_text"] = text
    return sent


def opened(console: Dealership, owner: Browser, text: str) -> Structure:
    """The page of a lead with this text, without what differs between any two leads."""
    answer = console.post(lead_with(text))
    assert answer.status_code == 200, answer.text
    lead_id = answer.json()["message"]["parts"][0]["data"]["data"]["lead_id"]
    return structure_of(page(owner, "leads", lead_id).replace(lead_id, "LEAD"))


def test_no_text_of_a_lead_becomes_markup(console: Dealership, signed_in: SignedIn) -> None:
    owner = signed_in()
    plain = opened(console, owner, "A plain text")
    for text in PAYLOADS[:: 1 if SOAK else 4]:
        # The first lead of a customer has no others of the same person to show.
        more = opened(console, owner, text) - plain
        new = [(tag, attributes) for tag, attributes in more if not _is_ours(tag, attributes)]
        assert new == [], text
    for path in ("leads", "agents", ""):
        for tag, attributes in structure_of(page(owner, *path.split())):
            assert _is_ours(tag, attributes), (path, tag, attributes)


def _is_ours(tag: str, attributes: tuple[tuple[str, str], ...]) -> bool:
    """Whether an element may come from a template: it runs nothing, and leads to the console only."""
    names = dict(attributes)
    runs = [name for name in names if name.startswith(("on", "hx-on")) or name in ("style", "srcdoc", "formaction")]
    leads_to = [names[name] for name in ("href", "src", "action", "hx-get") if names.get(name)]
    ours = all(path.startswith(("/console", "data:,", "#")) for path in leads_to)
    return not runs and ours and tag not in ("iframe", "object", "embed", "base", "style", "math")


def test_no_text_of_a_feed_becomes_markup(console: Dealership, signed_in: SignedIn) -> None:
    owner, settings = signed_in(), load_settings(console.folder, {})
    units = [
        {**LOT[0], "vin": "", "stock": f"X-{number}"}
        | dict.fromkeys(("make", "model", "trim", "description", "exterior_color", "lot_row"), text[:90])
        | {"photos": [text], "vdp_url": text, "features": [text[:90]]}
        for number, text in enumerate(PAYLOADS)
    ]
    with console.store() as store:
        feed = read_feed(json.dumps(units).encode())
        import_feed(store, settings.dealer, feed, source=PAYLOADS[0][:80], at=datetime.now(UTC), accept=EVERY_CHECK)
    pages = [page(owner, *path.split("/")) for path in ("stock", "stock/problems", "stock/held", "stock/history")]
    for html in pages:
        for tag, attributes in structure_of(html):
            assert _is_ours(tag, attributes), (tag, attributes)
