"""`dealer-agent init`, `tokens`, `leads`, `serve` and `--help` as their user sees them."""

import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.asking import ask, asked, lead
from tests.acceptance.dealers import HONDA_VIN
from tests.acceptance.running import COMMAND, Running, command, command_here, environment, eventually, succeed_here

from dealer_agent import __version__

HELP = {
    (): ("init", "inventory", "serve", "demo", "leads", "tokens", "dealer-agent demo"),
    ("init",): ("FOLDER", "dealer.toml", "--name"),
    ("inventory",): ("import",),
    ("inventory", "import"): ("--dry-run", "--allow-shrink", "--format", "vauto", "--dir", "never a mixture"),
    ("serve",): ("--host", "--port", "8080", "--workers", "--dir"),
    ("demo",): ("--host", "--port", "--dir", "300 vehicles"),
    ("keys",): ("create", "list", "rotate"),
    ("keys", "create"): ("--print", "DEALER_AGENT_KEYS", "--dir"),
    ("keys", "rotate"): ("--forget-old", "the next run continues", "--dir"),
    ("leads",): ("list", "show", "erase", "export", "dispose"),
    ("leads", "list"): ("--limit", "--before", "--json"),
    ("leads", "show"): ("leads list",),
    ("leads", "erase"): ("--email", "--phone", "--yes", "--consent-too", "cannot be undone"),
    ("leads", "export"): ("csv", "json", "adf", "--since", "--until", "--out", "0600", "formula"),
    ("leads", "dispose"): ("--dry-run", "privacy"),
    ("consent",): ("show", "revoke", "prove", "export", "verify", "head"),
    ("consent", "revoke"): ("--channel", "--reason", "--email", "--phone"),
    ("consent", "prove"): ("CONTACT", "16 CFR 310.5", "access log"),
    ("consent", "export"): ("--out", "0600", "consent verify"),
    ("consent", "verify"): ("code 1", "--against", "[FILE]"),
    ("consent", "head"): ("--against",),
    ("accesses",): ("list",),
    ("accesses", "list"): ("--limit",),
    ("tokens",): ("create", "list", "revoke"),
    ("tokens", "create"): ("once", "--dir"),
    ("tokens", "revoke"): ("tokens list",),
    ("agents",): ("list", "show", "allow", "limit", "quarantine", "block", "forget"),
    ("agents", "show"): ("https://agent.example", "token:ID", "ISSUER#CLIENT", "class", "commands"),
    ("agents", "limit"): ("--skill", "--rate", "--leads-a-day", "--reason", "--dealer"),
    ("agents", "quarantine"): ("20 leads a day",),
}


@pytest.mark.parametrize(("words", "taught"), HELP.items(), ids=[" ".join(words) or "dealer-agent" for words in HELP])
def test_help_of_a_command_names_its_options_and_related_commands(
    words: tuple[str, ...], taught: tuple[str, ...]
) -> None:
    done = command_here(*words, "--help")
    assert done.returncode == 0
    shown = " ".join(done.stdout.split())
    for word in taught:
        assert word in shown


def test_the_command_alone_shows_its_help_and_its_version_on_request() -> None:
    assert "Usage: dealer-agent" in command("--help").stdout
    alone = command_here()
    assert (alone.stdout + alone.stderr).strip() == command_here("--help").stdout.strip()
    assert command_here("--version").stdout == f"dealer-agent {__version__}\n"


HEAVY = ("alembic", "httpx", "icalendar", "jinja2", "numpy", "psycopg", "sqlalchemy", "starlette", "uvicorn")
HEAVY_BUT_DATABASE = tuple(name for name in HEAVY if name != "sqlalchemy")


IMPORTED = """
import sys
from dealer_agent.cli import app

for words in {commands}:
    try:
        app(words)
    except SystemExit as ended:
        assert not ended.code, words
print([name for name in {modules} if name in sys.modules])
"""


def imported_of(modules: tuple[str, ...], *commands: Sequence[str]) -> str:
    """The modules among these that one of the commands imports, as the text of a list."""
    program = IMPORTED.format(commands=commands, modules=modules)
    return command(program=(sys.executable, "-c", program)).stdout.splitlines()[-1]


@pytest.mark.parametrize(("words", "heavy"), [((), HEAVY), (("tokens", "list"), HEAVY_BUT_DATABASE)])
def test_a_command_imports_only_what_it_needs(words: tuple[str, ...], heavy: tuple[str, ...]) -> None:
    """The imports of all commands take more than a second."""
    assert imported_of(heavy, [*words, "--help"]) == "[]"


def test_a_list_imports_only_what_it_shows(tmp_path: Path) -> None:
    """A person waits for it. The database exists, so nothing has to be migrated."""
    store = str(tmp_path / "store")
    succeed_here("init", store)
    succeed_here("leads", "list", "--dir", store)
    lists = [
        [*words.split(), "--dir", store]
        for words in (
            *("leads list", "deliveries list", "inventory history", "inventory list", "tokens list", "feeds list"),
            *("appointments list", "accesses list", "agents list", "console people"),
        )
    ]
    others = (
        *("charset_normalizer", "email_validator", "holidays", "limits", "lxml", "multiprocessing", "phonenumbers"),
        *("rich.progress", "structlog", "dealer_agent.storage.installation.dealer_registry"),
    )
    needless = (*HEAVY_BUT_DATABASE, *others, "sqlalchemy.dialects.postgresql", "sqlalchemy.orm")
    assert imported_of(needless, *lists) == "[]"


def test_a_help_text_breaks_lines_only_at_the_width_of_the_terminal() -> None:
    shown = command_here("leads", "erase", "--help", COLUMNS="400").stdout
    assert "cancels future visits, and drops the deliveries that wait. It keeps the proof of consent" in shown


def test_a_reader_that_ends_early_is_no_error(tmp_path: Path) -> None:
    """As in `dealer-agent consent head | head -1`."""
    succeed_here("init", tmp_path / "store")
    asked = [COMMAND, "consent", "head", "--dir", str(tmp_path / "store")]
    with subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()) as done:
        assert done.stdout is not None
        done.stdout.close()
        assert done.stderr is not None
        assert done.stderr.read() == ""


@pytest.mark.requirement("feed-price-default")
def test_init_writes_a_dealer_that_imports_and_lists_at_once(tmp_path: Path) -> None:
    said = command_here("init", "my-store", cwd=tmp_path)
    assert said.returncode == 0
    assert "dealer-agent inventory import" in said.stdout
    assert "dealer-agent serve" in said.stdout
    toml = tmp_path / "my-store" / "dealer.toml"
    text = toml.read_text()
    assert 'name = "My Store"' in text
    # What the feed's price is taken to be, with the rule beside it (docs/protocol.md#feed-price).
    rule, _, _ = text.partition('\nfeed_price = "advertised"\n')
    assert rule != text
    assert "every mandatory dealer charge" in rule
    assert "no government charge" in rule
    # From the folder above, the only dealer below it is meant.
    assert "No leads yet" in command_here("leads", "list", cwd=tmp_path).stdout
    assert "No tokens yet" in command_here("tokens", "list", cwd=tmp_path).stdout


def test_init_never_writes_over_a_dealer(tmp_path: Path) -> None:
    command_here("init", tmp_path / "store")
    (tmp_path / "store" / "dealer.toml").write_text("mine")
    done = command_here("init", tmp_path / "store")
    assert done.returncode == 1
    assert "exists already" in done.stderr
    assert (tmp_path / "store" / "dealer.toml").read_text() == "mine"


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_init_where_no_folder_can_be_says_so(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    done = command_here("init", tmp_path / place)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")


def test_a_token_is_shown_once_and_kept_as_a_hash(folder: Path) -> None:
    """Tokens are stored as hashes (docs/protocol.md#authentication)."""
    made = command_here("tokens", "create", "Agent [/red]", "--dir", folder)
    assert made.returncode == 0, made.stderr
    token = made.stdout.strip()
    prefix, token_id, secret = token.split("_", 2)
    assert prefix == "dat"
    assert "bearer" in made.stderr, "nothing asks for it yet, and it does not say so"
    listed = command_here("tokens", "list", "--dir", folder).stdout
    assert token_id in listed
    assert "Agent [/red]" in listed
    assert secret not in listed
    with sqlite3.connect(folder / "dealer-agent.db") as database:
        assert secret not in "\n".join(database.iterdump())

    assert command_here("tokens", "revoke", token_id, "--dir", folder).returncode == 0
    assert re.search(rf"{token_id}.*\d\d:\d\d.*\d\d:\d\d", command_here("tokens", "list", "--dir", folder).stdout)
    again = command_here("tokens", "revoke", token_id, "--dir", folder)
    assert again.returncode == 1
    assert "no active token" in again.stderr


def test_a_lead_is_listed_and_shown_whole(service: Running) -> None:
    members = lead(
        7000,
        vehicle_of_interest={"vin": HONDA_VIN},
        trade_in={"year": 2017, "make": "Mazda", "condition": "good"},
        appointment={"appointment_type": "test_drive", "appointment_at": "2027-01-11T15:00:00Z"},
        message="Is it [bold]still[/bold] there?\nRegards\x1b]0;owned\x07",
    )
    lead_id = asked(service.url, "lead.submit", **members)["lead_id"]
    listed = succeed_here("leads", "list", "--dir", service.folder)
    (line,) = [line for line in listed.splitlines() if lead_id in line]
    assert "Robin Example7000" in line
    assert "requested" in line
    shown = succeed_here("leads", "show", lead_id, "--dir", service.folder)
    for told in (
        "robin7000@example.com",
        HONDA_VIN,
        "Mazda",
        "test_drive",
        "Is it [bold]still[/bold] there?",
        "Share my details with this dealer.",
        "lead_submission",
        "Acceptance Agent",
    ):
        assert told in shown
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "\nRegards" not in shown, "what a buyer wrote must not look like a section of ours"


def test_leads_are_paged_from_the_newest(service: Running) -> None:
    ids = [asked(service.url, "lead.submit", **lead(7100 + number))["lead_id"] for number in range(3)]
    newest = command_here("leads", "list", "--limit", "1", "--dir", service.folder).stdout
    assert ids[2] in newest
    assert ids[1] not in newest
    older = command_here("leads", "list", "--limit", "1", "--before", ids[2], "--dir", service.folder).stdout
    assert ids[1] in older


def test_a_list_is_printed_as_json_on_request(service: Running) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    lead_id = asked(service.url, "lead.submit", **lead(7150, message="\u202eolleh"))["lead_id"]

    def listed(*words: str) -> list[dict[str, Any]]:
        printed = command_here(*words, "--json", "--dir", service.folder).stdout
        assert printed.isascii(), "no character controls the terminal"
        found: list[dict[str, Any]] = json.loads(printed)
        return found

    (newest,) = listed("leads", "list", "--limit", "1")
    assert (newest["id"], newest["customer"]) == (lead_id, "Robin Example7150")
    assert before < datetime.fromisoformat(newest["received"]) < datetime.now(UTC) + timedelta(seconds=1)
    access = listed("accesses", "list", "--limit", "1")[0]
    assert (access["what"], access["leads"], access["lead_id"]) == ("leads list", 1, None)
    assert listed("inventory", "history")[-1]["added"] > 0
    assert listed("keys", "list")[0]["use"].startswith("active")
    for words in (("appointments", "list"), ("deliveries", "list"), ("tokens", "list")):
        assert isinstance(listed(*words), list)


def test_show_of_an_unknown_lead_fails_and_names_the_command_that_lists_leads(folder: Path) -> None:
    done = command_here("leads", "show", "01KE7AQ2N0V5X3J8R6T4Y9W1ZA", "--dir", folder)
    assert done.returncode == 1
    assert "leads list" in done.stderr


def test_serve_says_where_it_answers(service: Running) -> None:
    said = service.said.read_text()
    assert "Acceptance Motors" in said
    assert f"{service.url}/.well-known/agent-card.json" in said


def test_the_log_holds_no_personal_data(service: Running) -> None:
    customer = {"first_name": "Quirinius", "last_name": "Zebedee", "email": "quirinius@example.com"}
    taken = ask(service.url, "lead.submit", **lead(7200, customer=customer, message="my secret wish"))
    log = eventually("it is logged", lambda: taken.headers["x-request-id"] in service.stderr() and service.stderr())
    for told in ("Quirinius", "Zebedee", "quirinius@example.com", "secret wish"):
        assert told not in log
