"""The commands about many dealers in docs/how-to/production.md work as they are written, in their order."""

import re
from pathlib import Path

import pytest
from tests.acceptance.running import succeed_here
from tests.installation.test_moves import FEED

pytestmark = pytest.mark.outside_protocol("many dealers in one service")

PAGE = Path(__file__).parents[2] / "docs/how-to/production.md"
CHAPTER = PAGE.read_text("utf-8").partition("\n## Many dealers\n")[2]
ELSEWHERE = {
    "serve": "tests/acceptance/test_installation.py",
    "database": "tests/storage/test_database_roles.py",
    "dealers add-table": "test_the_table_of_the_page_adds_its_dealers",
}
"""Commands that other tests run."""


def test_the_commands_of_the_page_work(tmp_path: Path) -> None:
    lines = re.findall(r"(?m)^ {4,}(?:\S+=\S+ )?dealer-agent (.*)$", CHAPTER)
    commands = [line.split() for line in lines if ELSEWHERE.keys().isdisjoint(_names(line))]
    assert len(commands) == 6
    succeed_here("init", "north-motors", cwd=tmp_path)
    (tmp_path / "export.csv").write_bytes(FEED)
    succeed_here("inventory", "import", "export.csv", "--dir", "north-motors", cwd=tmp_path)
    # The dealer cannot be imported while it is in the installation.
    for words in sorted(commands, key=lambda words: words[:2] == ["dealers", "import"]):
        succeed_here(*words, cwd=tmp_path)
    assert (tmp_path / "north-motors-alone" / "dealer.toml").exists()


def _names(line: str) -> set[str]:
    """The name of a command, and of its group."""
    return {line.split()[0], " ".join(line.split()[:2])}


def test_the_table_of_the_page_adds_its_dealers(tmp_path: Path) -> None:
    succeed_here("init", "platform", "--installation", cwd=tmp_path)
    shared = """
        feed_price = "advertised"

        [[rooftops]]
        name = "Main"
        timezone = "America/New_York"

        [rooftops.address]
        address_line_1 = "1 Main St"
        city = "Boston"
        state = "MA"
        zip = "02108"

        [[feeds]]
        name = "nightly"
        """
    (tmp_path / "shared.toml").write_text(shared, encoding="utf-8")
    rows = re.findall(r"(?m)^ {4}(\S*,.*,.*)$", CHAPTER.partition("#### Many at once")[2].partition("\n#")[0])
    (tmp_path / "dealers.csv").write_text("\n".join(rows), encoding="utf-8")
    [command] = re.findall(r"(?m)^ +dealer-agent (dealers add-table .*)$", CHAPTER)
    assert f"{len(rows) - 1} dealers added" in succeed_here(*command.split(), cwd=tmp_path)


def test_each_command_in_the_table_works(tmp_path: Path) -> None:
    succeed_here("init", "platform", "--installation", cwd=tmp_path)
    succeed_here("init", "north-motors", cwd=tmp_path)
    succeed_here("dealers", "add", "north-motors/dealer.toml", "--dir", "platform", cwd=tmp_path)
    rows = re.findall(r"(?m)^\| .* \| (`dealer-agent .*) \|$", CHAPTER)
    (tmp_path / "dealer.toml").write_bytes((tmp_path / "north-motors" / "dealer.toml").read_bytes() + b"\n# Changed.\n")
    commands = [line for row in rows for line in re.findall(r"`dealer-agent ([^`]*)`", row)]
    assert len(commands) >= 9
    for line in commands:
        if line == "dealers edit ID":
            continue  # It opens an editor.
        # This dealer has settings 1 and 2. The page has an example with 3.
        words = line.replace("ID", "north-motors").replace("--number 3", "--number 2").split()
        yes = ["--yes"] if "remove" in words else []
        succeed_here(*words, *yes, "--dir", "platform", cwd=tmp_path)
