"""The people of a dealer: an owner invites, changes and removes them."""

import re

import pytest
from tests.console.browsers import ROOT, Browser
from tests.console.conftest import SignedIn
from tests.server.dealership import Dealership

pytestmark = pytest.mark.outside_protocol("console")


def link_of(page: str) -> str:
    """The path of the invitation that a page shows."""
    found = re.search(r'value="https://agent\.test(/console/invitation/[^"]+)"', page)
    assert found is not None, page
    return found[1]


def test_an_invitation_works_once(console: Dealership, signed_in: SignedIn) -> None:
    owner = signed_in()
    invited = owner.post(f"{ROOT}/people/invite", {"email": "Sam@Example.com", "role": "sales"})
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
    page = owner.get(f"{ROOT}/people").text
    person = re.search(rf'{ROOT}/people/(\w{{26}})">sam@example\.com', page)
    assert person is not None
    removed = owner.post(f"{ROOT}/people/{person[1]}/remove")
    assert removed.status_code == 303
    assert sam.get("/console/account").headers["location"].startswith("/console/sign-in")
