"""`dealer-agent help`: the reference on the terminal; and what an error suggests."""

from pathlib import Path

import pytest
from tests.acceptance.running import command_here, succeed_here

pytestmark = pytest.mark.outside_protocol("help on the command line")

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def test_help_lists_every_page_of_the_reference() -> None:
    shown = succeed_here("help")
    for page in REFERENCE.glob("*.md"):
        assert f"\n{page.stem} " in f"\n{shown}"


def test_help_prints_a_page_and_one_section_with_those_below_it() -> None:
    whole = succeed_here("help", "settings")
    assert whole.rstrip() == (REFERENCE / "settings.md").read_text("utf-8").rstrip()
    mail = succeed_here("help", "settings", "mail")
    assert mail.startswith("## [mail]")
    assert "confirm_appointments" in mail
    assert "## [auth]" not in mail
    assert "Written by" not in succeed_here("help", "commands")
    listing = succeed_here("help", "commands", "dealer-agent", "leads")
    assert "### dealer-agent leads show" in listing
    assert "## dealer-agent keys" not in listing


@pytest.mark.parametrize(
    ("words", "suggested"),
    [
        (("help", "setings"), "did you mean settings?"),
        (("help", "settings", "mial"), "did you mean mail?"),
        (("lead", "list"), "did you mean leads?"),
        (("leads", "shw"), "show"),
        (("leads", "list", "--limt", "3"), "--limit"),
        (("inventory", "import", __file__, "--format", "vuato"), "did you mean vauto?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_an_error_suggests_what_was_meant(words: tuple[str, ...], suggested: str) -> None:
    done = command_here(*words)
    assert done.returncode == 2
    assert suggested in " ".join(done.stderr.replace("\u2502", " ").split())
