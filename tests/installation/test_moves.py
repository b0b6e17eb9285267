"""A dealer moves from an installation into a folder of its own, and back, with all its data and keys."""

import json
from pathlib import Path

import pytest
from sqlalchemy import text
from tests.acceptance.running import command_here, succeed_here
from tests.installation.platform import DEALERS, add, dealer_toml, make_installation, run_installation
from tests.server.dealership import message
from tests.soak import sqlite_first
from tests.storage.databases import fresh_schema

from dealer_agent.config.installation import Installation
from dealer_agent.operations import dealer_moves
from dealer_agent.server import refresh
from dealer_agent.storage.installation import dealer_registry
from dealer_agent.storage.installation.dealer_registry import count_rows
from dealer_agent.storage.store import Store

pytestmark = pytest.mark.outside_protocol("many dealers in one service")

NORTH, SOUTH = DEALERS
FEED = json.dumps(
    [{"stock": f"N{number}", "year": 2020, "make": "Honda", "condition": "used"} for number in range(7)]
).encode()
LEADS = 3
RECORD = "\n[record]\nreplies = true\n"


def made_again(reply: bytes, file: Path, *place: str | Path, url: str = "") -> bool:
    """Whether the record makes the same bytes again."""
    reply_id = json.loads(reply)["message"]["messageId"]
    succeed_here("record", "reply", reply_id, "--output", file, *place, DATABASE_URL=url)
    return file.read_bytes() == reply


def customer(number: int) -> dict[str, str]:
    return {"first_name": "Pat", "last_name": "Doe", "email": f"pat{number}@example.com"}


@pytest.fixture
def installation(tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Installation:
    """An installation with a dealer that has stock, leads and a token."""
    # Small parts, so that a table needs several transactions.
    monkeypatch.setattr(dealer_registry, "MOST_COPIED", 2)
    made = make_installation(tmp_path / "platform", env={"DATABASE_URL": database_url})
    add(made, NORTH, FEED, more=RECORD)
    with run_installation(made) as running:
        for number in range(LEADS):
            sent = message("lead.submit", idempotency_key=f"key-number-{number}", customer=customer(number))
            answer = running.post(sent, f"/d/{NORTH}/message:send")
            assert answer.status_code == 200, answer.text
    succeed_here("tokens", "create", "An agent", "--dir", made.folder, DATABASE_URL=database_url)
    return made


def rows(installation: Installation, dealer_id: str) -> dict[str, int]:
    with (
        Store.open(installation.database_url, installation.cipher, many_dealers=True) as store,
        store.read(dealer_id) as tx,
    ):
        return count_rows(tx)


def shown(*place: str | Path, url: str = "") -> list[str]:
    """What commands show of a dealer: leads with their customers, imports, tokens; and the consent record is whole."""
    found = [
        succeed_here(*words, "--json", *place, DATABASE_URL=url)
        for words in (("leads", "list"), ("inventory", "history"))
    ]
    found.append(succeed_here("tokens", "list", "--json", *place, DATABASE_URL=url))
    assert f"whole: {LEADS}" in succeed_here("consent", "verify", *place, DATABASE_URL=url)
    return found


def test_a_dealer_moves_out_and_in_again(installation: Installation, tmp_path: Path, short_pauses: list[float]) -> None:
    url = installation.database_url
    place = ("--dir", installation.folder)
    before, counts = shown(*place, url=url), rows(installation, NORTH)
    assert (counts["leads"], counts["units"] + counts["unit_changes"] > 0) == (LEADS, True)
    folder = tmp_path / "north"
    said = succeed_here("dealers", "export", NORTH, folder, "--move", *place, DATABASE_URL=url)
    assert "all verified" in said
    # A service that still took leads for the dealer has noticed meanwhile that it is disabled.
    assert short_pauses == [dealer_moves.SECONDS_TO_NOTICE]
    assert dealer_moves.SECONDS_TO_NOTICE > refresh.LISTENING_POLL_SECONDS
    assert sum(rows(installation, NORTH).values()) == 0
    assert (folder / "dealer.toml").read_text() == dealer_toml(NORTH, RECORD)
    assert shown("--dir", folder) == before

    succeed_here("dealers", "import", folder, "--listed", *place, DATABASE_URL=url)
    assert shown(*place, url=url) == before
    again = rows(installation, NORTH)
    assert {name for name in counts if counts[name] != again[name]} <= {"accesses", "jobs"}
    (dealer,) = json.loads(succeed_here("dealers", "list", "--json", *place, DATABASE_URL=url))
    assert (dealer["state"], dealer["list"]) == ("enabled", "listed")
    with run_installation(installation) as running:
        assert running.get(f"/d/{NORTH}/readyz").json()["vehicles"] == 7
        sent = message("lead.submit", idempotency_key="key-afterwards", customer=customer(LEADS))
        assert running.post(sent, f"/d/{NORTH}/message:send").status_code == 200


@sqlite_first()
def test_a_recorded_reply_is_made_again_where_the_dealer_is(installation: Installation, tmp_path: Path) -> None:
    url = installation.database_url
    place = ("--dir", installation.folder)
    with run_installation(installation) as running:
        reply = running.post(message("inventory.search"), f"/d/{NORTH}/message:send").content
    assert made_again(reply, tmp_path / "here", *place, "--dealer", NORTH, url=url)
    folder = tmp_path / "north"
    succeed_here("dealers", "export", NORTH, folder, "--move", *place, DATABASE_URL=url)
    assert made_again(reply, tmp_path / "outside", "--dir", folder)
    # The counter of its stock goes on where it was before. The record goes with it.
    succeed_here("dealers", "import", folder, "--listed", *place, DATABASE_URL=url)
    assert made_again(reply, tmp_path / "again", *place, "--dealer", NORTH, url=url)
    succeed_here("dealers", "remove", NORTH, "--yes", *place, DATABASE_URL=url)
    assert sum(rows(installation, NORTH).values()) == 0


@sqlite_first()
def test_a_copy_leaves_the_dealer_in_the_installation(installation: Installation, tmp_path: Path) -> None:
    url = installation.database_url
    place = ("--dir", installation.folder)
    folder = tmp_path / "north"
    succeed_here("dealers", "export", NORTH, folder, *place, DATABASE_URL=url)
    assert rows(installation, NORTH)["leads"] == LEADS
    refused = command_here("dealers", "export", NORTH, folder, *place, DATABASE_URL=url)
    assert (refused.returncode, "exists already" in refused.stderr) == (1, True)
    taken = command_here("dealers", "import", folder, *place, DATABASE_URL=url)
    assert (taken.returncode, "has data of a dealer north-motors already" in taken.stderr) == (1, True)


@sqlite_first()
def test_a_dealer_whose_settings_have_an_address_of_their_own_is_not_imported(
    installation: Installation, tmp_path: Path
) -> None:
    # `public_url` is refused. A dealer of an installation may set the others.
    url = installation.database_url
    folder = tmp_path / "south"
    succeed_here("init", folder, "--name", "South Motors")
    with (folder / "dealer.toml").open("a") as file:
        file.write("\n[search]\ndefault_limit = 10\n\n[delivery]\nlease_seconds = 300\n")
    written = (folder / "dealer.toml").read_text()
    (folder / "dealer.toml").write_text(
        written.replace("[service]\n", '[service]\npublic_url = "https://s.example"\n', 1)
    )
    refused = command_here("dealers", "import", folder, "--dir", installation.folder, DATABASE_URL=url)
    assert (refused.returncode, "public_url under [installation]" in refused.stderr) == (1, True)
    assert sum(rows(installation, SOUTH).values()) == 0


@sqlite_first()
def test_a_dealer_whose_service_has_a_database_and_keys_in_its_environment_moves_in(
    installation: Installation, tmp_path: Path, postgresql_server: str
) -> None:
    url = installation.database_url
    place = ("--dir", installation.folder)
    folder = tmp_path / "own"
    succeed_here("init", folder, "--name", "Own Motors")
    keys = (folder / "dealer-agent.keys").read_text()
    (folder / "dealer-agent.keys").unlink()
    with fresh_schema(postgresql_server) as own:
        feed = tmp_path / "feed.json"
        feed.write_bytes(FEED)
        succeed_here("inventory", "import", feed, "--dir", folder, DATABASE_URL=own, DEALER_AGENT_KEYS=keys)
        alone = command_here("dealers", "import", folder, *place, DATABASE_URL=url, DEALER_KEYS=keys)
        assert (alone.returncode, "set DEALER_DATABASE_URL" in alone.stderr) == (1, True)
        said = succeed_here(
            "dealers", "import", folder, *place, DATABASE_URL=url, DEALER_DATABASE_URL=own, DEALER_KEYS=keys
        )
    assert "all verified" in said
    (unit,) = {count for name, count in rows(installation, "own-motors").items() if name == "units"} - {0}
    assert unit == 7


@sqlite_first()
def test_a_broken_consent_record_is_not_copied(installation: Installation, tmp_path: Path) -> None:
    url = installation.database_url
    with (
        Store.open(installation.database_url, installation.cipher, many_dealers=True) as store,
        store.write(NORTH) as tx,
    ):
        tx.execute(text("UPDATE consent_events SET hash = commitment WHERE dealer_id = :dealer AND number = 2"))
    folder = tmp_path / "north"
    refused = command_here("dealers", "export", NORTH, folder, "--dir", installation.folder, DATABASE_URL=url)
    assert (refused.returncode, "consent record is broken at event 2" in refused.stderr) == (1, True)
    assert not folder.exists()
