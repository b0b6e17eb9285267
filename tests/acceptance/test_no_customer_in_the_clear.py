"""What a customer said is in clear text nowhere: not in the database, not in a log, not in an error, not on a page.

See docs/protocol.md#sealed-at-rest and 16 CFR 314.4(c)(3): customer information is encrypted at rest. A
service takes, refuses and delivers leads full of strings that occur nowhere else, over both bindings;
then everything that it keeps, wrote and answered is searched for them, in every form in which they might hide.
"""

import base64
import json
import os
import re
import signal
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session
from tests.acceptance.asking import body, lead
from tests.acceptance.dealers import HONDA_VIN, stock_of_three, stocked_dealer, write_feed
from tests.acceptance.running import Running, command_here, eventually, free_port, start, succeed
from tests.acceptance.searching import EMAIL, MARK, PHONE, personal, readable, readable_columns, tables_of
from tests.delivery.receivers import NOBODY
from tests.soak import SQLITE_FIRST
from tests.storage.databases import fresh_schema

from dealer_agent.privacy import key_rotation

pytestmark = pytest.mark.requirement("sealed-at-rest", "personal-data-not-echoed")

ROOFTOP = """
[rooftops.deliver]
notify = ["sales@acceptance.example.com"]

[[rooftops.deliver.http]]
name = "crm"
url = "http://127.0.0.1:{http}/leads"

[[rooftops.deliver.http]]
name = "crm-json"
url = "http://127.0.0.1:{http}/leads?json"
format = "json"

[[rooftops.deliver.http]]
name = "nobody"
url = "http://127.0.0.1:{closed}/leads"

[[rooftops.deliver.smtp]]
name = "mailbox"
to = ["leads@crm.example.com"]
"""

SETTINGS = """
[mail]
host = "127.0.0.1"
port = {smtp}
security = "none"
from_address = "leads@acceptance.example.com"
confirm_appointments = true

[delivery]
first_retry_seconds = 1
breaker_failures = 1000

[logs]
level = "debug"
"""

VISITS = """
[rooftops.visits.test_drive]
notice_minutes = 0
horizon_days = 60
"""


def next_monday() -> date:
    """One that is not too soon for a visit."""
    today = datetime.now(UTC).date()
    return today + timedelta(days=14 - today.weekday())


def marked(**members: Any) -> dict[str, Any]:
    """A valid lead with a recognisable text in every member that belongs to the customer."""
    sent = lead(
        customer={
            "first_name": f"{MARK}first",
            "last_name": f"O'{MARK}last \N{LATIN SMALL LETTER E WITH ACUTE}",
            "email": EMAIL,
            "phone": PHONE,
            "preferred_contact": "email",
            "address": {
                name: f"{MARK}{name}"
                for name in ("address_line_1", "address_line_2", "city", "state", "zip", "country")
            },
        },
        vehicle_of_interest={"vin": HONDA_VIN, "notes": f"{MARK}wish", "extra": {"deep": f"{MARK}extra"}},
        trade_in={"vin": f"{MARK}tradein", "make": f"{MARK}make", "notes": f"{MARK}tradenotes", "mileage": 2025550187},
        appointment={
            "appointment_type": "test_drive",
            "requested_windows": [{"start": f"{next_monday()}T10:00:00"}],
            "timezone": "America/New_York",
            "notes": f"{MARK}notes, call {PHONE}",
        },
        message=f"{MARK}message, call (202) 555-0187 or 202.555.0187",
    )
    sent["source_agent"] = f"{MARK}agent"
    sent["consent"] |= {
        "allowed_channels": ["email", "phone"],
        "consent_text": f"{MARK}consent 202 555 0187",
        "scope": ["lead_submission", f"{MARK}scope"],
        "source_agent": f"{MARK}agent",
    }
    return sent | members


class Echo(BaseHTTPRequestHandler):
    """A CRM that is out of order and tells its callers everything that they told it."""

    def do_POST(self) -> None:
        said = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.received.append(said)  # type: ignore[attr-defined]
        self.send_response(500, said[:200].decode("latin-1").replace("\r", " ").replace("\n", " "))
        self.send_header("content-type", "text/plain")
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: object) -> None:
        """Writes nothing."""


class EchoMail:
    """A mail server that refuses every mail with its own words."""

    def __init__(self) -> None:
        self.received: list[bytes] = []

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        content = envelope.content if isinstance(envelope.content, bytes) else str(envelope.content).encode()
        self.received.append(content)
        return f"451 {envelope.rcpt_tos} {MARK} {EMAIL} 202-555-0187"


@contextmanager
def failing_crm() -> Iterator[tuple[int, int, list[bytes]]]:
    """Both out of order: the ports for HTTP and mail, and what they got to see."""
    http_server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    mail = EchoMail()
    http_server.received = mail.received  # type: ignore[attr-defined]
    threading.Thread(target=http_server.serve_forever, daemon=True).start()
    port = free_port()
    mail_server = Controller(mail, hostname="127.0.0.1", port=port, ready_timeout=120)
    mail_server.start()
    try:
        yield http_server.server_port, port, mail.received
    finally:
        mail_server.stop()
        http_server.shutdown()
        http_server.server_close()


@dataclass
class Afterwards:
    """What is left of the service's work: its folder and database, what it answered, and what it delivered."""

    folder: Path
    url: str
    answers: list[httpx.Response] = field(default_factory=list)
    pages: list[httpx.Response] = field(default_factory=list)
    delivered: list[bytes] = field(default_factory=list)
    kept: dict[str, bytes] = field(default_factory=dict)
    lead_ids: list[str] = field(default_factory=list)

    def look(self, when: str) -> None:
        """Takes down everything that is kept at this moment."""
        for path in sorted(self.folder.rglob("*")):
            if path.is_file():
                self.kept[f"{when}: {path.name}"] = path.read_bytes()
        if self.url.startswith("postgresql"):
            self.kept |= {f"{when}: {name}": content for name, content in tables_of(self.url).items()}


def refused(good: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Leads that are refused, each for another reason, with what the customer said in the wrong place."""
    customer, consent = good["customer"], good["consent"]
    yield {**good, "nickname": MARK}
    yield {**good, "customer": {**customer, "email": f"{MARK} at example"}}
    yield {**good, "customer": {**customer, "phone": f"{MARK} 202 555 0187"}}
    yield {**good, "customer": {**customer, "nickname": MARK}}
    yield {**good, "customer": {**customer, "preferred_contact": MARK}}
    yield {**good, "customer": {**customer, "address": f"{MARK} street"}}
    yield {**good, "customer": f"{MARK}, {PHONE}"}
    yield {**good, "message": [f"{MARK}"]}
    yield {**good, "message": f"{MARK} " * 500}
    yield {**good, "appointment": {**good["appointment"], "notes": f"{MARK} " * 300}}
    yield {**good, "appointment": {**good["appointment"], "notes": {"text": MARK}}}
    yield {**good, "consent": MARK}
    yield {**good, "consent": {**consent, "consent_text": "", "granted_at": MARK}}
    yield {**good, "consent": {**consent, "scope": [MARK]}}
    yield {**good, "consent": {**consent, "allowed_channels": [MARK]}}
    yield {**good, "consent": {**consent, "allowed_channels": ["sms"]}}
    yield {**good, "consent": {**consent, MARK: 1}} | {"consent": {**consent, "text": MARK}}
    yield {**good, "vehicle_of_interest": {"vin": "1HGCM82633A004352", "notes": MARK}}


def send_everything(running: Running, after: Afterwards) -> None:
    """Leads that are taken, repeated, added to and refused, over both bindings."""
    headers = {"user-agent": f"{MARK}-browser", "referer": f"https://{MARK}.example.com/", "cookie": f"id={MARK}"}
    with httpx.Client(base_url=running.url, headers=headers, timeout=120) as client:

        def send(members: dict[str, Any], **more: str) -> list[httpx.Response]:
            sent = body("lead.submit", **members)
            call = {"jsonrpc": "2.0", "id": f"{MARK}id", "method": "SendMessage", "params": sent}
            both = [client.post("/message:send", json=sent, headers=more), client.post("/rpc", json=call, headers=more)]
            after.answers += both
            return both

        assert client.post("/message:send", json=body("lead.submit", **lead(7))).status_code == 200
        good = marked(idempotency_key=f"{MARK}key")
        over_http, over_rpc = send(good)
        assert over_http.status_code == 200, over_http.text
        assert over_rpc.json()["result"], over_rpc.text
        after.lead_ids.append(over_http.json()["message"]["parts"][0]["data"]["data"]["lead_id"])
        send(good | {"message": f"{MARK} another payload under the same key"})
        send(marked(message=f"{MARK}added", customer=good["customer"] | {"first_name": f"{MARK}second"}))
        for members in refused(marked()):
            for response in send(members):
                assert "error" in response.json(), response.text
        send(good, authorization=f"Bearer dat_{MARK}_{MARK}")
        send(good, **{"content-type": f"text/{MARK}"})
        send(good, **{"a2a-version": MARK})
        whole = json.dumps(body("lead.submit", **good)).encode()
        for path in ("/message:send", "/rpc"):
            for content in (whole[:-20], whole.replace(b"{", b"[", 1), whole + b"}" * 3):
                after.answers.append(client.post(path, content=content, headers={"content-type": "application/json"}))
            after.answers.append(client.post(f"/{MARK}{path}?q={MARK}", json=good))
            after.answers.append(client.put(f"{path}?{MARK}", json=good))


def read_everything(running: Running, after: Afterwards) -> None:
    """Every page that the service has: the fixed ones, and all that they name."""
    waiting = [
        "/",
        "/docs",
        "/openapi.json",
        "/schemas",
        "/cards/1.0.0.json",
        "/cards/0.1.0.json",
        "/healthz",
        "/readyz",
    ]
    waiting += [
        "/.well-known/agent-card.json",
        "/metrics",
        "/tasks",
        f"/tasks/{after.lead_ids[0]}",
        "/calendar",
        "/leads",
    ]
    seen = set()
    with httpx.Client(base_url=running.url, timeout=120) as client:
        while waiting:
            path = waiting.pop()
            if path in seen:
                continue
            seen.add(path)
            response = client.get(path)
            after.pages.append(response)
            named = re.findall(rf"(?:{re.escape(running.url)}|[\"'(])(/[\w./-]*)", response.text)
            waiting += [each for each in named if not each.startswith("//")]
    assert len(seen) > 20
    assert sum(page.status_code == 200 for page in after.pages) > 15


def fail_for_a_while(after: Afterwards, running: Running) -> None:
    """Leads that meet a broken database: faults, which are logged."""
    execute(after.url, "ALTER TABLE leads RENAME TO leads_away")
    try:
        sent = body("lead.submit", **marked(message=f"{MARK}fault"))
        call = {"jsonrpc": "2.0", "id": f"{MARK}id", "method": "SendMessage", "params": sent}
        for path, document in (("/message:send", sent), ("/rpc", call)):
            after.answers.append(httpx.post(running.url + path, json=document, timeout=120))
            assert "INTERNAL_ERROR" in after.answers[-1].text
    finally:
        execute(after.url, "ALTER TABLE leads_away RENAME TO leads")


def execute(url: str, statement: str) -> list[Any]:
    """The rows of one statement, each of one column, behind the service's back."""
    if url.startswith("postgresql"):
        with psycopg.connect(url, autocommit=True) as connection:
            found = connection.execute(statement.encode())
            return [value for (value,) in found] if found.description else []
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30)) as database, database:
        return [value for (value,) in database.execute(statement)]


@pytest.fixture(scope="module", params=SQLITE_FIRST)
def after(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Afterwards]:
    """The service's work, done on each of the two databases."""
    folder = tmp_path_factory.mktemp("clear") / "store"
    if request.param == "sqlite":
        yield from worked(folder, f"sqlite:///{folder}/dealer.db")
        return
    server: str = request.getfixturevalue("postgresql_server")
    with fresh_schema(server) as url:
        yield from worked(folder, url)


def worked(folder: Path, url: str) -> Iterator[Afterwards]:
    """A dealer whose service did all of it, on the database at `url`."""
    after = Afterwards(folder, url)
    with failing_crm() as (http_port, mail_port, received):
        channels = ROOFTOP.format(http=http_port, closed=NOBODY) + VISITS
        write_dealer_with(folder, channels, SETTINGS.format(smtp=mail_port), url)
        running = start(folder, DATABASE_URL=url)
        try:
            send_everything(running, after)
            feed = write_feed(folder / "again.json", stock_of_three())
            succeed("inventory", "import", feed, "--dir", folder, DATABASE_URL=url)
            fail_for_a_while(after, running)
            read_everything(running, after)
            eventually("CRM, people and customer were written to", lambda: all_kinds_of(received))
            after.look("while it ran")
            running.signal(signal.SIGTERM)
            assert running.process.wait(120) == 0
        finally:
            if running.process.poll() is None:
                running.kill_all()
        after.delivered = list(received)
    after.look("after it stopped")
    yield after


def all_kinds_of(received: list[bytes]) -> bool:
    """ADF and JSON over HTTP, ADF by mail, the salesperson's mail, and the customer's confirmation."""
    everything = b"".join(received)
    kinds = (b"<adf>", b'{"type":"lead"', b"text/plain", b"sales@acceptance.example.com", b"text/calendar")
    return all(kind in everything for kind in kinds)


def write_dealer_with(folder: Path, rooftop: str, settings: str, url: str) -> None:
    """A dealer with stock, whose first rooftop has more sections."""
    stocked_dealer(folder, settings, DATABASE_URL=url)
    toml = folder / "dealer.toml"
    first, second, rest = toml.read_text().partition('[[rooftops]]\nname = "Acceptance Motors South"')
    toml.write_text(first + rooftop + second + rest)


@pytest.mark.parametrize("hidden", [MARK, MARK.lower(), f"x{EMAIL}", PHONE, "tel:202-555-0187", "+12025550187"])
@pytest.mark.parametrize("wrapped", [bytes, bytes.hex, base64.b64encode], ids=["plain", "hex", "base64"])
def test_the_search_finds_what_is_hidden(hidden: str, wrapped: Any) -> None:
    found = wrapped(b"before" + hidden.encode() + b"after")
    assert personal(found if isinstance(found, bytes) else found.encode())
    assert personal(hidden.encode("utf-16-le"))
    assert not personal(b"nobody, +1 202 555 0123")


def test_no_database_and_no_file_of_the_service_holds_what_a_customer_said(after: Afterwards) -> None:
    names = " ".join(after.kept)
    assert all(each in names for each in ("rate-limits.bin", "stderr-", "stdout-", "dealer.toml")), names
    if after.url.startswith("sqlite"):
        assert {"while it ran: dealer.db", "while it ran: dealer.db-wal", "while it ran: dealer.db-shm"} <= set(
            after.kept
        )
    for name, content in after.kept.items():
        assert personal(content) is None, name


def test_no_log_holds_what_a_customer_said_though_every_kind_of_trouble_was_logged(after: Afterwards) -> None:
    (log,) = [content for name, content in after.kept.items() if name.startswith("after it stopped: stderr-")]
    assert b'"event":"fault"' in log
    assert log.count(b'"event":"request"') > len(after.answers) // 2
    assert personal(log) is None


def test_no_answer_holds_what_a_customer_said(after: Afterwards) -> None:
    statuses = {answer.status_code for answer in after.answers}
    assert {200, 401, 404, 405, 409, 415, 422, 500} <= statuses
    for answer in after.answers:
        # The id of a JSON-RPC call is repeated as it came (docs/protocol.md#personal-data-not-echoed).
        told = answer.content.replace(f'"id":"{MARK}id"'.encode(), b"")
        assert personal(told) is None, (answer.request.url, answer.status_code)
        assert personal(str(answer.headers).encode()) is None


def test_no_page_holds_what_a_customer_said(after: Afterwards) -> None:
    for page in after.pages:
        assert personal(page.content) is None, page.request.url


def test_the_crm_that_told_everybody_did_get_the_leads(after: Afterwards) -> None:
    """Else the tests above would prove nothing of deliveries."""
    assert all_kinds_of(after.delivered)
    assert all(personal(content) for content in after.delivered if b"Example7" not in content)


@pytest.mark.skipif("TEST_DATABASE_URL" in os.environ, reason="the files of that server are not ours")
def test_the_files_of_the_postgresql_server_hold_nothing_of_it(after: Afterwards) -> None:
    if not after.url.startswith("postgresql"):
        pytest.skip("SQLite's files are in the dealer's folder, and searched above")
    with psycopg.connect(after.url, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
    folder = Path(os.environ["DEALER_AGENT_TEST_POSTGRESQL"])
    searched = 0
    # Another test may drop its database meanwhile: `os.walk` leaves out a folder that is gone.
    for path in (Path(parent, name) for parent, _, names in os.walk(folder) for name in names):
        with suppress(FileNotFoundError):
            if path.is_file():
                assert personal(path.read_bytes()) is None, path
                searched += 1
    assert searched > 100


@pytest.mark.skipif("TEST_DATABASE_URL" in os.environ, reason="the files of that server are not ours")
def test_no_key_that_still_exists_reads_an_erased_person_in_any_file_of_the_database(
    after: Afterwards, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is erased is gone. On PostgreSQL remains are in pages and WAL until their key is destroyed.

    The proof of consent can be read until it is erased, too. It is the only thing, and its reading is logged.
    """
    monkeypatch.setattr(key_rotation, "RELOAD_SECONDS", 0.0)  # The service has stopped.
    place = after.folder, after.url

    def run(*arguments: str) -> str:
        done = command_here(*arguments, "--dir", after.folder, DATABASE_URL=after.url)
        assert done.returncode == 0, done.stderr
        return done.stdout

    lead_id, person = after.lead_ids[0], ("--email", EMAIL.upper())
    assert f"{MARK}first" in run("leads", "show", lead_id)
    run("consent", "revoke", *person, "--reason", f"{MARK}reason")
    assert {"leads.customer", "consent_events.body", "outbox.document"} <= readable_columns(*place)
    told = run("leads", "erase", *person, "--yes")
    assert lead_id in told
    by = re.search(r"becomes\s+final\s+by\s+(\d{4}-\d\d-\d\d)", told)
    assert by is not None, told
    assert timedelta(days=30) < date.fromisoformat(by[1]) - datetime.now(UTC).date() < timedelta(days=33)
    assert readable(*place), "the search of the files finds the proof, and remains in pages and WAL"
    assert readable_columns(*place) == {"consent_proofs.body"}
    for words in (("leads", "show", lead_id), ("consent", "show", lead_id), ("leads", "list"), ("leads", "export")):
        assert personal(run(*words).encode()) is None
    assert f"{MARK}consent" in run("consent", "prove", EMAIL)
    assert "consent prove" in run("accesses", "list")

    told = run("leads", "erase", *person, "--yes", "--consent-too", "--final")
    assert "The erasure is final" in told
    assert readable(*place) == []
    shown = run("leads", "show", lead_id)
    assert "erased" in shown
    assert personal(shown.encode()) is None
    assert "whole" in run("consent", "verify")
    assert "Example7" in run("leads", "list"), "another person is there"
