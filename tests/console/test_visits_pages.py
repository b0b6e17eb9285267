"""The pages of visits: a day and a week, and what people change."""

import re
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from tests.console.browsers import DEALER, ROOT, Browser
from tests.console.conftest import SignedIn
from tests.console.filled import NORTH, SOUTH, page, send_lead
from tests.server.dealership import Dealership
from tests.storage.calls import read

from dealer_agent.leads.records import VisitRecord
from dealer_agent.storage.leads.visits import record_visit, visits_of
from dealer_agent.storage.privacy.accesses import list_accesses

pytestmark = pytest.mark.outside_protocol("console")

CHICAGO = ZoneInfo("America/Chicago")


def next_day() -> date:
    """A day of the next week, so that no visit is in the past."""
    return (datetime.now(CHICAGO) + timedelta(days=7)).date()


def arranged(browser: Browser, lead_id: str, at: str, **form: str) -> str:
    """Arranges a visit. Returns what the page says afterwards."""
    answer = browser.post(f"{ROOT}/leads/{lead_id}/visit", {"kind": "sales", "at": at, "force": "yes", **form})
    assert answer.status_code == 303, answer.text
    return answer.headers["location"].partition("said=")[2]


def visits(console: Dealership, lead_id: str) -> list[VisitRecord]:
    with console.store() as store:
        return read(store, DEALER, visits_of, lead_id)


def test_a_visit_is_arranged_moved_and_cancelled(console: Dealership, signed_in: SignedIn) -> None:
    sam, lead_id, day = signed_in("sales"), send_lead(console), next_day()
    assert arranged(sam, lead_id, f"{day}T10:00", minutes="45") == "visit-not-mailed"
    (visit,) = visits(console, lead_id)
    assert visit.starts_at == datetime.combine(day, datetime.min.time(), CHICAGO).replace(hour=10)
    moved = sam.post(f"{ROOT}/visits/{visit.appointment_id}/move", {"at": f"{day}T11:30", "tell_nobody": "yes"})
    assert moved.headers["location"] == f"{ROOT}/leads/{lead_id}?said=visit-nobody"
    _, later = visits(console, lead_id)
    assert sam.post(f"{ROOT}/visits/{later.appointment_id}/cancel").status_code == 303
    assert visits(console, lead_id)[-1].status == "cancelled"
    again = sam.post(f"{ROOT}/visits/{later.appointment_id}/cancel")
    assert again.status_code == 422
    assert "is cancelled already" in again.text
    assert "dealer-agent" not in again.text.partition("<main")[2]


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"at": ""}, "Choose a time"),
        ({"at": "noon"}, "Write the time as"),
        ({"at": "2020-01-01T10:00"}, "in the past"),
        ({"at": "2027-01-04T10:00", "minutes": "9"}, "15 to 480"),
        ({"at": "2027-01-04T10:00", "kind": "party"}, "Choose the kind"),
        ({"at": "2027-01-04T10:00", "rooftop": "Elsewhere"}, "Choose one of your rooftops"),
    ],
)
def test_a_wrong_time_changes_nothing(
    shared_console: Dealership, signed_in_there: SignedIn, form: dict[str, str], words: str
) -> None:
    sam, lead_id = signed_in_there("sales"), send_lead(shared_console)
    refused = sam.post(f"{ROOT}/leads/{lead_id}/visit", {"kind": "sales", **form})
    assert (refused.status_code, words in refused.text) == (422, True), refused.text
    assert visits(shared_console, lead_id) == []


def test_the_day_and_the_week_show_the_visits_of_the_rooftops_of_a_person(
    console: Dealership, signed_in: SignedIn
) -> None:
    owner, sam, day = signed_in(), signed_in("sales", email="sam@example.com", rooftops=(SOUTH,)), next_day()
    north, south = send_lead(console), send_lead(console, rooftop=SOUTH, first_name="Pat")
    arranged(owner, north, f"{day}T10:00")
    arranged(owner, south, f"{day}T11:00")
    for view in ("day", "week"):
        query = f"?day={day}&view={view}"
        whole, own = page(owner, "visits", query=query), page(sam, "visits", query=query)
        assert whole.index("Jordan Sample") < whole.index("Pat Sample")
        assert "Pat Sample" in own
        assert "Jordan" not in own
        assert "Jordan" not in page(owner, "visits", query=f"{query}&rooftop={SOUTH.replace(' ', '+')}")
        assert "Jordan" not in page(sam, "visits", query=f"{query}&rooftop={NORTH.replace(' ', '+')}")
    assert "Pat" not in page(owner, "visits", query=f"?day={day + timedelta(days=1)}")
    with console.store() as store:
        newest = read(store, DEALER, list_accesses, 100)
    assert ("owner@example.com", "console: visits", 2) in {(each.actor, each.action, each.leads) for each in newest}
    (theirs,) = visits(console, north)
    assert sam.post(f"{ROOT}/visits/{theirs.appointment_id}/cancel").status_code == 404
    assert sam.get(f"{ROOT}/visits?day=no-day").status_code == 200


def test_a_visit_at_another_rooftop_is_shown_but_its_lead_is_not_opened(
    console: Dealership, signed_in: SignedIn
) -> None:
    owner, sam, day = signed_in(), signed_in("sales", email="sam@example.com", rooftops=(SOUTH,)), next_day()
    lead_id = send_lead(console)
    arranged(owner, lead_id, f"{day}T10:00", rooftop=SOUTH)
    shown = page(sam, "visits", query=f"?day={day}")
    assert "Jordan Sample" in shown
    assert lead_id not in shown
    assert sam.get(f"{ROOT}/leads/{lead_id}").status_code == 404


def test_people_record_whether_the_customer_came(console: Dealership, signed_in: SignedIn) -> None:
    sam, lead_id, begun = signed_in("sales"), send_lead(console), datetime.now(UTC) - timedelta(minutes=20)
    visit = VisitRecord(
        appointment_id="01KE7AQ2N0V5X3J8R6T4Y9W1ZV",
        lead_id=lead_id,
        rooftop=NORTH,
        kind="sales",
        status="confirmed",
        created_at=begun,
        starts_at=begun,
        ends_at=begun + timedelta(hours=1),
        request=b'{"appointment_type":"sales"}',
        reply=b'{"appointment_id":"01KE7AQ2N0V5X3J8R6T4Y9W1ZV","status":"confirmed"}',
    )
    with console.store() as store, store.lock(DEALER) as tx:
        record_visit(tx, visit)
    day = begun.astimezone(CHICAGO).date()
    assert re.search(r'action="[^"]+/done"', page(sam, "visits", query=f"?day={day}"))
    path = f"{ROOT}/visits/{visit.appointment_id}"
    done = sam.post(f"{path}/done", {"back": "visits", "day": str(day)})
    assert done.headers["location"] == f"{ROOT}/visits?said=visit-closed&day={day}"
    assert sam.post(f"{path}/no-show", {"back": "today"}).headers["location"] == f"{ROOT}?said=visit-closed"
    assert "did not take place" in page(sam, "leads", lead_id)
