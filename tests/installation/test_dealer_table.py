"""`dealer-agent dealers add-table` adds a dealer for each row of a table, or nothing."""

import json
from pathlib import Path

import pytest
from tests.acceptance.running import command_here, succeed_here
from tests.installation.platform import make_installation

from dealer_agent.operations import dealer_table

pytestmark = pytest.mark.outside_protocol("many dealers in one service")

SHARED = """
feed_price = "advertised"

[[rooftops]]
name = "Main"
timezone = "America/New_York"

[policies]
duplicate_window_hours = 24
"""
HEADER = "id,name,rooftops.0.address.city,policies.duplicate_window_hours,hosts"
CITY = "rooftops.0.address.address_line_1,rooftops.0.address.state,rooftops.0.address.zip"
TWO_DEALERS = (
    f"{HEADER},{CITY}\r\n"
    'north,"North, Motors",Boston,48,Cars.north.example agents.north.example,1 Main St,MA,02108\r\n'
    "\r\n"
    "south,South Motors,Hartford,,,2 Main St,CT,06103\r\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shared.toml").write_text(SHARED, encoding="utf-8")
    return make_installation(tmp_path / "platform").folder


def table(folder: Path, text: str) -> tuple[Path, ...]:
    path = folder.parent / "dealers.csv"
    path.write_text(text, encoding="utf-8")
    return folder.parent / "shared.toml", path


def dealers(folder: Path) -> dict[str, str]:
    return {
        each["id"]: each["hosts"] for each in json.loads(succeed_here("dealers", "list", "--json", "--dir", folder))
    }


def refusal(folder: Path, text: str) -> list[str]:
    done = command_here("dealers", "add-table", *table(folder, text), "--dir", folder)
    assert done.returncode == 1
    return done.stderr.splitlines()


def test_each_row_is_a_dealer_with_the_shared_settings_and_its_own(folder: Path) -> None:
    said = succeed_here("dealers", "add-table", *table(folder, TWO_DEALERS), "--json", "--dir", folder)
    assert json.loads(said) == {"added": ["north", "south"], "were_there": 0}
    assert dealers(folder) == {"north": "agents.north.example, cars.north.example", "south": ""}
    north, south = (
        json.loads(succeed_here("dealers", "show", dealer_id, "--json", "--dir", folder))
        for dealer_id in ("north", "south")
    )
    assert north["name"] == "North, Motors"
    assert 'zip = "02108"' in north["document"]
    assert "duplicate_window_hours = 48" in north["document"]
    assert "duplicate_window_hours = 24" in south["document"]


def test_a_repeated_command_adds_what_is_missing(folder: Path) -> None:
    first, second = (TWO_DEALERS.splitlines(keepends=True)[:n] for n in (2, 4))
    succeed_here("dealers", "add-table", *table(folder, "".join(first)), "--dir", folder)
    said = succeed_here("dealers", "add-table", *table(folder, "".join(second)), "--json", "--dir", folder)
    assert json.loads(said) == {"added": ["south"], "were_there": 1}


def test_all_mistakes_are_listed_with_their_lines_and_nothing_is_added(folder: Path) -> None:
    wrong = (
        f"{HEADER}\n"
        "north,North,,48,\n"
        "south,,,,\n"
        "Not An Id,West,,soon,10.0.0.1\n"
        "east,East,,-1,\n"
        "east,East,,,\n"
        "east,East,,,\n"
        "far,Far,,,,more\n"
    )
    said = refusal(folder, wrong)
    starts = [
        "Error: dealers.csv, line 3: name: ",
        "dealers.csv, line 4: policies.duplicate_window_hours: this is not a value of TOML: write whole number",
        "dealers.csv, line 5: policies.duplicate_window_hours: ",
        "dealers.csv, line 7: the id east is in line 6 too",
        "dealers.csv, line 8: the row has 6 cells, and the header 5",
    ]
    assert [line[: len(start)] for line, start in zip(said, starts, strict=True)] == starts
    assert dealers(folder) == {}


def test_a_dealer_with_other_settings_or_the_host_of_another_is_refused(folder: Path) -> None:
    succeed_here("dealers", "add-table", *table(folder, TWO_DEALERS), "--dir", folder)
    changed = TWO_DEALERS.replace("Boston,48", "Boston,49").replace(
        "Hartford,,", "Hartford,,new.example cars.north.example"
    )
    assert refusal(folder, changed) == [
        "Error: dealers.csv, line 2: the dealer north exists already with other settings: change them with "
        "dealer-agent "
        f"dealers edit --dir {folder} north",
        "dealers.csv, line 4: the dealer south exists already without this host: add it with dealer-agent dealers "
        "host add "
        f"--dir {folder} south new.example",
        "dealers.csv, line 4: hosts: cars.north.example belongs to the dealer north; delete it in this line",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "line 1: must have the column id"),
        ("name\nNorth\n", "line 1: must have the column id"),
        ("id,name,name\n", "line 1: must have the column id, and each column once"),
        ("id,nmae\n", "line 1: 'nmae' is not a setting of a dealer"),
        ("id,name\n", "has no row below the header"),
        ("id,name,rooftops.7.name\nnorth,North,x\n", "line 2: rooftops.7.name: these settings have no rooftops.7"),
        ("id,name,service.public_url\nnorth,North,https://a.example\n", "line 2: service.public_url: "),
        ('id,name\nnorth,"North\n', "is not a row of a table"),
    ],
)
def test_what_is_not_a_table_of_dealers_is_refused_in_words(folder: Path, text: str, words: str) -> None:
    assert words in "\n".join(refusal(folder, text))


def test_a_table_is_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dealer_table, "MOST_DEALERS", 1)
    assert refusal(folder, TWO_DEALERS) == ["Error: dealers.csv: has more than 1 dealers: split it"]
    monkeypatch.setattr(dealer_table, "MOST_COLUMNS", 4)
    assert refusal(folder, TWO_DEALERS) == ["Error: dealers.csv: has more than 4 columns: leave some out"]


def test_shared_settings_that_are_not_toml_are_refused_with_their_line(folder: Path) -> None:
    arguments = table(folder, TWO_DEALERS)
    arguments[0].write_text('feed_price = "advertised"\n[[rooftops]\n', encoding="utf-8")
    done = command_here("dealers", "add-table", *arguments, "--dir", folder)
    assert (done.returncode, done.stderr.startswith("Error: shared.toml, line 2: is not TOML")) == (1, True)
