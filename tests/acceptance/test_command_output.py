"""What commands print for scripts (`--json`) and for people (tables), and their exit codes."""

import json
import os
import pty
import re
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer
from rich.cells import cell_len
from tests.acceptance.filled_dealer import (
    FEED,
    PROBLEM,
    QUOTE_SIGNER,
    SOUTH,
    STOCK,
    Filled,
    customer,
    filled_dealer,
    quarter,
)
from tests.acceptance.running import command_here, succeed_here
from tests.installation.platform import DEALERS, dealer_toml

from dealer_agent.callers import signed
from dealer_agent.cli import app
from dealer_agent.config import load_settings
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.storage.stock.recorded_replies import ReplyRow, add_replies
from dealer_agent.storage.store import Store

pytestmark = pytest.mark.outside_protocol("the output of commands")

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "json.md"

OTHER_FORM = {
    "record reply": "it prints the bytes of the reply: tests/server/test_reply_record.py",
    **dict.fromkeys(
        [f"ask {skill}" for skill in ("information", "facets", "search", "vehicle", "lead")],
        "its JSON is that of the protocol: tests/acceptance/test_ask.py",
    ),
    **dict.fromkeys(
        [f"ask {skill}" for skill in ("quote", "hold", "release")],
        "its JSON is that of the protocol: tests/acceptance/test_ask_offers.py",
    ),
    "check": "its JSON is a report: tests/checker",
    "mcp": "it speaks MCP over its standard input and output",
    "init": "it writes files",
    "restore": "it writes files",
    "feeds password": "it prints a line for dealer.toml",
    "feeds run": "its exit code says all; feeds files has the result",
    "alerts test": "its exit code says all",
    "serve": "it logs JSON lines",
    "demo": "it serves until it is stopped",
    "help": "it prints pages of the reference",
    "leads export": "it has --format json",
    "appointments calendar": "it prints a calendar",
    "dealers export": "it writes files",
    "dealers import": "it reads files",
    "dealers disable": "its exit code says all",
    "dealers enable": "its exit code says all",
    "dealers remove": "its exit code says all",
    "dealers host remove": "its exit code says all",
    "database prepare": "it prints the setting of an environment variable",
}
"""The commands without `--json`, and why."""


class Scene(NamedTuple):
    """A dealer of its own folder, an installation, and ids for the commands. Each command has its own lead."""

    dealer: Filled
    installation: Path
    words: dict[str, tuple[str, ...]]


def commands(name: str = "", command: Any = None) -> Iterator[tuple[str, Any]]:
    """All commands by name, such as `leads list`."""
    command = command or typer.main.get_command(app)
    if not hasattr(command, "list_commands"):
        yield name.strip(), command
        return
    context: Any = None
    for inner in command.list_commands(context):
        yield from commands(f"{name} {inner}", command.get_command(context, inner))


AGENT_ORIGIN = f"https://{'shopping.' * 6}agent.example"

WITH_JSON = [
    name
    for name, command in commands()
    if name not in OTHER_FORM and any("--json" in each.opts for each in command.params)
]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    folder = tmp_path_factory.mktemp("output")
    dealer = filled_dealer(folder / "a-dealer")
    installation = folder / "platform"
    place = ("--dir", str(installation))
    succeed_here("init", installation, "--installation", "--public-url", "https://agents.example.com")
    for dealer_id in DEALERS:
        (folder / f"{dealer_id}.toml").write_text(dealer_toml(dealer_id), encoding="utf-8")
    (folder / "third.toml").write_text(dealer_toml("third-motors"), encoding="utf-8")
    (folder / "dealers.csv").write_text("id,name\nfourth-motors,Fourth Motors\n", encoding="utf-8")
    edited = folder / "edited.toml"
    edited.write_text(dealer_toml(DEALERS[1]).replace("South Motors", "Southern Motors"), encoding="utf-8")
    for dealer_id in DEALERS:
        succeed_here("dealers", "add", folder / f"{dealer_id}.toml", *place, "--note", "n" * 60)
    succeed_here("dealers", "host", "add", DEALERS[0], f"{'cars.' * 12}example.com", *place)
    return Scene(dealer, installation, words_of(dealer, folder, place, edited))


def record_reply(dealer: Filled) -> None:
    """Adds a reply to the record, as a service does."""
    asked = "token", "token:01KE7", "json-rpc", "1.3", "inventory.search", "", b"{}", bytes(32)
    settings = load_settings(dealer.folder, {})
    with Store.open(settings.database_url, settings.cipher) as store, store.write(settings.dealer.id) as tx:
        add_replies(tx, [ReplyRow(new_ulid(), *asked)], 1, "settings", b"{}", 10)


def words_of(dealer: Filled, folder: Path, place: tuple[str, ...], edited: Path) -> dict[str, tuple[str, ...]]:
    """The arguments with which each command succeeds."""
    now = datetime.now(UTC)
    here = ("--dir", str(dealer.folder))
    soon, later = quarter(now + timedelta(days=2)), quarter(now + timedelta(days=3))
    past = {"now": now - timedelta(days=2), "drive_at": quarter(now - timedelta(days=1))}
    numbered_stock = enumerate(STOCK)

    def lead(**members: Any) -> tuple[str, str]:
        """A lead of a new customer about another vehicle, so that each test drive is confirmed."""
        number, stock = next(numbered_stock)
        about: dict[str, Any] = {
            "vehicle_of_interest": {"stock": stock, "rooftop": SOUTH},
            "message": "Is it still there?",
        }
        lead_id, visit_id = dealer.take(customer=customer(number), **about, **members)
        return lead_id, visit_id or ""

    shown, _ = lead(drive_at=soon, trade_in={"year": 2018, "make": "Honda", "model": "Fit"})
    again, _ = lead()
    sent, *_ = dealer.settle(again, state="sent", settled_at=now, attempts=1, problem=PROBLEM)
    waiting, *_ = dealer.settle(lead()[0], attempts=3, problem=PROBLEM)
    undeliverable, *_ = dealer.settle(lead()[0], state="undeliverable", settled_at=now, attempts=9, problem=PROBLEM)
    requested = lead(appointment={"appointment_type": "test_drive"})[1]
    at = ("--at", later.isoformat())
    feed = folder / f"{'export-of-the-inventory-' * 3}.csv"
    feed.write_text("VIN,Stock,Make,Price\n1HGCY2F57RA000001,H1,Honda,28040\n", encoding="utf-8")
    hidden, released, priced = "H2", "H3", "H4"
    stock = folder / "stock.csv"
    stock.write_text(
        "VIN,Stock,Make,Price\n" + "".join(f",{unit},Honda,28040\n" for unit in ("H1", hidden, released, priced))
    )
    succeed_here("inventory", "import", stock, "--allow-shrink", "--accept", "columns_missing", *here)
    for unit in (hidden, released):
        succeed_here("inventory", "hide", unit, *here)
    evidence, keyless = folder / "evidence.jsonl", folder / "keyless"
    succeed_here("consent", "export", "customer0@example.com", "--out", evidence, *here)
    forgotten = "https://forgotten.example"
    for agent in (AGENT_ORIGIN, forgotten):
        succeed_here("agents", "block", agent, "--reason", "r" * 60, *here)
    held = [lead(caller=signed("https://doubtful.example"), quarantined=True)[0] for _ in range(3)]
    record_reply(dealer)
    quote, extended = dealer.hold("stock-h3")
    _, ended = dealer.hold("stock-h4")
    quote_file, key_file = folder / "quote.json", folder / "offer-keys.json"
    quote_file.write_text(json.dumps(quote))
    key_file.write_text(json.dumps({"keys": [QUOTE_SIGNER.public_key]}))
    agent_key = folder / "agent.pem"
    succeed_here("keys", "directory", "--new", agent_key)
    revoked = succeed_here("tokens", "create", "B" * 60, *here).split("_")[1]
    keyless.mkdir(mode=0o700)
    (keyless / "dealer.toml").write_text((dealer.folder / "dealer.toml").read_text())
    return {
        "doctor": here,
        "backup": (str(folder / "backup.tar"), *here),
        "report": here,
        "feeds host-key": here,
        "feeds list": here,
        "feeds show": (FEED, *here),
        "feeds files": here,
        "alerts list": here,
        "alerts history": here,
        "inventory import": (str(feed), "--allow-shrink", "--accept", "columns_missing", *here),
        "inventory history": here,
        "inventory held": here,
        "inventory release": (released, *here),
        "inventory hide": (hidden, *here),
        "inventory undo": ("--dry-run", *here),
        "inventory list": here,
        "inventory show": (released, *here),
        "price": ("H1", "--zip", "84115", *here),
        "record price": (priced, "--at", datetime.now(UTC).isoformat(), *here),
        "record history": (priced, *here),
        "record replies": here,
        "keys create": ("--dir", str(keyless)),
        "keys list": here,
        "keys rotate": ("--forget-old", *here),
        "keys confirm-copy": here,
        "keys directory": (str(agent_key), "--as", AGENT_ORIGIN),
        "leads list": here,
        "leads show": (shown, *here),
        "leads erase": (lead(drive_at=soon)[0], "--yes", *here),
        "leads dispose": ("--dry-run", *here),
        "leads quarantined": here,
        "leads release": (held[0], *here),
        "leads refuse": (held[1], "--reason", "r" * 60, *here),
        "leads mark": (shown, "wrong", *here),
        "appointments list": here,
        "appointments arrange": (lead()[0], *at, "--kind", "test_drive", *here),
        "appointments confirm": (requested, *at, *here),
        "appointments move": (lead(drive_at=soon)[1], *at, *here),
        "appointments done": (lead(**past)[1], *here),
        "appointments no-show": (lead(**past)[1], *here),
        "appointments cancel": (lead(drive_at=soon)[1], *here),
        "offers list": here,
        "offers show": (extended, *here),
        "offers extend": (extended, "--hours", "24", *here),
        "offers end": (ended, "--reason", "r" * 60, *here),
        "offers verify": (str(quote_file), "--keys", str(key_file)),
        "deliveries list": here,
        "deliveries show": (waiting, *here),
        "deliveries retry": (undeliverable, *here),
        "deliveries send-again": (sent, *here),
        "consent show": (shown, *here),
        "consent revoke": (lead()[0], "--channel", "email", *here),
        "consent prove": ("customer0@example.com", *here),
        "consent export": ("customer0@example.com", "--out", str(folder / "again.jsonl"), *here),
        "consent verify": here,
        "consent head": here,
        "accesses list": here,
        "dealers add": (str(folder / "third.toml"), *place),
        "dealers add-table": (str(folder / "third.toml"), str(folder / "dealers.csv"), *place),
        "dealers list": place,
        "dealers show": (DEALERS[0], *place),
        "dealers edit": (DEALERS[1], "--file", str(edited), *place),
        "dealers history": (DEALERS[0], *place),
        "dealers host add": (DEALERS[1], "south.example.com", *place),
        "dealers host list": place,
        "tokens create": ("A Shopping Agent", *here),
        "tokens list": here,
        "tokens revoke": (revoked, *here),
        "agents list": here,
        "agents show": (AGENT_ORIGIN, *here),
        "agents allow": (AGENT_ORIGIN, *here),
        "agents limit": (AGENT_ORIGIN, "--rate", "inventory.search=1/minute", "--reason", "r" * 60, *here),
        "agents quarantine": (AGENT_ORIGIN, *here),
        "agents block": (AGENT_ORIGIN, *here),
        "agents forget": (forgotten, *here),
        "console invite": ("sam@example.com", "--role", "sales", *here),
        "console people": here,
        "console remove": ("sam@example.com", *here),
    }


def test_every_command_has_json_or_another_form_for_scripts() -> None:
    without = {name for name, _ in commands()} - set(WITH_JSON)
    assert without == set(OTHER_FORM)


@pytest.mark.parametrize("name", WITH_JSON)
def test_a_command_prints_one_json_document_with_the_documented_fields(scene: Scene, name: str) -> None:
    done = command_here(*name.split(), *scene.words[name], "--json")
    # The doctor of a dealer without a service finds problems.
    assert done.returncode in ((0, 1) if name == "doctor" else (0,)), done.stderr
    document = json.loads(done.stdout)
    described = documented(name)
    found = fields(document, described)
    wrong = {path: kinds for path, kinds in found.items() if not kinds <= described.get(path, set())}
    assert wrong == {}, f"docs/reference/json.md says otherwise: {described}"
    needed = {path for path, kinds in described.items() if "absent" not in kinds}
    assert needed - set(found) == set(), "docs/reference/json.md describes fields that are not there"


def kind_of(value: Any) -> str:
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?[+-]\d\d:\d\d", value):
        return "time"
    names = {type(None): "null", bool: "true or false", int: "number", str: "text", list: "list", dict: "object"}
    return names[type(value)]


def fields(document: Any, described: dict[str, set[str]], path: str = "") -> dict[str, set[str]]:
    """The kinds of values at each path. An object of which no member is described is not looked into."""
    found: dict[str, set[str]] = {}
    inner = document if isinstance(document, list) else [document]
    for value in inner:
        if not isinstance(value, dict):
            continue
        for name, member in value.items():
            here = f"{path}{name}"
            found.setdefault(here, set()).add(kind_of(member))
            below = f"{here}[]." if isinstance(member, list) else f"{here}."
            if any(each.startswith(below) for each in described):
                for deeper, kinds in fields(member, described, below).items():
                    found.setdefault(deeper, set()).update(kinds)
    return found


def documented(name: str) -> dict[str, set[str]]:
    """The fields of a command in docs/reference/json.md: the kinds of values by path."""
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", REFERENCE.read_text("utf-8"), re.MULTILINE | re.DOTALL))
    if same := re.search("those of `dealer-agent ([^`]+)`", sections[f"dealer-agent {name}"]):
        return documented(same[1])
    rows = re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", sections[f"dealer-agent {name}"], re.MULTILINE)
    return {path: {kind.strip() for kind in kinds.split(",")} for path, kinds in rows}


def test_no_other_command_is_documented_as_json() -> None:
    titles = re.findall(r"^## dealer-agent (.+)$", REFERENCE.read_text("utf-8"), re.MULTILINE)
    assert titles == WITH_JSON


TABLES = (
    "doctor", "report", "price", "record history", "offers list --all",
    "accesses list", "appointments list --all --past 30", "deliveries list", "inventory history", "inventory held",
    "inventory list", "keys list",
          "leads list", "leads list Maximiliana", "leads show", "tokens list", "agents list", "agents show",
          "consent show", "deliveries show", "feeds list", "feeds files", "alerts list", "alerts history")  # fmt: skip
OF_INSTALLATION = ("dealers list", "dealers history", "dealers host list")


@pytest.mark.parametrize("line", [*TABLES, *OF_INSTALLATION])
def test_a_table_with_long_values_fits_a_terminal_of_80_columns(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    words = line.split()
    name = next(name for name in scene.words if f"{line} ".startswith(f"{name} "))
    printed = on_terminal([*words, *scene.words[name]], monkeypatch, columns=80)
    too_wide = [text for text in printed.splitlines() if cell_len(text) > 80 and ("\u2502" in text or len(words) == 1)]
    assert too_wide == []
    ids = re.findall(r"\b01[0-9A-HJKMNP-TV-Z]{24}\b", printed)
    if line == "leads list":
        assert len(ids) >= 10, "no id is cut"


def on_terminal(words: list[str], monkeypatch: pytest.MonkeyPatch, columns: int) -> str:
    """What a command prints on a terminal with so many columns."""
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    leader, follower = pty.openpty()
    printed = bytearray()
    with os.fdopen(follower, "w", encoding="utf-8") as terminal, redirect_stdout(terminal):
        reading = reader(leader, printed)
        with suppress(SystemExit):
            app(words, prog_name="dealer-agent")
    reading()
    return re.sub(r"\x1b\[[0-9;]*m", "", printed.decode()).replace("\r\n", "\n")


def reader(leader: int, printed: bytearray) -> Callable[[], None]:
    """Reads a terminal in a thread, because it holds a few thousand bytes only. Returns what waits for its end."""
    from threading import Thread

    def read() -> None:
        with suppress(OSError):  # The end of a terminal.
            while chunk := os.read(leader, 65536):
                printed.extend(chunk)
        os.close(leader)

    thread = Thread(target=read)
    thread.start()
    return thread.join


def test_without_a_terminal_each_row_is_one_line_at_any_width(scene: Scene) -> None:
    here = ("deliveries", "list", *scene.words["deliveries list"])
    narrow, wide = (command_here(*here, COLUMNS=columns).stdout for columns in ("40", "300"))
    assert narrow == wide
    rows = [line for line in narrow.splitlines() if PROBLEM in line]
    assert rows
    assert all(SOUTH in row or "North" in row for row in rows)


def test_times_are_those_of_the_rooftop(scene: Scene) -> None:
    shown = command_here("appointments", "list", *scene.words["appointments list"]).stdout
    assert re.search(r"\d\d:\d\d C[SD]T", shown), shown
    listed = json.loads(command_here("leads", "list", "--json", *scene.words["leads list"]).stdout)
    offsets = {each["received"][-6:] for each in listed if each["rooftop"] == SOUTH}
    assert offsets <= {"-06:00", "-05:00"}
    assert offsets


EXIT_CODES = [
    (("leads", "list"), 0),
    (("leads", "show", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "--json"), 1),
    (("appointments", "move", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "--at", "2126-01-01 10:00", "--json"), 1),
    (("deliveries", "show", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "--json"), 1),
    (("tokens", "revoke", "nothing", "--json"), 1),
    (("leads", "list", "--state", "lost", "--json"), 2),
    (("appointments", "move", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "--at", "soon", "--json"), 2),
    (("price", "H99", "--json"), 1),
    (("price", "H1", "--zip", "99", "--json"), 2),
    (("leads", "lst"), 2),
    (("leads", "list", "--since", "2026-03-02", "--until", "2026-03-01", "--json"), 2),
]


@pytest.mark.parametrize(("words", "code"), EXIT_CODES, ids=[" ".join(words) for words, _ in EXIT_CODES])
def test_exit_codes_and_errors_are_those_of_every_command(scene: Scene, words: tuple[str, ...], code: int) -> None:
    here = () if "lst" in words else ("--dir", scene.dealer.folder)
    done = command_here(*words, *here)
    assert done.returncode == code
    assert bool(done.stderr) == (code != 0)
    assert code == 0 or done.stdout == ""
