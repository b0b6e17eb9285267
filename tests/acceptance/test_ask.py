"""`dealer-agent ask`: a buyer's questions on the command line, to a real service and to hostile ones."""

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
import pytest
from rich.cells import cell_len
from tests.acceptance.cards import WELL_KNOWN
from tests.acceptance.conftest import Guarded
from tests.acceptance.dealers import FORD_VIN, HONDA_VIN, TESLA_VIN
from tests.acceptance.running import COMMAND, PATIENCE_SECONDS, Running, command_here, environment, free_port
from tests.acceptance.test_command_output import on_terminal

from dealer_agent.protocol.requests import Filters

pytestmark = pytest.mark.outside_protocol("the command ask")

CUSTOMER = ("--first-name", "Robin", "--last-name", "Example", "--email", "robin@example.com", "--allow", "email")


def ask(url: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return command_here("ask", url, *words, cwd=None, **variables)


def asked(url: str, *words: str, **variables: str) -> Any:
    """The JSON document of a command that succeeds."""
    done = ask(url, *words, "--json", **variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


CARDS = ("", "/.well-known/agent-card.json", "/cards/0.1.0.json", "/aap/1.0", "/aap/1.3", f"/aap/1.3{WELL_KNOWN}")


@pytest.mark.parametrize("path", CARDS)
def test_the_url_is_that_of_the_dealer_or_of_a_card(service: Running, path: str) -> None:
    assert asked(service.url + path, "information")["name"] == "Acceptance Motors"


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
def test_each_question_has_an_answer_as_json_over_each_binding(service: Running, binding: str) -> None:
    over = ("--binding", binding)
    assert asked(service.url, "information", *over)["rooftops"][0]["name"] == "Acceptance Motors North"
    assert asked(service.url, "facets", "--make", "Honda", *over)["makes"] == [{"value": "Honda", "count": 1}]
    found = asked(service.url, "search", "--sort=-price", "--limit", "2", *over)
    assert (found["total"], [each["vin"] for each in found["vehicles"]]) == (3, [FORD_VIN, HONDA_VIN])
    assert asked(service.url, "search", "--all", "--sort=-year", *over)["vehicles"][0]["vin"] == FORD_VIN
    assert asked(service.url, "vehicle", "--stock", "H1", "--zip", "22301", *over)["zip"] == "22301"


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("information",), ("Acceptance Motors North", "hours of sales: Mon 09:00-20:00")),
        (("facets",), ("makes", "Honda (1)", "28,040 to 51,200", "2023 to 2026")),
        (("search", "--make", "honda"), ("1 vehicle", "2024 Honda Accord Hybrid", "$28,040", HONDA_VIN)),
        (("search", "--skip", "1", "--limit", "1", "--sort", "price"), ("2 to 2 of 3 vehicles",)),
        (("search", "--make", "Bugatti"), ("No vehicle matches.",)),
        (("search", "--all"), ("3 vehicles", HONDA_VIN, FORD_VIN, TESLA_VIN)),
        (
            ("vehicle", "--vin", HONDA_VIN),
            ("2024 Honda Accord Hybrid, used, $28,040, 14,210 miles", "- fuel: hybrid"),
        ),
        (("lead", *CUSTOMER, "--vin", HONDA_VIN, "--yes"), ("The dealer has the lead.", "- idempotency_key: ")),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else None,
)
def test_without_json_an_answer_is_text_for_people(
    service: Running, words: tuple[str, ...], shown: tuple[str, ...]
) -> None:
    done = ask(service.url, *words)
    assert done.returncode == 0, done.stderr
    assert all(text in done.stdout for text in shown), done.stdout


def test_every_filter_of_the_protocol_is_an_option(service: Running) -> None:
    """The sample of each kind of filter reaches the dealer as JSON of that kind."""
    shown = ask(service.url, "search", "--help", COLUMNS="300").stdout
    for field in msgspec.structs.fields(Filters):
        assert re.search(rf"--{field.name.replace('_', '-')}\b", shown), field.name
    done = ask(
        service.url,
        *("search", "--wire", "--make", "Honda", "--make", "Ford", "--condition", "used", "--year-min", "2020"),
        *("--dc-fast-charge", "--query", "hybrid"),
    )
    sent = done.stderr[done.stderr.index('"filters": ') + 11 :]
    assert json.JSONDecoder().raw_decode(sent)[0] == {
        "make": ["Honda", "Ford"],
        "condition": ["used"],
        "dc_fast_charge": True,
        "year_min": 2020,
        "query": "hybrid",
    }


@pytest.mark.parametrize("option", ["--price-max", "--mileage-max"])
def test_zero_is_a_value_of_a_filter(service: Running, option: str) -> None:
    """Without the filter, all vehicles match. None of them is free or has zero miles."""
    done = ask(service.url, "search", option, "0", "--json", "--wire")
    assert f'"{option[2:].replace("-", "_")}": 0' in done.stderr
    assert json.loads(done.stdout)["total"] == 0


@pytest.mark.parametrize("columns", [60, 80, 140])
def test_the_table_of_a_search_fits_the_terminal(
    service: Running, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    printed = on_terminal(["ask", service.url, "search"], monkeypatch, columns)
    assert max(map(cell_len, printed.splitlines())) <= columns
    assert HONDA_VIN in printed


def test_wire_shows_requests_and_responses_without_the_token(guarded: Guarded) -> None:
    done = ask(guarded.url, "search", "--wire", "--json", DEALER_AGENT_TOKEN=guarded.token)
    assert json.loads(done.stdout)["total"] == 3
    assert f"> POST {guarded.url}/rpc" in done.stderr
    assert '"method": "SendMessage"' in done.stderr
    assert "< HTTP 200 after" in done.stderr
    assert "< x-request-id: " in done.stderr
    assert '"result": ' in done.stderr
    assert guarded.token not in done.stdout + done.stderr


def test_a_token_comes_from_the_option_or_the_environment(guarded: Guarded) -> None:
    assert asked(guarded.url, "search", "--token", guarded.token)["total"] == 3
    assert asked(guarded.url, "search", DEALER_AGENT_TOKEN=guarded.token)["total"] == 3
    done = ask(guarded.url, "search")
    assert done.returncode == 3
    assert "AUTH_REQUIRED" in done.stderr


EXIT_CODES: list[tuple[tuple[str, ...], int, str]] = [
    (("search", "--make", "Bugatti"), 0, ""),
    (("search", "--colour", "red"), 2, "--colour"),
    (("search", "--year-min", "new"), 2, "--year-min"),
    (("search", "--condition", "mint"), 2, "--condition"),
    (("search", "--sort", "beauty"), 2, "mileage"),
    (("search", "--all", "--limit", "3"), 2, "--all"),
    (("search", "--vin", "short"), 2, "--vin"),
    (("vehicle",), 2, "--vin"),
    (("lead", *CUSTOMER), 2, "--yes"),
    (("lead", *CUSTOMER[:4], "--allow", "email", "--yes"), 2, "--email"),
    (("lead", *CUSTOMER, "--yes", "--appointment-at", "2027-01-11T15:00:00Z"), 2, "--appointment-type"),
    (("lead", *CUSTOMER, "--yes", "--preferred-contact", "sms"), 3, "CONTACT_CONSENT_REQUIRED"),
    (("vehicle", "--vin", "1HGCY2F57RA999999"), 4, "VEHICLE_NOT_FOUND"),
]


@pytest.mark.parametrize(("words", "code", "says"), EXIT_CODES, ids=[" ".join(words) for words, *_ in EXIT_CODES])
def test_exit_codes_tell_refused_not_found_and_usage_apart(
    service: Running, words: tuple[str, ...], code: int, says: str
) -> None:
    done = ask(service.url, *words, "--json")
    assert done.returncode == code, done.stderr
    assert says in done.stderr
    assert code == 0 or done.stdout == ""


@pytest.mark.parametrize("url", ["http://127.0.0.1:{port}", "{service}/nothing", "{service}/openapi.json"])
def test_where_no_dealer_agent_answers_the_exit_code_is_5(service: Running, url: str) -> None:
    done = ask(url.format(port=free_port(), service=service.url), "information")
    assert done.returncode == 5, done.stderr
    assert done.stderr.startswith("Error: ")


@pytest.mark.parametrize("url", ["dealer.example", "ftp://dealer.example", "http://"])
def test_what_is_no_url_is_a_wrong_argument(url: str) -> None:
    done = ask(url, "information")
    assert done.returncode == 2
    assert "https://" in done.stderr


def test_the_help_has_the_exit_codes() -> None:
    for words in ((), ("search",), ("lead",)):
        shown = " ".join(ask("http://127.0.0.1:9", *words, "--help").stdout.split())
        assert "3 the dealer refused the request; 4 no such vehicle, or it is sold; 5 no dealer agent" in shown


def test_a_refusal_names_all_problems_and_the_id_of_the_error(service: Running) -> None:
    customer = ("--first-name", "R" * 201, "--last-name", "", "--email", "robin", "--allow", "email")
    done = ask(service.url, "lead", *customer, "--yes")
    assert done.returncode == 3
    for pointer in ("/customer/email", "/customer/first_name"):
        assert f"\n  {pointer}: must " in done.stderr
    assert re.search(r"give its id: err_[0-9A-Z]{26}", done.stderr)


def on_a_terminal(*words: str, answer: bytes) -> subprocess.CompletedProcess[str]:
    """Runs the command with a terminal as its standard input, on which a person types."""
    leader, follower = pty.openpty()
    try:
        os.write(leader, answer)
        return subprocess.run(
            [COMMAND, *words],
            stdin=follower,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )
    finally:
        os.close(leader)
        os.close(follower)


@pytest.mark.parametrize(("answer", "code"), [(b"n\n", 1), (b"y\n", 0)])
def test_a_lead_is_sent_only_after_a_person_agrees(service: Running, answer: bytes, code: int) -> None:
    done = on_a_terminal("ask", service.url, "lead", *CUSTOMER, "--json", answer=answer)
    assert done.returncode == code
    assert "Consent: I ask Acceptance Motors to contact me about my request by e-mail." in done.stderr
    assert "Does the customer agree" in done.stderr
    if code:
        assert "Nothing was sent." in done.stderr
        assert done.stdout == ""
    else:
        assert json.loads(done.stdout)["status"] in ("received", "duplicate")


def test_a_lead_can_have_a_visit_a_text_of_its_own_and_a_key(service: Running) -> None:
    words = [
        *("lead", *CUSTOMER[:5], "kim@example.com", "--allow", "email", "--stock", "H1", "--yes"),
        *("--appointment-type", "test_drive", "--appointment-at", "2027-01-11T15:00:00Z", "--message", "Hello"),
        *("--consent-text", "Yes, write to me.", "--granted-at", "2026-01-05T15:00:00Z"),
        *("--idempotency-key", "ask-test-0001"),
    ]
    first = ask(service.url, *words, "--json", "--wire")
    assert first.returncode == 0, first.stderr
    assert '"consent_text": "Yes, write to me."' in first.stderr
    lead = json.loads(first.stdout)
    assert lead["idempotency_key"] == "ask-test-0001"
    assert lead["appointment"]["status"] in ("requested", "confirmed", "proposed")
    assert asked(service.url, *words)["lead_id"] == lead["lead_id"]


HOSTILE = "Evil\x1b[2J\x1b]0;title\x07 \u202eMotors\x9b31m"
"""Text that clears a terminal, sets its title, reorders text and colours it."""


UNREADABLE = {"vehicle_id": "wrong", "price": HOSTILE}
"""What makes the second listing of the hostile agent unreadable: its price is not a number."""


class _Hostile(BaseHTTPRequestHandler):
    """A dealer agent with hostile text in its card, its answers and its errors. The path /garbage has no JSON."""

    def do_GET(self) -> None:
        base = f"http://{self.headers['host']}{self.path.removesuffix('/.well-known/agent-card.json')}"
        card = {
            "name": HOSTILE,
            "version": "1",
            "supportedInterfaces": [{"url": base, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
            "skills": [
                {"id": skill, "inputModes": [f"application/vnd.proto.{stem}-request+json"]}
                for skill, stem in (("inventory.search", "inventory-search"), ("lead.submit", "lead-submit"))
            ],
        }
        self._send(json.dumps(card).encode())

    def do_POST(self) -> None:
        call = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "/garbage" in self.path:
            self._send(HOSTILE.encode())
            return
        name = call["params"]["message"]["parts"][0]["data"]["type"].removesuffix(".request")
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": call["id"]}
        vehicle = {
            "vehicle_id": HOSTILE,
            "status": "available",
            "rooftop": HOSTILE,
            "updated_at": "2026-01-05T15:00:00Z",
        }
        details = {"errors": [{"instancePath": f"/{HOSTILE}", "message": f"{HOSTILE}\nError: forged"}]}
        error = {"code": HOSTILE, "message": HOSTILE, "error_id": HOSTILE, "details": details}
        data = {
            "dealer.information": {"name": HOSTILE, "welcome_message": HOSTILE, "rooftops": [{"name": HOSTILE}]},
            "inventory.facets": {"makes": [{"value": HOSTILE, "count": 1}]},
            "inventory.search": {
                "total": 2,
                "skip": 0,
                "limit": 20,
                "vehicles": [vehicle, vehicle | UNREADABLE],
            },
            "inventory.vehicle": {**vehicle, "make": HOSTILE, "description": HOSTILE, "features": [HOSTILE]},
        }.get(name)
        if data is None:
            answer["error"] = {"code": -32000, "message": HOSTILE, "data": error}
        else:
            part = {"data": {"type": f"{name}.response", "data": data}}
            answer["result"] = {"message": {"messageId": "1", "role": "ROLE_AGENT", "parts": [part]}}
        # Not escaped: the command gets the characters as they are, but those that JSON forbids.
        self._send(json.dumps(answer, ensure_ascii=False).encode())

    def _send(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


@pytest.fixture(scope="module")
def hostile() -> Iterator[str]:
    with _serving_hostile() as url:
        yield url


@contextmanager
def _serving_hostile() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Hostile) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("words", [(), ("--all",)], ids=["page", "all"])
def test_a_listing_that_cannot_be_read_is_reported_and_the_others_are_shown(
    hostile: str, words: tuple[str, ...]
) -> None:
    done = ask(hostile, "search", *words)
    assert done.returncode == 0, done.stderr
    assert "Evil" in done.stdout
    assert (
        "1 more listing cannot be read. The first one: Expected `int | null`, got `str` - at `$.price`" in done.stderr
    )


@pytest.mark.parametrize("more", [(), ("--json",), ("--wire",)], ids=["text", "json", "wire"])
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("information",), 0),
        (("facets",), 0),
        (("search",), 0),
        (("search", "--all"), 0),
        (("vehicle", "--vin", HONDA_VIN), 0),
        (("lead", *CUSTOMER, "--yes"), 3),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, tuple) else None,
)
def test_a_dealers_text_cannot_control_the_terminal(
    hostile: str, words: tuple[str, ...], code: int, more: tuple[str, ...]
) -> None:
    done = ask(hostile, *words, *more)
    assert done.returncode == code, done.stderr
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", done.stdout + done.stderr)
    assert "\nError: forged" not in done.stdout + done.stderr
    assert "Evil" in done.stdout + done.stderr


def test_after_a_lead_without_an_answer_the_command_says_how_to_send_it_again(hostile: str) -> None:
    done = ask(f"{hostile}/garbage", "lead", *CUSTOMER, "--yes")
    assert done.returncode == 1
    assert re.search(r"--idempotency-key [0-9A-Z]{26} --granted-at 20\d\d-[0-9T:-]+Z\n", done.stderr)


def test_a_reply_that_breaks_the_protocol_is_a_failure_of_its_own(hostile: str) -> None:
    done = ask(f"{hostile}/garbage", "search")
    assert done.returncode == 1
    assert "\x1b" not in done.stderr


def test_the_command_imports_nothing_of_the_service(tmp_path: Path) -> None:
    """A buyer installs it without the packages of the service (tests/repository/test_extras.py)."""
    program = (
        "import sys; from dealer_agent.cli import app\n"
        "try: app(['ask', 'http://127.0.0.1:9', 'search', '--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted(n for n in sys.modules if n.startswith(('dealer_agent.storage', 'sqlalchemy', 'jsonschema_rs'))))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.rstrip().endswith("[]")
