"""`leads erase | export | dispose`, `consent` and `accesses`: what a dealership does with its customers' data.

The service takes the leads, the real commands do the rest, on both databases (16 CFR 310.5 and 314).
"""

import csv
import fcntl
import io
import itertools
import json
import os
import pty
import pwd
import re
import sqlite3
import stat
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from lxml import etree
from tests.acceptance.asking import ask, asked, lead
from tests.acceptance.dealers import HONDA_VIN, stocked_dealer
from tests.acceptance.running import COMMAND, Running, command_here, environment, eventually, serving
from tests.published_files import ADF_DTD
from tests.soak import SQLITE_FIRST
from tests.storage.databases import fresh_schema
from tests.storage.samples import consent as sample_consent
from tests.storage.samples import lead as sample_lead
from typer.testing import CliRunner

from dealer_agent.cli import app
from dealer_agent.config import load_settings
from dealer_agent.jobs.loop import LOOK_SECONDS
from dealer_agent.storage.leads.stored_leads import record_lead
from dealer_agent.storage.store import Store

USER = pwd.getpwuid(os.getuid()).pw_name
DELIVER = """
[[rooftops.deliver.directory]]
name = "inbox"
path = "inbox"
"""

OLD_LEAD, OLD_CONTACT = "01E00000000000000000000001", "email:sam@example.com"

_numbers = itertools.count(8000)


class SampleDealer:
    """A service on one of the databases, and the commands that work on the same."""

    def __init__(self, running: Running, database: str) -> None:
        self.running = running
        self.database = database
        self.since = time.monotonic()

    @property
    def folder(self) -> Path:
        return self.running.folder

    def run(self, *arguments: str | Path, user: str = USER) -> subprocess.CompletedProcess[str]:
        """A command, with a user of this name in its environment."""
        return command_here(
            *arguments, "--dir", self.folder, DATABASE_URL=self.database, USER=user, LOGNAME=user, USERNAME=user
        )

    def said(self, *arguments: str | Path) -> str:
        """What a command that must work printed."""
        done = self.run(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def take(self, number: int | None = None, **members: Any) -> tuple[str, str]:
        """A lead of a new customer, or of the one of a number; its id and the customer's e-mail address."""
        number = next(_numbers) if number is None else number
        answered = asked(self.running.url, "lead.submit", **lead(number, **members))
        return answered["lead_id"], f"robin{number}@example.com"

    def execute(self, statement: str) -> None:
        """One statement on the database, behind the service's back."""
        if self.database.startswith("postgresql"):
            with psycopg.connect(self.database, autocommit=True) as connection:
                connection.execute(statement.encode())
        else:
            with closing(sqlite3.connect(self.database.removeprefix("sqlite:///"), timeout=30)) as database, database:
                database.execute(statement)

    def wait_for_own_disposal(self) -> None:
        """Waits until the service has disposed of OLD_LEAD. A command that disposes earlier would do it instead."""
        eventually("the disposal is logged", lambda: "customer data forgotten" in self.running.stderr())

    def accesses(self) -> list[str]:
        """The lines of the access log, newest first."""
        return [line for line in self.said("accesses", "list", "--limit", "1000").splitlines() if USER in line]


def sample_dealer_on(folder: Path, database: str) -> Iterator[SampleDealer]:
    stocked_dealer(folder, DATABASE_URL=database)
    toml = folder / "dealer.toml"
    first, second, rest = toml.read_text().partition('[[rooftops]]\nname = "Acceptance Motors South"')
    toml.write_text(first + DELIVER + second + rest)
    keep_old_lead(folder, database, OLD_LEAD, years=3)
    with serving(folder, workers=2, DATABASE_URL=database) as running:
        eventually("two workers are up", lambda: len(running.workers()) == 2)
        yield SampleDealer(running, database)


def keep_old_lead(folder: Path, database: str, lead_id: str, *, years: int) -> None:
    """A lead that nobody used for so many years."""
    settings = load_settings(folder, {"DATABASE_URL": database})
    at = datetime.now(UTC) - timedelta(days=years * 366)
    payload = json.dumps({"type": "lead.submit.request", **lead()}).encode()
    record = sample_lead(lead_id, at, payload=payload)
    with Store.open(settings.database_url, settings.cipher) as store, closing(store.lead_writer()) as writer:
        store.check_keys(settings.dealer.id)
        job = partial(
            record_lead,
            lead=record,
            consent=sample_consent(at),
            contacts=[OLD_CONTACT],
            vehicle_key=None,
        )
        writer.submit(settings.dealer.id, job).result()


@pytest.fixture(scope="module", params=SQLITE_FIRST)
def sample_dealer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SampleDealer]:
    folder = tmp_path_factory.mktemp("privacy") / "store"
    if request.param == "sqlite":
        yield from sample_dealer_on(folder, f"sqlite:///{folder}/dealer.db")
        return
    server: str = request.getfixturevalue("postgresql_server")
    with fresh_schema(server) as url:
        yield from sample_dealer_on(folder, url)


# --- Looking ---


def test_a_lead_is_shown_with_its_rooftop_visit_consent_and_deliveries(sample_dealer: SampleDealer) -> None:
    visit = {"appointment_type": "service", "notes": "After work, please."}
    lead_id, email = sample_dealer.take(
        appointment=visit, vehicle_of_interest={"vin": HONDA_VIN}, trade_in={"make": "Mazda"}
    )
    eventually("it is delivered", lambda: "1 sent" in line_of(lead_id, sample_dealer.said("leads", "list")))
    line = line_of(lead_id, sample_dealer.said("leads", "list"))
    assert all(told in line for told in ("Robin Example", "Acceptance Motors North", "Acceptance Agent", "requested"))
    shown = sample_dealer.said("leads", "show", lead_id)
    for told in (
        email,
        "Acceptance Motors North",
        "service, requested",
        "After work, please.",
        "granted",
        "Share my details with this dealer.",
        "lead_submission",
        "Mazda",
        "Accord Hybrid",
        "inbox",
        "sent",
    ):
        assert told in shown, told


def test_on_a_narrow_terminal_the_list_is_still_a_table(sample_dealer: SampleDealer) -> None:
    if sample_dealer.database.startswith("postgresql"):
        pytest.skip("the terminal is the same")
    lead_id, _ = sample_dealer.take(vehicle_of_interest={"vin": HONDA_VIN})
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    with os.fdopen(ours, "rb", buffering=0) as screen, os.fdopen(theirs, "wb") as terminal:
        subprocess.run(
            [COMMAND, "leads", "list", "--limit", "1", "--dir", sample_dealer.folder],
            env=environment({"DATABASE_URL": sample_dealer.database, "COLUMNS": "80", "TERM": "dumb"}),
            stdout=terminal,
            timeout=240,
            check=True,
        )
        shown = screen.read(65536).decode()
    assert lead_id in shown
    assert max(map(len, shown.splitlines())) <= 80
    # No word is broken: those of the customer, the vehicle (its stock number), the rooftop and the agent.
    for word in ("Example", "H1", "Acceptance", "Motors", "Agent"):
        assert re.search(rf"\b{word}", shown), shown


@pytest.mark.parametrize(
    ("words", "action"),
    [
        (("leads", "list"), "leads list"),
        (("leads", "show", "LEAD"), "leads show"),
        (("consent", "show", "LEAD"), "consent show"),
        (("consent", "revoke", "LEAD", "--reason", "asked to"), "consent revoke"),
        (("leads", "export"), "leads export"),
        (("leads", "export", "--format", "json"), "leads export"),
        (("leads", "export", "--format", "adf"), "leads export"),
        (("leads", "erase", "LEAD", "--yes"), "leads erase"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_look_at_customer_data_is_in_the_access_log_with_the_user(
    sample_dealer: SampleDealer, words: tuple[str, ...], action: str
) -> None:
    """16 CFR 314.4(c)(8). The user is the operating system's, whatever the environment says."""
    lead_id, _ = sample_dealer.take()
    before = len(sample_dealer.accesses())
    called = (lead_id if word == "LEAD" else word for word in words)
    done = sample_dealer.run(*called, user="somebody-else")
    assert done.returncode == 0, done.stderr
    newest, *others = sample_dealer.accesses()
    assert len(others) == before
    assert USER in newest
    assert action in newest
    assert "somebody-else" not in newest
    assert (lead_id in newest) == ("LEAD" in words)


def test_the_access_log_says_how_many_leads_were_looked_at(sample_dealer: SampleDealer) -> None:
    for _ in range(3):
        sample_dealer.take()
    sample_dealer.said("leads", "list", "--limit", "3")
    assert sample_dealer.accesses()[0].split()[-1] == "3"


@contextmanager
def access_log_away(sample_dealer: SampleDealer) -> Iterator[None]:
    sample_dealer.execute("ALTER TABLE accesses RENAME TO accesses_away")
    try:
        yield
    finally:
        sample_dealer.execute("ALTER TABLE accesses_away RENAME TO accesses")


@pytest.mark.parametrize(
    "words",
    [
        ("leads", "list"),
        ("leads", "show", "LEAD"),
        ("consent", "show", "LEAD"),
        ("consent", "revoke", "--email", "EMAIL"),
        ("leads", "export"),
        ("leads", "export", "--format", "json"),
        ("leads", "export", "--format", "adf"),
        ("leads", "export", "--out", "FILE"),
        ("leads", "erase", "--email", "EMAIL", "--yes"),
    ],
    ids=" ".join,
)
def test_nothing_is_shown_and_nothing_is_done_when_the_access_cannot_be_logged(
    sample_dealer: SampleDealer, tmp_path: Path, words: tuple[str, ...]
) -> None:
    lead_id, email = sample_dealer.take(message="A message to look at.")
    places = {"LEAD": lead_id, "EMAIL": email, "FILE": str(tmp_path / "leads.csv")}
    with access_log_away(sample_dealer):
        done = sample_dealer.run(*(places.get(word, word) for word in words))
    assert done.returncode == 1
    assert "access log" in done.stderr
    for told in (email, "Robin", "A message", "Share my details"):
        assert told not in done.stdout + done.stderr
    assert not list(tmp_path.iterdir())
    shown = sample_dealer.said("leads", "show", lead_id)
    assert email in shown
    assert "revoked" not in shown


def test_without_the_key_nothing_is_shown(sample_dealer: SampleDealer) -> None:
    """A lost key is a plain refusal, not a table of ciphertext."""
    lead_id, _ = sample_dealer.take()
    key = sample_dealer.folder / "dealer-agent.keys"
    away = key.rename(sample_dealer.folder / "away.keys")
    try:
        for words in (("leads", "list"), ("leads", "show", lead_id), ("leads", "export"), ("consent", "verify")):
            done = sample_dealer.run(*words)
            assert done.returncode == 1, words
            assert "key" in done.stderr
            assert not done.stdout
    finally:
        away.rename(key)


# --- Erasing ---


@pytest.mark.parametrize("by", ["email", "phone", "lead"])
def test_a_person_is_erased_by_address_number_or_lead(sample_dealer: SampleDealer, by: str) -> None:
    number = next(_numbers)
    customer = {
        "first_name": "Erasmus",
        "last_name": f"Gone{number}",
        "email": f"Erasmus.{number}@example.com",
        "phone": f"+1 202 555 {number % 100 + 100:04}",
    }
    first, _ = sample_dealer.take(number, customer=customer, message="Forget me.")
    second, _ = sample_dealer.take(number, customer=customer, vehicle_of_interest={"vin": HONDA_VIN})
    assert first != second
    told = {
        "email": ("--email", f"ERASMUS.{number}@EXAMPLE.com"),
        "phone": ("--phone", f"(202) 555-{number % 100 + 100:04}"),
        "lead": (first,),
    }[by]
    done = sample_dealer.said("leads", "erase", *told, "--yes")
    gone = [first] if by == "lead" else [first, second]
    assert all(lead_id in done for lead_id in gone)
    assert "16 CFR 310.5" in done, "it does not say why anything is kept"
    for lead_id in gone:
        shown = sample_dealer.said("leads", "show", lead_id)
        assert "erased" in shown
        # Whole values only: a short number may occur in a random id.
        for personal in ("Erasmus", f"Gone{number}", "Forget me", "202 555", "202555", "Share my details"):
            assert personal not in shown
        assert "erased" in line_of(lead_id, sample_dealer.said("leads", "list"))
    kept = sample_dealer.said("leads", "show", second)
    if by == "lead":
        assert "Erasmus" in kept
        assert second in done, "it does not say that the same customer has another lead"
    assert "whole" in sample_dealer.said("consent", "verify")


def test_the_table_counts_what_was_erased(sample_dealer: SampleDealer) -> None:
    number = next(_numbers)
    lead_id, email = sample_dealer.take(number, message="First.")
    same, _ = sample_dealer.take(number, message="Second.")
    assert same == lead_id
    done = sample_dealer.said("leads", "erase", "--email", email, "--yes")
    assert "Robin Example" in done
    assert re.search(r"Consents: .*\b2\b", done), done
    assert re.search(r"Additions .*\b1\b", done), done


def test_an_erased_person_may_come_back_as_a_new_lead(sample_dealer: SampleDealer) -> None:
    """A later lead of the same address is no duplicate of what was forgotten."""
    number = next(_numbers)
    first, email = sample_dealer.take(number)
    sample_dealer.said("leads", "erase", "--email", email, "--yes")
    again, _ = sample_dealer.take(number)
    assert again != first
    assert email in sample_dealer.said("leads", "show", again)
    assert email not in sample_dealer.said("leads", "show", first)


def test_erasing_asks_first_and_a_no_leaves_everything(sample_dealer: SampleDealer) -> None:
    lead_id, email = sample_dealer.take()
    for answer, code in (("n\n", 1), ("", 1), ("y\n", 0)):
        done = CliRunner().invoke(
            app,
            ["leads", "erase", "--email", email, "--dir", str(sample_dealer.folder)],
            answer,
            {"DATABASE_URL": sample_dealer.database},
        )
        assert done.exit_code == code, done.output
        assert "Robin" in done.stdout, "who is asked cannot see who it is"
        assert (email in sample_dealer.said("leads", "show", lead_id)) == (code == 1)


def test_what_a_person_sends_while_the_question_is_read_is_erased_too(sample_dealer: SampleDealer) -> None:
    """And `-` keeps the address out of the list of processes and the shell's history."""
    number = next(_numbers)
    first, email = sample_dealer.take(number)
    looks = len(sample_dealer.accesses())
    command = [COMMAND, "leads", "erase", "--email", "-", "--dir", str(sample_dealer.folder)]
    told = environment({"DATABASE_URL": sample_dealer.database, "USER": USER, "LOGNAME": USER, "USERNAME": USER})
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=told, text=True) as asking:
        assert asking.stdin is not None
        assert asking.stdout is not None
        asking.stdin.write(f"{email}\n")
        asking.stdin.flush()
        eventually("the person is shown", lambda: len(sample_dealer.accesses()) > looks)
        second, _ = sample_dealer.take(number, vehicle_of_interest={"vin": "1FTFW1E50PFA00002"})
        assert second != first
        asking.stdin.write("y\n")
        asking.stdin.close()
        said = asking.stdout.read()
    assert asking.returncode == 0
    assert re.search(r"Leads: names.* 2\b", said), said
    for lead_id in (first, second):
        assert email not in sample_dealer.said("leads", "show", lead_id)


def test_erasing_twice_succeeds_and_erasing_an_unknown_person_fails(sample_dealer: SampleDealer) -> None:
    lead_id, email = sample_dealer.take()
    sample_dealer.said("leads", "erase", lead_id, "--yes")
    assert "was erased before" in sample_dealer.said("leads", "erase", lead_id, "--yes")
    for words in (("--email", email), ("--phone", "+1 202 555 0199"), ("01KE7AQ2N0V5X3J8R6T4Y9W1ZA",)):
        done = sample_dealer.run("leads", "erase", *words, "--yes")
        assert done.returncode == 1
        assert done.stderr.startswith("Error: ")


def test_a_lead_that_was_changed_in_the_database_is_named_and_can_be_erased(sample_dealer: SampleDealer) -> None:
    """Until then it stops every list, every export and the key rotation."""
    lead_id, _ = sample_dealer.take()
    other, _ = sample_dealer.take()
    sample_dealer.execute(
        f"UPDATE leads SET customer = (SELECT o.customer FROM leads AS o WHERE o.lead_id = '{other}') "
        f"WHERE lead_id = '{lead_id}'"
    )
    listed = sample_dealer.run("leads", "list")
    assert listed.returncode == 1
    assert f"(leads.customer of {lead_id})" in listed.stderr
    assert "is erased" in sample_dealer.said("leads", "erase", lead_id, "--yes")
    assert other in sample_dealer.said("leads", "list")
    assert "whole" in sample_dealer.said("consent", "verify")


@pytest.mark.requirement("withdrawal-checked")
def test_withdrawals_that_were_deleted_by_hand_are_found_and_written_again(sample_dealer: SampleDealer) -> None:
    """Meanwhile a later lead with an old consent does not allow what the customer withdrew."""
    # The service repairs the table itself before it records the heads, at its start.
    eventually("the heads are recorded", lambda: "chain head" in sample_dealer.running.stderr())
    agreed = datetime.now(UTC).isoformat()
    number = next(_numbers)
    points = {"email": f"robin{number}@example.com", "phone": f"+1202555{number % 100 + 100:04}"}
    asking = lead(number, customer={"first_name": "Robin", "last_name": "Example"} | points)
    asking["consent"] |= {"granted_at": agreed, "allowed_channels": ["email", "phone"]}
    first = asked(sample_dealer.running.url, "lead.submit", **asking)["lead_id"]
    sample_dealer.said("consent", "revoke", first, "--channel", "phone")
    sample_dealer.execute("DELETE FROM withdrawals")
    verified, examined = sample_dealer.run("consent", "verify"), sample_dealer.run("doctor")
    assert (verified.returncode, examined.returncode) == (1, 1)
    for output in (verified.stderr, examined.stdout):
        told = " ".join(output.split())
        assert "the table of withdrawals does not agree with the consent record" in told
        assert re.search(r"dealer-agent consent verify (--dir \S+ )?--restore-withdrawals", told)
    second = asked(sample_dealer.running.url, "lead.submit", **asking | {"source_agent": "Another Agent"})["lead_id"]
    assert "May be contacted now by: email\n" in sample_dealer.said("consent", "show", second)
    assert "written again" in sample_dealer.said("consent", "verify", "--restore-withdrawals")
    assert "whole" in sample_dealer.said("consent", "verify")


@pytest.mark.parametrize("verb", [("leads", "erase"), ("consent", "revoke")], ids=" ".join)
@pytest.mark.parametrize(
    "words",
    [
        (),
        ("01KE7AQ2N0V5X3J8R6T4Y9W1ZA", "--email", "a@example.com"),
        ("--email", "a@example.com", "--phone", "+12025550123"),
        ("--email", "nobody"),
        ("--phone", "12"),
        ("--nickname", "Robin"),
    ],
    ids=" ".join,
)
def test_it_must_be_said_in_one_way_who_is_meant(folder: Path, verb: tuple[str, ...], words: tuple[str, ...]) -> None:
    done = command_here(*verb, *words, "--dir", folder)
    assert done.returncode == 2
    assert not done.stdout


# --- Exporting ---


def test_csv_is_a_table_that_no_cell_of_a_buyers_can_turn_into_a_formula(sample_dealer: SampleDealer) -> None:
    customer = {"first_name": "=cmd|'/c calc'!A1", "last_name": "@SUM(1)", "phone": "+1 202 555 0123"}
    lead_id, _ = sample_dealer.take(
        customer=customer,
        consent=lead()["consent"] | {"allowed_channels": ["phone"]},
        message='-2+3, "quoted", \n=HYPERLINK("https://evil.example")',
        trade_in={"make": "\t=1+1", "model": "+1"},
    )
    text = sample_dealer.said("leads", "export", "--format", "csv")
    rows = {row["lead_id"]: row for row in csv.DictReader(io.StringIO(text))}
    row = rows[lead_id]
    assert row["first_name"] == "'=cmd|'/c calc'!A1"
    assert row["last_name"] == "'@SUM(1)"
    assert row["phone"] == "'+12025550123"
    assert row["message"].startswith("'-2+3")
    for each in rows.values():
        for name, cell in each.items():
            assert not cell.startswith(("=", "+", "-", "@", "\t", "\r")), name


def test_json_is_one_array_of_the_leads(sample_dealer: SampleDealer) -> None:
    lead_id, email = sample_dealer.take(message="Grüße 🚗 \x1b]0;owned\x07")
    text = sample_dealer.said("leads", "export", "--format", "json")
    assert text.isascii()
    assert "\x1b" not in text
    leads = json.loads(text)
    (mine,) = [each for each in leads if each["lead_id"] == lead_id]
    assert mine["customer"]["email"] == email
    assert mine["messages"] == ["Grüße 🚗 \x1b]0;owned\x07"]
    assert text.count("\n") == len(leads) + 2


def test_adf_is_one_valid_document_with_a_prospect_for_each_lead(sample_dealer: SampleDealer) -> None:
    lead_id, email = sample_dealer.take(message="]]> & <b>", vehicle_of_interest={"vin": HONDA_VIN})
    document = etree.fromstring(sample_dealer.said("leads", "export", "--format", "adf").encode())
    ids = [element.text for element in document.iterfind("prospect/id")]
    exported = csv.DictReader(io.StringIO(sample_dealer.said("leads", "export")))
    assert ids == [row["lead_id"] for row in exported]
    assert lead_id in ids
    assert email in [element.text for element in document.iterfind("prospect/customer/contact/email")]
    if ADF_DTD.exists():
        with ADF_DTD.open("rb") as file:
            etree.DTD(file).assertValid(document)


@pytest.mark.parametrize("form", ["csv", "json", "adf"])
def test_a_file_is_its_owners_alone_and_takes_the_place_of_an_older_one_whole(
    sample_dealer: SampleDealer, tmp_path: Path, form: str
) -> None:
    sample_dealer.wait_for_own_disposal()  # It would be between the two exports.
    lead_id, _ = sample_dealer.take()
    path = tmp_path / f"leads.{form}"
    path.write_text("old")
    path.chmod(0o644)
    done = sample_dealer.run("leads", "export", "--format", form, "--out", path)
    assert done.returncode == 0, done.stderr
    assert not done.stdout
    assert "leads written" in done.stderr
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert lead_id in path.read_text("utf-8-sig")
    assert list(tmp_path.iterdir()) == [path]
    written = path.read_bytes()
    assert written.startswith(b"\xef\xbb\xbf") == (form == "csv"), "by this mark Excel knows UTF-8"
    piped = sample_dealer.said("leads", "export", "--format", form)
    assert written.removeprefix(b"\xef\xbb\xbf").decode().replace("\r\n", "\n") == piped


def test_an_export_that_cannot_be_finished_leaves_no_file(sample_dealer: SampleDealer, tmp_path: Path) -> None:
    for place in (tmp_path / "absent" / "leads.csv", tmp_path, Path("/dev/null")):
        done = sample_dealer.run("leads", "export", "--out", place)
        assert done.returncode == 2, done.stderr
    assert Path("/dev/null").is_char_device()
    assert not list(tmp_path.iterdir())


def test_an_export_of_some_days_and_without_the_erased(sample_dealer: SampleDealer) -> None:
    kept, _ = sample_dealer.take()
    gone, email = sample_dealer.take()
    sample_dealer.said("leads", "erase", "--email", email, "--yes")
    today, tomorrow = datetime.now(UTC), datetime.now(UTC) + timedelta(days=1)
    for words, there in (
        ((), True),
        (("--since", f"{today - timedelta(days=1):%Y-%m-%d}", "--until", f"{tomorrow:%Y-%m-%d}"), True),
        (("--since", f"{tomorrow:%Y-%m-%d}"), False),
        (("--until", f"{today - timedelta(days=1):%Y-%m-%d}"), False),
    ):
        rows = list(csv.DictReader(io.StringIO(sample_dealer.said("leads", "export", *words))))
        ids, times = ([row[name] for row in rows] for name in ("lead_id", "received_at"))
        assert (kept in ids) == there
        assert gone not in ids
        assert times == sorted(times)


def test_an_export_without_leads_says_so(sample_dealer: SampleDealer) -> None:
    late = ("--since", "2999-01-01")
    assert sample_dealer.said("leads", "export", *late).startswith("lead_id,received_at,")
    assert json.loads(sample_dealer.said("leads", "export", "--format", "json", *late)) == []
    before = sample_dealer.accesses()
    done = sample_dealer.run("leads", "export", "--format", "adf", *late)
    assert done.returncode == 1
    assert "no lead" in done.stderr
    assert sample_dealer.accesses() == before


@pytest.mark.parametrize(
    "words",
    [
        ("--format", "xls"),
        ("--since", "yesterday"),
        ("--since", "2026-13-01"),
        ("--since", "2026-02-02", "--until", "2026-02-01"),
    ],
    ids=" ".join,
)
def test_an_export_that_is_asked_for_wrongly_is_a_usage_error(folder: Path, words: tuple[str, ...]) -> None:
    done = command_here("leads", "export", *words, "--dir", folder)
    assert done.returncode == 2
    assert not done.stdout


# --- Consent ---


def test_a_revoked_channel_is_not_allowed_any_more_until_the_customer_agrees_again(sample_dealer: SampleDealer) -> None:
    number = next(_numbers)
    granted = lead(number)["consent"] | {"allowed_channels": ["email", "phone", "sms"]}
    lead_id, email = sample_dealer.take(number, consent=granted)
    assert "by: email, phone, sms" in sample_dealer.said("consent", "show", lead_id)
    said = sample_dealer.said(
        "consent", "revoke", lead_id, "--channel", "phone", "--channel", "sms", "--reason", "Called us"
    )
    assert "email" in line_of(lead_id, said)
    assert "phone" not in line_of(lead_id, said)
    shown = sample_dealer.said("consent", "show", lead_id)
    assert all(told in shown for told in ("granted", "revoked", "Called us", USER, "by: email"))
    sample_dealer.said("consent", "revoke", "--email", email.upper())
    assert "by: no channel" in sample_dealer.said("consent", "show", lead_id)
    again = lead(number, message="The agent sends the old consent again.", consent=granted)
    assert ask(sample_dealer.running.url, "lead.submit", **again).status_code == 403
    assert "by: no channel" in sample_dealer.said("consent", "show", lead_id)
    anew = granted | {"allowed_channels": ["email"], "granted_at": datetime.now(UTC).isoformat()}
    sample_dealer.take(number, message="Write to me after all.", consent=anew)
    assert "by: email\n" in sample_dealer.said("consent", "show", lead_id)
    assert "whole" in sample_dealer.said("consent", "verify")


def test_a_person_revokes_in_every_lead(sample_dealer: SampleDealer) -> None:
    number = next(_numbers)
    first, email = sample_dealer.take(number)
    second, _ = sample_dealer.take(number, vehicle_of_interest={"vin": HONDA_VIN})
    said = sample_dealer.said("consent", "revoke", "--email", email)
    for lead_id in (first, second):
        assert "no channel" in line_of(lead_id, said)
        assert "by: no channel" in sample_dealer.said("consent", "show", lead_id)


def test_there_is_nothing_to_revoke_of_a_person_who_is_erased(sample_dealer: SampleDealer) -> None:
    lead_id, email = sample_dealer.take()
    sample_dealer.said("leads", "erase", lead_id, "--yes")
    for words in ((lead_id,), ("--email", email)):
        assert sample_dealer.run("consent", "revoke", *words).returncode == 1
    assert "by: no channel" in sample_dealer.said("consent", "show", lead_id)


@pytest.mark.parametrize(
    "tamper",
    [
        "UPDATE consent_events SET channels = {changed} WHERE number = {number}",
        "UPDATE consent_events SET purpose = 'another purpose' WHERE number = {number}",
        "UPDATE consent_events SET at = at + 1 WHERE number = {number}",
        "DELETE FROM consent_events WHERE number = {number}",
    ],
)
def test_tampering_is_found_and_the_first_broken_event_named(sample_dealer: SampleDealer, tamper: str) -> None:
    for _ in range(3):
        lead_id, _ = sample_dealer.take()
    assert "whole" in sample_dealer.said("consent", "verify")
    number = int(re.findall(r"event (\d+)", sample_dealer.said("consent", "show", lead_id))[0]) - 1
    sample_dealer.execute(f"CREATE TABLE kept AS SELECT * FROM consent_events WHERE number = {number}")
    changed = "'\\x5b5d'" if sample_dealer.database.startswith("postgresql") else "x'5b5d'"
    try:
        sample_dealer.execute(tamper.format(number=number, changed=changed))
        done = sample_dealer.run("consent", "verify")
        assert done.returncode == 1
        assert not done.stdout
        assert f"event {number}" in done.stderr
    finally:
        sample_dealer.execute(f"DELETE FROM consent_events WHERE number = {number}")
        sample_dealer.execute("INSERT INTO consent_events SELECT * FROM kept")
        sample_dealer.execute("DROP TABLE kept")
    assert "whole" in sample_dealer.said("consent", "verify")


# --- Age ---


@pytest.mark.requirement("withdrawal-lasts")
@pytest.mark.requirement("proof-kept")
@pytest.mark.requirement("consent-export")
def test_after_an_erasure_a_withdrawal_still_holds_and_the_consent_can_still_be_proven(
    sample_dealer: SampleDealer, tmp_path: Path
) -> None:
    number = next(_numbers)
    granted = lead(number)["consent"] | {"allowed_channels": ["email", "sms"]}
    lead_id, email = sample_dealer.take(number, consent=granted)
    sample_dealer.said("consent", "revoke", "--email", email, "--channel", "sms")
    erased = sample_dealer.said("leads", "erase", "--email", email, "--yes")
    until = datetime.now(UTC) + timedelta(days=1826)
    assert f"until {until:%Y-%m-}" in erased
    assert "keyed hash of the contact point" in erased

    again, _ = sample_dealer.take(number, consent=granted)
    assert again != lead_id
    assert "by: email\n" in sample_dealer.said("consent", "show", again)
    sample_dealer.said("leads", "erase", again, "--yes")

    proven = sample_dealer.said("consent", "prove", email.upper())
    for told in ("Share my details with this dealer.", "granted", "revoked", email, "Acceptance Agent", lead_id, again):
        assert told in proven
    assert "consent prove" in sample_dealer.accesses()[0]
    file = tmp_path / "record.jsonl"
    head = sample_dealer.said("consent", "export", email, "--out", file).splitlines()[-1]
    assert "consent export" in sample_dealer.accesses()[0]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    nowhere = tmp_path / "nowhere"
    checked = command_here("consent", "verify", file, "--against", head, "--dir", nowhere)
    assert checked.returncode == 0, checked.stderr
    assert "agrees with a recorded head" in checked.stdout
    assert "Share my details" in checked.stdout
    file.write_bytes(file.read_bytes().replace(b"Share my", b"Sell my "))
    changed = command_here("consent", "verify", file, "--dir", nowhere)
    assert changed.returncode == 1
    assert "event" in changed.stderr

    assert "Proofs of consent" in sample_dealer.said("leads", "erase", "--email", email, "--consent-too", "--yes")
    gone = sample_dealer.run("consent", "prove", email)
    assert gone.returncode == 1
    assert "No consent is kept" in gone.stderr
    assert "whole" in sample_dealer.said("consent", "verify")


@pytest.mark.requirement("recorded-head")
def test_the_service_records_heads_and_the_check_goes_on_from_them(sample_dealer: SampleDealer) -> None:
    file = sample_dealer.folder / "consent-heads.log"
    eventually("the service recorded its heads", file.exists)
    sample_dealer.take()
    consents, accesses = sample_dealer.said("consent", "head").splitlines()
    assert file.read_text().splitlines()[-2:] == [consents, accesses]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    said = sample_dealer.said("consent", "verify", "--against", file)
    assert "The access log is whole" in said
    assert "recorded heads" in said
    for line in (consents, accesses):
        dealer, chain, rows, *rest = line.split()
        later = " ".join((dealer, chain, str(int(rows) + 999), *rest))
        cut = sample_dealer.run("consent", "verify", "--against", later)
        assert cut.returncode == 1
        assert f"a recorded head counts {int(rows) + 999} events" in cut.stderr
    for wrong in ("no head", str(sample_dealer.folder / "nowhere"), consents.replace("accept", "another-")):
        assert sample_dealer.run("consent", "verify", "--against", wrong).returncode == 2
    copy = sample_dealer.folder / "copy.log"
    recorded = file.read_text()
    digit = consents.split()[3][0]
    edited = recorded.replace(consents.split()[3], ("b" if digit == "a" else "a") + consents.split()[3][1:])
    for content, code, told in (
        (edited, 1, "recorded as a head"),
        ("", 2, "holds no head"),
        (recorded[:-9], 2, "is not a head"),
    ):
        copy.write_text(content)
        done = sample_dealer.run("consent", "verify", "--against", copy)
        assert done.returncode == code
        assert told in " ".join(re.sub("[│╭╮╰╯─]", " ", done.stderr).split())


def test_of_a_lead_that_is_forgotten_by_age_the_consent_can_still_be_revoked_and_erased(
    sample_dealer: SampleDealer,
) -> None:
    sample_dealer.wait_for_own_disposal()
    lead_id, email = sample_dealer.take()
    age(sample_dealer, lead_id, days=731)
    sample_dealer.said("leads", "dispose")
    assert "by: email" in sample_dealer.said("consent", "show", lead_id)
    assert lead_id in sample_dealer.said("consent", "revoke", "--email", email)
    assert "by: no channel" in sample_dealer.said("consent", "show", lead_id)
    assert "Robin" in sample_dealer.said("leads", "erase", "--email", email, "--yes")
    shown = sample_dealer.said("consent", "show", lead_id)
    assert "Robin" not in shown
    assert "Share my details" not in shown
    assert "whole" in sample_dealer.said("consent", "verify")


def test_what_is_old_is_forgotten_on_request_and_what_is_not_stays(sample_dealer: SampleDealer) -> None:
    """16 CFR 314.4(c)(6): two years after the last use."""
    old, old_email = sample_dealer.take()
    new, new_email = sample_dealer.take()
    sample_dealer.wait_for_own_disposal()
    # The other worker looks for old leads at about the same time. It must not dispose of this one.
    eventually("both have looked", lambda: time.monotonic() > sample_dealer.since + LOOK_SECONDS + 10)
    age(sample_dealer, old, days=731)
    said = sample_dealer.said("leads", "dispose", "--dry-run")
    assert re.search(r"Customers of leads.*\b730\b.*\b1\b", said), said
    assert "Nothing was changed" in said
    assert old_email in sample_dealer.said("leads", "show", old)
    said = sample_dealer.said("leads", "dispose")
    assert re.search(r"Customers of leads.*\b730\b.*\b1\b", said), said
    assert old_email not in sample_dealer.said("leads", "show", old).partition("Consent")[0]
    assert new_email in sample_dealer.said("leads", "show", new)
    assert re.search(r"Customers of leads.*\b730\b.*\b0\b", sample_dealer.said("leads", "dispose"))
    assert "whole" in sample_dealer.said("consent", "verify")


def test_a_consent_is_kept_for_longer_than_its_lead_and_a_dry_run_counts_both(
    tmp_path: Path, database_url: str
) -> None:
    """16 CFR 310.5: five years."""
    folder = stocked_dealer(tmp_path / "store", DATABASE_URL=database_url)
    for years, lead_id in enumerate(("01E00000000000000000000001", "01E00000000000000000000003"), start=1):
        keep_old_lead(folder, database_url, lead_id, years=years)
    for years, lead_id in ((3, "01E00000000000000000000002"), (6, "01E00000000000000000000004")):
        keep_old_lead(folder, database_url, lead_id, years=years)

    def forgotten(*words: str) -> list[int]:
        done = command_here("leads", "dispose", *words, "--dir", folder, DATABASE_URL=database_url)
        assert done.returncode == 0, done.stderr
        return [int(count) for count in re.findall(r"(\d+)\s*$", done.stdout, re.MULTILINE)]

    assert forgotten("--dry-run") == [3, 1]
    assert forgotten("--dry-run") == [3, 1], "it did something"
    assert forgotten() == [3, 1]
    assert forgotten() == forgotten("--dry-run") == [0, 0]
    assert "whole" in command_here("consent", "verify", "--dir", folder, DATABASE_URL=database_url).stdout


def test_a_service_forgets_what_is_old_on_its_own(sample_dealer: SampleDealer) -> None:
    """Soon after its start, one worker of the two does it; the consent stays for its five years."""
    sample_dealer.wait_for_own_disposal()
    shown = sample_dealer.said("leads", "show", OLD_LEAD)
    assert "erased" in shown
    assert "Sam Sample" not in shown.partition("Consent event")[0]
    assert "I agree to be contacted" in sample_dealer.said("consent", "show", OLD_LEAD)
    assert sample_dealer.running.stderr().count("customer data forgotten") == 1, "two workers did the same work"
    assert "sam@example.com" not in sample_dealer.running.stderr()


def age(sample_dealer: SampleDealer, lead_id: str, *, days: int) -> None:
    """Makes a lead older than it is, once it is delivered: until then it is in use."""
    eventually(
        "the lead is delivered",
        lambda: "sent" in line_of(lead_id, sample_dealer.said("leads", "list", "--limit", "1000")),
    )
    micros = days * 24 * 3600 * 1_000_000
    sample_dealer.execute(f"UPDATE leads SET used_at = used_at - {micros} WHERE lead_id = '{lead_id}'")


def line_of(lead_id: str, said: str) -> str:
    (line,) = [line for line in said.splitlines() if lead_id in line]
    return line
