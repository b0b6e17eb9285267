"""Every route, for every role, another dealer, no session, an ended session, and a form from another page.

The cases are made from the table of routes, so a new route is in them.
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pytest
from tests.console.browsers import Browser, add_member, sign_in
from tests.installation.platform import DEALERS, PUBLIC_URL, add, make_installation, run_installation
from tests.server.dealership import Dealership
from tests.soak import sqlite_first
from tests.storage.calls import read
from tests.storage.service_role import prepared_schema

from dealer_agent.console.acts import OPERATOR, ROLES, Act
from dealer_agent.console.invitations import Members
from dealer_agent.console.routes import MENU, ROUTES, Route
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.server.tokens import hash_secret
from dealer_agent.storage.console.people import Person
from dealer_agent.storage.console.sign_ins import prove_session
from dealer_agent.storage.isolation import ALL_DEALERS
from dealer_agent.storage.offers import StoredHold, StoredQuote, add_hold, add_quote, find_hold
from dealer_agent.storage.store import Store

pytestmark = pytest.mark.outside_protocol("console")

OWN, FOREIGN = DEALERS
CLOSED = [route for route in ROUTES if route.act.value.needs_session]
EVERYBODY = (*ROLES, OPERATOR)
FOREIGN_ORIGINS = (
    "https://evil.example",
    "null",
    "",
    f"{PUBLIC_URL}:8443",
    f"{PUBLIC_URL}.evil.example",
    PUBLIC_URL.replace("https", "http"),
    f"{PUBLIC_URL}/",
    f" {PUBLIC_URL}, https://evil.example",
)


class Place:
    """A running installation with people of each role at one of its dealers."""

    def __init__(self, on: Dealership, store: Store) -> None:
        self.on, self._store = on, store
        self._people = {
            role: add_member(store, role, dealer=ALL_DEALERS if role == OPERATOR else OWN, owner=ALL_DEALERS)
            for role in EVERYBODY
        }
        # So that nobody is the last owner.
        add_member(store, "owner", email="other@example.com", dealer=OWN, owner=ALL_DEALERS)

    def browser(self, role: str, *, proved: bool = True) -> Browser:
        return sign_in(self.on, self._store, self._people[role], owner=ALL_DEALERS, origin=PUBLIC_URL, proved=proved)

    def let_proof_age(self, browser: Browser) -> None:
        """The person has proved an hour ago who they are."""
        with self._store.write(ALL_DEALERS, datetime.now(UTC) - timedelta(hours=1)) as tx:
            prove_session(tx, hash_secret(browser.secret))

    def person_of_both(self) -> Person:
        """A person who belongs to both dealers."""
        for dealer in (OWN, FOREIGN):
            pat = add_member(self._store, "manager", email="pat@example.com", dealer=dealer, owner=ALL_DEALERS)
        return pat

    def browser_of(self, person: Person) -> Browser:
        return sign_in(self.on, self._store, person, owner=ALL_DEALERS, origin=PUBLIC_URL)

    def invite_by_operator(self, email: str) -> str:
        """The path of an invitation to the other dealer, made by a command."""
        members = Members(self._store, ALL_DEALERS, FOREIGN, by_operator=True)
        return f"/console/invitation/{members.invite(email, 'owner', (), 'test')[1]}"

    def accept(self, path: str) -> Browser:
        answer = self.nobody().post(path)
        assert answer.status_code == 303
        return Browser(self.on, answer.headers["set-cookie"].partition("=")[2].partition(";")[0], PUBLIC_URL)

    def add_hold(self, dealer: str) -> StoredHold:
        """A hold at a dealer."""
        now = datetime.now(UTC)
        quote = StoredQuote(new_ulid(), "vin-1", None, now, now + timedelta(hours=1), b"{}")
        end = now + timedelta(hours=1)
        hold = StoredHold(new_ulid(), quote.quote_id, "vin-1", "token:T1", b"1", b"1", now, end, "active")
        with self._store.lock(dealer) as tx:
            add_quote(tx, quote)
            add_hold(tx, hold)
        return hold

    def find_hold(self, dealer: str, hold_id: str) -> StoredHold | None:
        return read(self._store, dealer, find_hold, hold_id)

    def nobody(self) -> Browser:
        return Browser(self.on, origin=PUBLIC_URL)


@pytest.fixture(params=["sqlite", "postgresql"], scope="module")
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with ExitStack() as stack:
        env = {}
        if request.param == "postgresql":
            prepared = prepared_schema(request.getfixturevalue("postgresql_server"))
            env["DATABASE_URL"] = stack.enter_context(prepared)[1]
        installation = make_installation(tmp_path_factory.mktemp("matrix"), env=env)
        for dealer_id in DEALERS:
            add(installation, dealer_id)
        on = stack.enter_context(run_installation(installation))
        store = Store.open(installation.database_url, installation.cipher, many_dealers=True)
        yield Place(on, stack.enter_context(store))


def path_of(route: Route, dealer: str = OWN) -> str:
    """A path of the route. What it names, other than the dealer, does not exist."""
    names = route.pattern.groupindex
    parts = {name: dealer if name == "dealer" else "nothing" for name in names}
    return "/console" + route.path.format_map({**parts, "rest:path": "nothing"})


def send(browser: Browser, route: Route, path: str) -> tuple[int, str]:
    answer = browser.post(path) if route.method == "POST" else browser.get(path)
    assert answer.status_code < 500, (route, answer.text)
    return answer.status_code, answer.headers.get("location", "")


@sqlite_first("place")
def test_without_a_session_every_route_leads_to_the_sign_in(place: Place) -> None:
    for route in CLOSED:
        status, where = send(place.nobody(), route, path_of(route))
        assert (status, where.partition("?")[0]) == (303, "/console/sign-in"), route


@sqlite_first("place")
def test_a_stolen_cookie_opens_nothing_after_the_sign_out(place: Place) -> None:
    browser = place.browser("owner")
    assert browser.get("/console/account").status_code == 200
    assert browser.post("/console/sign-out").status_code == 303
    for route in CLOSED:
        status, where = send(browser, route, path_of(route))
        assert (status, where.partition("?")[0]) == (303, "/console/sign-in"), route


@sqlite_first("place")
@pytest.mark.parametrize("origin", FOREIGN_ORIGINS)
def test_a_form_from_another_page_is_refused(place: Place, origin: str) -> None:
    browser = place.browser("owner")
    for route in ROUTES:
        if route.method == "POST":
            assert browser.post(path_of(route), {}, origin=origin).status_code == 403, route


@sqlite_first("place")
@pytest.mark.parametrize("role", EVERYBODY)
def test_another_dealer_looks_like_one_that_does_not_exist(place: Place, role: str) -> None:
    browser = place.browser(role)
    for route in CLOSED:
        if "{dealer}" in route.path:
            for dealer in (FOREIGN, "no-such-dealer"):
                assert send(browser, route, path_of(route, dealer))[0] == 404, route


def test_the_hold_of_another_dealer_looks_like_one_that_does_not_exist(place: Place) -> None:
    hold, owner = place.add_hold(FOREIGN), place.browser("owner")
    path = f"/console/d/{OWN}/holds"
    assert owner.get(f"{path}/{hold.hold_id}").status_code == 404
    assert owner.get(f"{path}/{hold.quote_id}").status_code == 404
    assert owner.post(f"{path}/{hold.hold_id}/extend", {"hours": "1"}).status_code == 404
    assert owner.post(f"{path}/{hold.hold_id}/end", {"reason": "Not mine"}).status_code == 404
    assert hold.hold_id not in owner.get(path).text
    assert place.find_hold(FOREIGN, hold.hold_id) == hold
    assert place.find_hold(OWN, hold.hold_id) is None


@sqlite_first("place")
@pytest.mark.parametrize("role", EVERYBODY)
def test_a_route_is_open_for_the_roles_of_its_act_only(place: Place, role: str) -> None:
    for route in CLOSED:
        if role == OPERATOR and "{dealer}" in route.path:
            continue
        status, where = send(place.browser(role), route, path_of(route))
        if route.act.allows(role):
            assert status != 403, route
            assert not where.startswith(("/console/sign-in", "/console/prove")) or "sign-out" in route.path, route
        else:
            assert status == 403, route


def test_an_owner_cannot_take_over_a_person_of_another_dealer(place: Place) -> None:
    owner, pat = place.browser("owner"), place.person_of_both()
    path = f"/console/d/{OWN}/people"
    for answer in (
        owner.post(f"{path}/invite", {"email": pat.email, "role": "viewer"}),
        owner.post(f"{path}/{pat.person_id}/invite"),
    ):
        assert answer.status_code == 422
        assert "ask the operator" in answer.text
        assert "/console/invitation/" not in answer.text


def test_an_owner_neither_sees_nor_ends_the_sessions_of_a_person_of_another_dealer(place: Place) -> None:
    owner, pat = place.browser("owner"), place.person_of_both()
    there = place.browser_of(pat)
    page = owner.get(f"/console/d/{OWN}/people/{pat.person_id}").text
    assert "also belongs to another dealer" in page
    assert "Test browser" not in page
    assert owner.post(f"/console/d/{OWN}/people/{pat.person_id}/remove").status_code == 303
    assert there.get(f"/console/d/{FOREIGN}").status_code == 200
    assert there.get(f"/console/d/{OWN}").status_code == 404


def test_an_account_that_an_owner_made_gets_no_other_dealer_before_its_person_is_invited(place: Place) -> None:
    """The owner invites an address of somebody else, and uses the link; then the operator invites that person."""
    owner = place.browser("owner")
    form = {"email": "victim@example.com", "role": "viewer"}
    path = re.search(r"/console/invitation/[^\"]+", owner.post(f"/console/d/{OWN}/people/invite", form).text)
    assert path is not None
    pretended = place.accept(path[0])
    link = place.invite_by_operator("victim@example.com")
    assert pretended.get(f"/console/d/{FOREIGN}").status_code in (303, 404)
    victim = place.accept(link)
    assert pretended.get("/console/account").headers["location"].startswith("/console/sign-in")
    assert victim.get("/console/account").status_code == 200


@sqlite_first("place")
def test_a_dangerous_act_asks_again_who_it_is(place: Place) -> None:
    dangerous = [route for route in CLOSED if route.act.value.again]
    assert {route.act for route in dangerous} >= {Act.CHANGE_PEOPLE, Act.OWN_CREDENTIALS}
    browser = place.browser("owner")
    place.let_proof_age(browser)
    for route in dangerous:
        status, where = send(browser, route, path_of(route))
        assert (status, where.partition("?")[0]) == (303, "/console/prove"), route


def test_every_act_has_a_route_and_every_menu_item_a_page() -> None:
    assert {route.act for route in ROUTES} == set(Act)
    pages = {route.path for route in ROUTES if route.method == "GET"}
    assert {f"/d/{{dealer}}/{item.part}".rstrip("/") for item in MENU} <= pages
