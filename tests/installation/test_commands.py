"""`dealer-agent dealers` and `init --installation` as their user sees them, and `--dealer` in every other command."""

import json
import re
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.acceptance.running import command_here, succeed_here
from tests.installation.platform import DEALERS, dealer_toml

from dealer_agent.cli import app
from dealer_agent.config.installation import load_installation

pytestmark = pytest.mark.outside_protocol("many dealers in one service")

NORTH, SOUTH = DEALERS


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An installation without dealers, and one with two, which tests copy: that takes less time than the commands."""
    empty, filled = (tmp_path_factory.mktemp(name) / "platform" for name in ("empty", "filled"))
    succeed_here("init", empty, "--installation", "--public-url", "https://agents.example.com")
    shutil.copytree(empty, filled)
    for dealer_id in DEALERS:
        add(filled, dealer_id)
    return empty, filled


@pytest.fixture
def folder(made_once: tuple[Path, Path], tmp_path: Path) -> Path:
    """An installation without dealers."""
    return shutil.copytree(made_once[0], tmp_path / "platform")


@pytest.fixture
def platform(made_once: tuple[Path, Path], tmp_path: Path) -> Path:
    """An installation with two dealers."""
    return shutil.copytree(made_once[1], tmp_path / "platform")


def write(folder: Path, text: str) -> Path:
    path = folder.parent / "dealer.toml"
    path.write_text(text, encoding="utf-8")
    return path


def add(folder: Path, dealer_id: str, *options: str) -> str:
    return succeed_here("dealers", "add", write(folder, dealer_toml(dealer_id)), *options, "--dir", folder)


def listed(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(succeed_here("dealers", "list", "--json", "--dir", folder))
    return found


def test_a_new_installation_has_settings_and_a_key_and_overwrites_nothing(folder: Path) -> None:
    assert load_installation(folder, {}).public_url == "https://agents.example.com"
    assert stat.S_IMODE((folder / "dealer-agent.keys").stat().st_mode) == 0o600
    again = command_here("init", folder, "--installation")
    assert (again.returncode, "exists already" in again.stderr) == (1, True)
    wrong = command_here("init", folder.parent / "new", "--installation", "--public-url", "nowhere")
    assert (wrong.returncode, "--public-url" in wrong.stderr) == (1, True)
    assert not (folder.parent / "new").exists()


def test_dealers_are_added_and_listed(folder: Path) -> None:
    said = add(folder, NORTH, "--listed")
    assert "https://agents.example.com/d/north-motors/" in said
    add(folder, SOUTH, "--disabled", "--note", "on trial")
    north, south = listed(folder)
    assert north == {
        "id": NORTH,
        "name": "North Motors",
        "state": "enabled",
        "list": "listed",
        "settings": 1,
        "hosts": "",
    }
    assert (south["state"], south["list"]) == ("disabled", "unlisted")
    shown = json.loads(succeed_here("dealers", "show", SOUTH, "--json", "--dir", folder))
    assert (shown["vehicles"], shown["settings"]["note"], shown["document"]) == (0, "on trial", dealer_toml(SOUTH))
    assert "disabled" in succeed_here("dealers", "show", SOUTH, "--dir", folder)


def test_an_invalid_file_changes_nothing_and_lists_all_mistakes_with_lines(platform: Path) -> None:
    text = dealer_toml(NORTH, '\n[mail]\nhost = "mail.example.com"\n').replace("America/New_York", "Mars/Base")
    wrong = write(platform, text)
    for words in (("add", wrong), ("edit", NORTH, "--file", wrong)):
        done = command_here("dealers", *words, "--dir", platform)
        assert done.returncode == 1
        assert "dealer.toml, line 8: rooftops[0].timezone" in done.stderr or "mail.host" in done.stderr
    assert [(each["id"], each["settings"]) for each in listed(platform)] == [(NORTH, 1), (SOUTH, 1)]


def test_the_same_dealer_is_not_added_twice(platform: Path) -> None:
    done = command_here("dealers", "add", write(platform, dealer_toml(NORTH)), "--dir", platform)
    assert (done.returncode, "is registered already" in done.stderr) == (1, True)


def test_settings_are_edited_with_a_file_and_keep_their_history(platform: Path) -> None:
    text = dealer_toml(NORTH).replace('name = "North Motors"', 'name = "Polar Motors"', 1)
    edit = ("dealers", "edit", NORTH, "--file", write(platform, text), "--dir", platform)
    assert "number 2" in succeed_here(*edit, "--note", "new name")
    assert "Nothing has changed" in succeed_here(*edit)
    assert listed(platform)[0]["name"] == "Polar Motors"
    history = json.loads(succeed_here("dealers", "history", NORTH, "--json", "--dir", platform))
    assert [(each["number"], each["note"]) for each in history] == [(2, "new name"), (1, "")]
    first = succeed_here("dealers", "history", NORTH, "--number", "1", "--dir", platform)
    assert first == dealer_toml(NORTH)


def test_settings_that_somebody_else_has_changed_are_not_overwritten(platform: Path) -> None:
    def edit(name: str) -> Any:
        text = dealer_toml(NORTH).replace("North", name)
        return command_here(
            "dealers", "edit", NORTH, "--file", write(platform, text), "--number", "1", "--dir", platform
        )

    assert edit("Polar").returncode == 0
    second = edit("Arctic")
    assert (second.returncode, "Make your change again, in the current settings" in second.stderr) == (1, True)


def test_settings_are_edited_in_the_editor(platform: Path, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i.old "s/North Motors/Polar Motors/" "$2"\n')
    editor.chmod(0o700)
    done = command_here("dealers", "edit", NORTH, "--dir", platform, EDITOR=f"{editor} --wait")
    assert (done.returncode, "number 2" in done.stdout) == (0, True), done.stderr
    again = command_here("dealers", "edit", NORTH, "--dir", platform, EDITOR=f"{editor} --wait")
    assert (again.returncode, "Nothing was changed" in again.stderr) == (1, True)
    editor.write_text('#!/bin/sh\necho nonsense > "$2"\n')
    wrong = command_here("dealers", "edit", NORTH, "--dir", platform, EDITOR=f"{editor} --wait")
    assert (wrong.returncode, "is not TOML" in wrong.stderr, "Nothing was changed" in wrong.stderr) == (1, True, True)
    missing = command_here("dealers", "edit", NORTH, "--dir", platform, EDITOR=str(tmp_path / "missing"))
    assert (missing.returncode, "Set EDITOR" in missing.stderr) == (1, True)
    assert listed(platform)[0]["settings"] == 2


def test_edit_refuses_settings_with_another_id(platform: Path) -> None:
    done = command_here("dealers", "edit", NORTH, "--file", write(platform, dealer_toml("other")), "--dir", platform)
    assert (done.returncode, "an id never changes" in done.stderr) == (1, True)


def test_a_dealer_is_listed_unlisted_disabled_and_enabled(platform: Path) -> None:
    for words, expected in (
        (("edit", NORTH, "--listed"), ("enabled", "listed")),
        (("disable", NORTH), ("disabled", "listed")),
        (("edit", NORTH, "--unlisted"), ("disabled", "unlisted")),
        (("enable", NORTH), ("enabled", "unlisted")),
    ):
        succeed_here("dealers", *words, "--dir", platform)
        assert (listed(platform)[0]["state"], listed(platform)[0]["list"]) == expected
    assert listed(platform)[0]["settings"] == 1


def test_hosts_are_added_listed_and_removed(platform: Path) -> None:
    added = succeed_here("dealers", "host", "add", NORTH, "Cars.Example.com", "--dir", platform)
    assert "https://cars.example.com/" in added
    hosts = json.loads(succeed_here("dealers", "host", "list", "--json", "--dir", platform))
    assert hosts == [{"host": "cars.example.com", "dealer": NORTH}]
    for words, code in (
        (("add", SOUTH, "cars.example.com"), 1),
        (("add", SOUTH, "10.0.0.1"), 2),
        (("remove", SOUTH, "cars.example.com"), 1),
        (("remove", NORTH, "*"), 2),
        (("remove", NORTH, "cars.example.com"), 0),
    ):
        assert command_here("dealers", "host", *words, "--dir", platform).returncode == code
    assert "No dealer has a host name" in succeed_here("dealers", "host", "list", "--dir", platform)


def test_a_dealer_is_removed_only_after_a_confirmation(platform: Path) -> None:
    refused = command_here("dealers", "remove", NORTH, "--dir", platform)
    assert (refused.returncode, "all leads" in refused.stderr) == (1, True)
    assert len(listed(platform)) == 2
    succeed_here("dealers", "remove", NORTH, "--yes", "--dir", platform)
    assert [each["id"] for each in listed(platform)] == [SOUTH]


@pytest.mark.parametrize(
    "words",
    [
        ("show", "nosuch"),
        ("edit", "nosuch", "--listed"),
        ("history", "nosuch"),
        ("disable", "nosuch"),
        ("enable", "nosuch"),
        ("remove", "nosuch", "--yes"),
        ("host", "add", "nosuch", "a.example"),
        ("host", "remove", "nosuch", "a.example"),
    ],
)
def test_an_unknown_dealer_is_named(folder: Path, words: tuple[str, ...]) -> None:
    done = command_here("dealers", *words, "--dir", folder)
    assert (done.returncode, "there is no dealer nosuch in this installation" in done.stderr) == (1, True)


def commands_of_a_dealer() -> Iterator[tuple[str, ...]]:
    """All commands that work on the dealer of a folder.

    Those about keys, alerts, agents and the console work on the installation if no dealer is named (`test_keys.py`,
    `tests/alerts`, `tests/acceptance/test_agents_command.py`, `tests/console/test_command.py`).
    """
    root: Any = typer.main.get_command(app)
    for name in sorted(set(root.list_commands(None)) - {"keys", "alerts", "agents", "console"}):
        command = root.get_command(None, name)
        for inner, each in getattr(command, "commands", {}).items():
            if any("--dealer" in parameter.opts for parameter in each.params):
                yield name, inner


def arguments(words: tuple[str, ...], folder: Path) -> list[str]:
    """What a command needs to run until it opens its dealer."""
    root: Any = typer.main.get_command(app)
    command = root.get_command(None, words[0]).commands[words[1]]
    values = {
        "file": str(folder / "installation.toml"),
        "contact": "pat@example.com",
        "at": "2026-03-04 10:30" if words[0] == "record" else "2126-03-04 10:30",
        "hours": "24",
        "mark_": "spam",
    }
    new = str(folder / "new")
    needed = []
    for parameter in command.params:
        if parameter.required:
            option = parameter.opts[0]
            is_file = parameter.name == "file" and option.startswith("-")
            value = new if is_file else values.get(parameter.name, "something")
            needed += [option, value] if option.startswith("-") else [value]
    if words in {
        ("leads", "erase"),
        ("leads", "release"),
        ("leads", "refuse"),
        ("consent", "revoke"),
        ("deliveries", "retry"),
    }:
        needed += ["something"]
    return needed


@pytest.mark.parametrize("words", [*commands_of_a_dealer()], ids=" ".join)
def test_every_command_of_a_dealer_can_choose_it(platform: Path, words: tuple[str, ...]) -> None:
    wanted = [*words, *arguments(words, platform), "--dir", str(platform)]
    without = command_here(*wanted)
    assert without.returncode == 2, without.stderr
    said = re.sub(r"[^\w-]+", " ", without.stderr)
    assert f"name one of the 2 dealers with --dealer ID {NORTH} {SOUTH}" in said
    chosen = command_here(*wanted, "--dealer", NORTH)
    assert chosen.returncode in {0, 1} or "is not a feed" in chosen.stderr, chosen.stderr


def test_an_unknown_dealer_is_refused_in_front_of_any_command(platform: Path) -> None:
    for words in (("tokens", "list"), ("leads", "erase", "something")):
        unknown = command_here(*words, "--dir", platform, "--dealer", "nosuch")
        said = re.sub(r"[^\w-]+", " ", unknown.stderr)
        assert (unknown.returncode, "there is no dealer nosuch" in said) == (2, True)


def test_the_only_dealer_needs_no_name(folder: Path) -> None:
    empty = command_here("tokens", "list", "--dir", folder)
    assert (empty.returncode, "no dealer yet" in empty.stderr) == (2, True)
    add(folder, NORTH)
    succeed_here("tokens", "create", "An agent", "--dir", folder)
    assert len(json.loads(succeed_here("tokens", "list", "--json", "--dir", folder))) == 1


def test_many_dealers_are_not_all_named(folder: Path) -> None:
    for number in range(12):
        add(folder, f"dealer-{number:02}")
    said = re.sub(r"[^\w-]+", " ", command_here("tokens", "list", "--dir", folder).stderr)
    assert "dealer-09 and 2 more dealer-agent dealers list" in said
    assert "dealer-10" not in said


def test_the_dealer_of_a_folder_must_be_the_named_one(tmp_path: Path) -> None:
    succeed_here("init", tmp_path / "my-store")
    succeed_here("tokens", "list", "--dealer", "my-store", "--dir", tmp_path / "my-store")
    wrong = command_here("tokens", "list", "--dealer", "other", "--dir", tmp_path / "my-store")
    assert (wrong.returncode, "my-store" in wrong.stderr) == (2, True)


def test_tokens_belong_to_the_chosen_dealer(platform: Path) -> None:
    succeed_here("tokens", "create", "An agent", "--dealer", NORTH, "--dir", platform)
    for dealer_id, count in ((NORTH, 1), (SOUTH, 0)):
        found = json.loads(succeed_here("tokens", "list", "--json", "--dealer", dealer_id, "--dir", platform))
        assert len(found) == count
