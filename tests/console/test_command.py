"""`dealer-agent console`: the first invitation, and people without the console."""

import json
import re
from pathlib import Path

import pytest
from tests.acceptance.running import command_here, succeed_here
from tests.console.browsers import Browser
from tests.installation.platform import DEALERS, PUBLIC_URL, add, make_installation, run_installation
from tests.server.dealership import Dealership

from dealer_agent.server.tokens import hash_secret
from dealer_agent.storage.console.sign_ins import prove_session
from dealer_agent.storage.isolation import ALL_DEALERS
from dealer_agent.storage.store import Store

HOST = "north.example.com"
"""The own host of the first dealer."""

pytestmark = pytest.mark.outside_protocol("console")


def invited(*arguments: object) -> str:
    """The path of an invitation that a command makes."""
    printed = succeed_here("console", "invite", *map(str, arguments))
    found = re.search(r"^https?://\S+?(/console/invitation/\S+)$", printed, re.MULTILINE)
    assert found is not None, printed
    return found[1]


def test_the_command_invites_the_first_owner(console: Dealership) -> None:
    path = invited("pat@example.com", "--role", "owner", "--dir", console.folder)
    assert Browser(console).post(path).status_code == 303
    (person,) = json.loads(succeed_here("console", "people", "--json", "--dir", console.folder))
    assert (person["e-mail"], person["role"], person["rooftops"]) == ("pat@example.com", "owner", "all")
    refused = command_here("console", "remove", "pat@example.com", "--dir", console.folder)
    assert (refused.returncode, "at least one owner" in refused.stderr) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("pat@example.com", "--role", "boss"), 2, "must be one of"),
        (("not an address", "--role", "owner"), 1, "is not an e-mail address"),
        (("pat@example.com", "--role", "operator"), 1, "is not a role here"),
        (("pat@example.com", "--role", "sales", "--rooftop", "Nowhere"), 2, "is not a rooftop of the dealer"),
    ],
)
def test_a_wrong_invitation_says_what_to_do(
    shared_console: Dealership, arguments: tuple[str, ...], code: int, says: str
) -> None:
    refused = command_here("console", "invite", *arguments, "--dir", shared_console.folder)
    assert refused.returncode == code
    assert says in " ".join(refused.stderr.replace("\u2502", " ").split())


def test_a_person_may_have_several_dealers_and_an_operator_sees_the_list(tmp_path: Path) -> None:
    installation = make_installation(tmp_path / "platform")
    for dealer_id in DEALERS:
        add(installation, dealer_id, hosts=(HOST,) if dealer_id == DEALERS[0] else ())
    where = ("--dir", installation.folder)
    with run_installation(installation) as on:
        for dealer_id in DEALERS:
            path = invited("pat@example.com", "--role", "manager", "--dealer", dealer_id, *where)
        pat = _signed_in(on, path)
        assert {name for name in DEALERS if name in pat.get("/console/account").text} == set()
        operator = _signed_in(on, invited("olga@example.com", "--role", "operator", *where))
        assert operator.get("/console/account").status_code == 200
        opened = Store.open(installation.database_url, installation.cipher, many_dealers=True)
        with opened as store, store.write(ALL_DEALERS) as tx:
            prove_session(tx, hash_secret(operator.secret))
        listed = operator.get("/console/dealers").text
        assert all(name in listed for name in DEALERS)
        assert operator.get(f"/console/d/{DEALERS[0]}").status_code == 404, "an operator sees no data of a dealer"
        at_home = Browser(on, operator.secret, f"https://{HOST}").get("/console")
        assert (at_home.status_code, at_home.headers["location"]) == (303, f"{PUBLIC_URL}/console")
        people = json.loads(succeed_here("console", "people", "--json", "--dealer", DEALERS[0], *map(str, where)))
        assert [each["e-mail"] for each in people] == ["pat@example.com"]
        succeed_here("dealers", "remove", DEALERS[0], "--yes", *map(str, where))
        assert pat.get("/console/account").status_code == 200, "pat has another dealer"
        succeed_here("console", "remove", "pat@example.com", "--dealer", DEALERS[1], *map(str, where))
        assert pat.get("/console/account").status_code == 303, "pat has no dealer any more"


def _signed_in(on: Dealership, path: str) -> Browser:
    """The browser of a person who has used an invitation."""
    answer = Browser(on, origin=PUBLIC_URL).post(path)
    assert answer.status_code == 303
    return Browser(on, answer.headers["set-cookie"].partition("=")[2].partition(";")[0], PUBLIC_URL)
