"""`dealer-agent keys create` and `list`, and what happens with a key that is lost or wrong."""

import re
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.dealers import stock_of_three, write_feed
from tests.acceptance.key_files import all_there, entries, ids_in, key_file, printed_key, refused
from tests.acceptance.running import command_here

from dealer_agent.config.keys import create_key_file
from dealer_agent.encryption import Keyring, new_key, render

pytestmark = pytest.mark.outside_protocol("keys")

A_LEAD = "01KE7AQ2N0V5X3J8R6T4Y9W1ZA"
READING = [
    ("leads", "list"),
    ("leads", "show", A_LEAD),
    ("leads", "export"),
    ("leads", "erase", "--yes", "--email", "robin1@example.com"),
    ("leads", "dispose"),
    ("consent", "show", A_LEAD),
    ("consent", "revoke", A_LEAD),
    ("consent", "verify"),
    ("appointments", "list"),
    ("keys", "list"),
    ("keys", "rotate"),
]
"""Commands that read customer data, beside `serve`."""


@pytest.fixture
def folder(with_leads: Callable[[Path], Path], tmp_path: Path) -> Path:
    """A dealer's folder with leads."""
    return with_leads(tmp_path / "store")


def refused_by_everything_that_reads_customers(folder: Path, *expected: str, **env: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:  # A service that is not refused ends, too.
        serve = ("serve", "--port", str(taken.getsockname()[1]))
        for words in (serve, *READING):
            refused(command_here(*words, "--dir", folder, **env), *expected)


def test_init_makes_a_key_for_the_owner_only_and_says_to_back_it_up(tmp_path: Path) -> None:
    said = command_here("init", tmp_path / "store").stdout
    made = key_file(tmp_path / "store")
    assert made.stat().st_mode & 0o777 == 0o600
    assert len(ids_in(made.parent)) == 1
    assert str(made) in said.replace("\n", "")
    assert "Back this file up" in said
    assert made.read_text().rstrip().rpartition(":")[2] not in said


def test_init_keeps_a_key_file_that_is_there(tmp_path: Path) -> None:
    before = create_key_file(tmp_path).read_text()
    assert command_here("init", tmp_path).returncode == 0
    assert key_file(tmp_path).read_text() == before


def test_init_makes_no_file_that_the_environment_would_hide(tmp_path: Path) -> None:
    made = command_here("keys", "create", "--print").stdout.strip()
    said = command_here("init", tmp_path / "store", DEALER_AGENT_KEYS=made).stdout
    assert "DEALER_AGENT_KEYS" in said
    assert not key_file(tmp_path / "store").exists()


def test_create_makes_the_file_of_a_dealer_who_has_none_and_never_another(tmp_path: Path) -> None:
    command_here("init", tmp_path / "store")
    key_file(tmp_path / "store").unlink()
    made = command_here("keys", "create", "--dir", tmp_path / "store")
    assert made.returncode == 0, made.stderr
    assert "Back this file up" in made.stdout
    before = key_file(tmp_path / "store").read_text()
    refused(command_here("keys", "create", "--dir", tmp_path / "store"), "exists already", "keys rotate")
    assert key_file(tmp_path / "store").read_text() == before


def test_create_print_shows_a_key_for_the_environment_and_writes_no_file(tmp_path: Path) -> None:
    first = command_here("keys", "create", "--print", cwd=tmp_path).stdout.strip()
    assert Keyring.parse(first).permanent is not None
    second = command_here("keys", "create", "--print", cwd=tmp_path, DEALER_AGENT_KEYS=first).stdout.strip()
    both = Keyring.parse(f"{second},{first}")
    assert len(both.ids) == 2
    assert both.permanent == Keyring.parse(first).permanent
    assert not list(tmp_path.iterdir())


def test_an_environment_without_the_databases_permanent_secret_is_refused(folder: Path) -> None:
    keyring = Keyring.parse(key_file(folder).read_text())
    old = render(replace(keyring, permanent=None)).strip()
    refused(command_here("leads", "list", "--dir", folder, DEALER_AGENT_KEYS=old), "lasting", "keys create", "--print")
    added = command_here("keys", "create", "--print").stdout.strip().partition(",")[2]
    assert added.startswith("lasting:")
    another = command_here("leads", "list", "--dir", folder, DEALER_AGENT_KEYS=f"{old},{added}")
    refused(another, "permanent secret is not the one", "backup")
    all_there(folder, DEALER_AGENT_KEYS=entries(folder))


def test_create_refuses_a_file_that_the_environment_would_hide(folder: Path) -> None:
    key_file(folder).unlink()
    done = command_here("keys", "create", "--dir", folder, DEALER_AGENT_KEYS=render(Keyring((new_key(),))))
    refused(done, "DEALER_AGENT_KEYS", "--print")
    assert not key_file(folder).exists()


def test_create_makes_no_second_key_beside_data_of_a_lost_one(folder: Path) -> None:
    (lost,) = ids_in(folder)
    key_file(folder).unlink()
    refused(command_here("keys", "create", "--dir", folder), lost, "backup")
    assert not key_file(folder).exists()


def test_a_lost_key_that_nothing_was_sealed_with_is_no_loss(tmp_path: Path) -> None:
    command_here("init", tmp_path / "store")
    assert command_here("keys", "list", "--dir", tmp_path / "store").returncode == 0
    key_file(tmp_path / "store").unlink()
    assert command_here("keys", "create", "--dir", tmp_path / "store").returncode == 0
    assert command_here("leads", "list", "--dir", tmp_path / "store").returncode == 0


def test_list_says_what_each_key_is_needed_for_and_shows_none(folder: Path) -> None:
    said = command_here("keys", "list", "--dir", folder).stdout
    (key_id,) = ids_in(folder)
    assert re.search(rf"{key_id} .*active.* \d+", said)
    assert str(key_file(folder)) in said.replace("\n", "")
    assert entries(folder).partition(":")[2][:8] not in said
    env: dict[str, Any] = {"DEALER_AGENT_KEYS": f"{entries(folder)},{printed_key(entries(folder))}"}
    said = command_here("keys", "list", "--dir", folder, **env).stdout
    assert "come from DEALER_AGENT_KEYS" in said
    assert re.search(r"k-\w+ +. reads +. +. +0", said)


def test_a_lost_key_is_refused_at_start_and_by_every_command_that_reads_customer_data(folder: Path) -> None:
    key_file(folder).unlink()
    refused_by_everything_that_reads_customers(folder, "DEALER_AGENT_KEYS", "dealer-agent.keys")


def test_another_key_is_refused_and_the_missing_one_named(folder: Path) -> None:
    (lost,) = ids_in(folder)
    key_file(folder).unlink()
    create_key_file(folder)
    refused_by_everything_that_reads_customers(folder, lost, "backup")


def test_another_key_of_the_same_name_is_refused(folder: Path) -> None:
    (key_id,) = ids_in(folder)
    impostor = render(replace(Keyring.parse(entries(folder)), keys=((key_id, new_key()[1]),)))
    refused_by_everything_that_reads_customers(folder, key_id, "backup", DEALER_AGENT_KEYS=impostor)
    key_file(folder).write_text(impostor)
    refused_by_everything_that_reads_customers(folder, key_id, "backup")


def test_a_key_file_that_others_may_read_is_refused_with_what_to_type(folder: Path) -> None:
    key_file(folder).chmod(0o644)
    refused_by_everything_that_reads_customers(folder, "chmod 600")


def test_no_refusal_quotes_a_key(folder: Path) -> None:
    cut = entries(folder)[:-2]
    key_file(folder).write_text(f"{cut}\n")
    for done in (command_here("leads", "list", "--dir", folder), command_here("keys", "list", "--dir", folder)):
        refused(done, "dealer-agent.keys, line 1")
        assert cut.partition(":")[2][:8] not in done.stderr


def test_the_stock_comes_in_without_a_key(folder: Path, tmp_path: Path) -> None:
    key_file(folder).unlink()
    feed = write_feed(tmp_path / "stock.json", stock_of_three())
    done = command_here("inventory", "import", feed, "--dir", folder)
    assert done.returncode == 0, done.stderr
