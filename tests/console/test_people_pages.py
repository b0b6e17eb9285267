"""The people of a dealer: an owner invites, changes and removes them."""

import re

import pytest
from tests.console.browsers import DEALER, ROOT, Browser
from tests.console.conftest import SignedIn
from tests.server.dealership import Dealership

from dealer_agent.storage.console.people import find_by_email, memberships_of
from dealer_agent.storage.privacy.accesses import list_accesses

pytestmark = pytest.mark.outside_protocol("console")


def link_of(page: str) -> str:
    """The path of the invitation that a page shows."""
    found = re.search(r'value="https://agent\.test(/console/invitation/[^"]+)"', page)
    assert found is not None, page
    return found[1]


def test_an_invitation_works_once(console: Dealership, signed_in: SignedIn) -> None:
    owner = signed_in()
    invited = owner.post(f"{ROOT}/people/invite", {"email": "Sam@Example.com", "role": "sales", "rooftop": "*"})
    path = link_of(invited.text)
    stranger = Browser(console)
    assert "sam@example.com" in stranger.get(path).text
    accepted = stranger.post(path)
    assert (accepted.status_code, accepted.headers["location"]) == (303, "/console/account")
    assert "__Host-dealer-console=" in accepted.headers["set-cookie"]
    assert stranger.post(path).status_code == 404
    assert stranger.get(path).status_code == 404


def test_an_invited_person_first_chooses_how_to_sign_in(console: Dealership, signed_in: SignedIn) -> None:
    path = link_of(signed_in().post(f"{ROOT}/people/invite", {"email": "sam@example.com", "role": "owner"}).text)
    cookie = Browser(console).post(path).headers["set-cookie"].partition("=")[2].partition(";")[0]
    sam = Browser(console, cookie)
    assert sam.get("/console/account").status_code == 200
    elsewhere = sam.get(f"{ROOT}/people")
    assert (elsewhere.status_code, elsewhere.headers["location"]) == (303, "/console/account")


def test_a_dealer_keeps_an_owner(signed_in: SignedIn) -> None:
    owner = signed_in()
    own = re.findall(rf'{ROOT}/people/(\w{{26}})"', owner.get(f"{ROOT}/people").text)
    assert len(own) == 1
    for act, form in (("role", {"role": "viewer"}), ("remove", {})):
        refused = owner.post(f"{ROOT}/people/{own[0]}/{act}", form)
        assert refused.status_code == 422
        assert "at least one owner" in refused.text


def test_a_removed_person_is_signed_out_at_once(signed_in: SignedIn) -> None:
    owner, sam = signed_in(), signed_in("sales", email="sam@example.com")
    assert sam.get("/console/account").status_code == 200
    person = re.search(rf'{ROOT}/people/(\w{{26}})">sam@example\.com', owner.get(f"{ROOT}/people").text)
    assert person is not None
    removed = owner.post(f"{ROOT}/people/{person[1]}/remove")
    assert removed.status_code == 303
    assert sam.get("/console/account").headers["location"].startswith("/console/sign-in")


def test_a_person_gets_a_role_when_the_invitation_is_used(console: Dealership, signed_in: SignedIn) -> None:
    owner = signed_in()
    path = link_of(owner.post(f"{ROOT}/people/invite", {"email": "kim@example.com", "role": "manager"}).text)
    shown = owner.get(f"{ROOT}/people").text
    assert shown.index("kim@example.com") < shown.index("invited until")
    with console.store() as store, store.read(DEALER) as tx:
        kim = find_by_email(tx, "kim@example.com")
        assert kim is not None
        assert memberships_of(tx, kim.person_id) == []
    Browser(console).post(path)
    assert "invited until" not in owner.get(f"{ROOT}/people").text
    with console.store() as store, store.read(DEALER) as tx:
        (member,) = memberships_of(tx, kim.person_id)
        assert member.role == "manager"


@pytest.mark.parametrize("rooftops", [[], ["Nowhere"], ["Test Motors North", "Nowhere"]])
def test_no_salesperson_gets_all_rooftops_by_mistake(signed_in_there: SignedIn, rooftops: list[str]) -> None:
    form = {"email": "kim@example.com", "role": "sales", "rooftop": rooftops}
    refused = signed_in_there().post(f"{ROOT}/people/invite", form)
    assert refused.status_code == 422
    assert "or all rooftops" in refused.text


def test_what_is_done_to_people_is_in_the_access_log(console: Dealership, signed_in: SignedIn) -> None:
    signed_in().post(f"{ROOT}/people/invite", {"email": "kim@example.com", "role": "viewer"})
    with console.store() as store, store.read(DEALER) as tx:
        (entry,) = list_accesses(tx, 10)
    assert (entry.actor, entry.action) == ("owner@example.com", "console: kim@example.com is invited as viewer")
