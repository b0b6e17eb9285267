"""Logs and errors have no personal data and no internals (docs/protocol.md#nothing-internal-leaves)."""

import json
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.acceptance.running import Running, start
from tests.server.conftest import OpenDealership
from tests.server.dealership import (
    ACCORD,
    DATABASE,
    NO_LIMITS,
    SOLD,
    Dealership,
    error_of,
    lead,
    message,
    run_dealership,
    set_up,
)

MARK = "Zyxw"
"""Every text of the lead below contains this, and nothing else that the service writes."""


def marked_lead(**members: Any) -> dict[str, Any]:
    """A valid lead with the mark in every text of the customer or the agent."""
    return lead(
        customer={
            "first_name": f"{MARK}first",
            "last_name": f"{MARK}last",
            "email": f"{MARK}.mail@example.com",
            "phone": "+1 202 555 0187",
            "preferred_contact": "email",
            "address": {
                name: f"{MARK}{name}"
                for name in ("address_line_1", "address_line_2", "city", "state", "zip", "country")
            },
        },
        vehicle_of_interest={"vin": f"{MARK}VIN", "stock": f"{MARK}stock", "make": f"{MARK}make", "x": f"{MARK}extra"},
        trade_in={"vin": f"{MARK}tradein", "make": f"{MARK}trademake", "notes": f"{MARK}tradenotes"},
        appointment={"appointment_type": "sales", "notes": f"{MARK}notes", "appointment_at": "2027-03-04T15:00:00Z"},
        message=f"{MARK}message",
        source_agent={"name": f"{MARK}agent", "url": f"https://{MARK}.example.com"},
        idempotency_key=f"{MARK}key",
        **members,
    )


def bodies(payload: dict[str, Any]) -> list[tuple[str, bytes]]:
    """One payload on each binding."""
    sent = message("lead.submit")
    sent["message"]["parts"][0]["data"] = payload
    rpc = {"jsonrpc": "2.0", "id": f"{MARK}id", "method": "SendMessage", "params": sent}
    return [("/message:send", json.dumps(sent).encode()), ("/rpc", json.dumps(rpc).encode())]


PERSONAL = (MARK, MARK.lower(), MARK.upper(), "202 555 0187", "2025550187", "198.51.100.77", "dat_")


def holds_nothing_personal(text: str) -> None:
    for each in PERSONAL:
        assert each not in text, text[max(0, text.index(each) - 200) : text.index(each) + 200]


@contextmanager
def serving(folder: Path) -> Iterator[tuple[httpx.Client, Running]]:
    """`dealer-agent serve` in its own process, which logs faults."""
    running = start(folder)
    try:
        with httpx.Client(base_url=running.url, timeout=120) as client:
            yield client, running
        running.signal(signal.SIGTERM)
        assert running.process.wait(120) == 0
    finally:
        running.kill_all()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, stocked: Path) -> tuple[list[httpx.Response], str]:
    """The answers to leads that are taken, that are refused for every reason, and that meet a broken database; and
    everything that the process wrote."""
    folder = tmp_path_factory.mktemp("served")
    set_up(folder, '[service]\ntrusted_proxies = ["127.0.0.1"]\n[logs]\nlevel = "debug"\n' + NO_LIMITS, stocked=stocked)
    headers = {
        "content-type": "application/json",
        "user-agent": f"{MARK}-browser",
        "referer": f"https://{MARK}.example.com/?q={MARK}",
        "x-forwarded-for": "198.51.100.77",
        "cookie": f"session={MARK}",
    }
    good = marked_lead()
    refused: list[dict[str, Any]] = [
        {**good, "nickname": MARK},
        {**good, "customer": {**good["customer"], "email": f"{MARK} no address"}},
        {**good, "customer": {**good["customer"], "phone": f"{MARK}"}},
        {**good, "customer": f"{MARK}"},
        {**good, "message": [f"{MARK}"]},
        {**good, "consent": {**good["consent"], "consent_text": "", "granted_at": MARK}, "idempotency_key": f"{MARK}2"},
        {**good, "consent": {**good["consent"], "scope": [MARK]}, "idempotency_key": f"{MARK}3"},
        {**good, "type": f"{MARK}.request"},
        {**good, "source_agent": [MARK]},
        {**good, "message": f"{MARK} another payload under the same key"},
        {**good, "appointment": {"appointment_type": "test_drive"}, "idempotency_key": f"{MARK}4"},
    ]
    answers: list[httpx.Response] = []
    with serving(folder) as (client, running):

        def send(payload: dict[str, Any], **more: str) -> None:
            for path, content in bodies(payload):
                answers.append(client.post(path, content=content, headers=headers | more))

        send(good)
        for each in refused:
            send(each)
        send(good, authorization=f"Bearer dat_{MARK}_{MARK}")
        send(good, **{"content-type": f"text/{MARK}"})
        send(good, **{"a2a-version": f"{MARK}"})
        for path, content in bodies(good):
            answers.append(client.post(path, content=content[:-20], headers=headers))
            answers.append(client.post(f"/{MARK}{path}?q={MARK}", content=content, headers=headers))
        for path in (f"/visit/{MARK}", f"/contact/{MARK}?q={MARK}"):
            assert client.get(path, headers=headers).status_code == 404
            assert client.post(path, content=f"do={MARK}", headers=headers).status_code == 404
        with closing(sqlite3.connect(folder / DATABASE)) as database:
            database.execute("DROP TABLE leads")
        send(marked_lead() | {"idempotency_key": f"{MARK}5"})
    return answers, running.said.read_text("utf-8") + running.stderr()


@pytest.mark.requirement("nothing-internal-leaves", "personal-data-not-echoed")
def test_no_output_of_the_process_contains_personal_data(served: tuple[list[httpx.Response], str]) -> None:
    answers, written = served
    assert written.count('"event":"request"') >= len(answers) - 2
    assert '"event":"fault"' in written
    holds_nothing_personal(written)


@pytest.mark.requirement("personal-data-not-echoed")
def test_no_answer_contains_data_of_the_customer(served: tuple[list[httpx.Response], str]) -> None:
    answers, _ = served
    assert {200, 401, 403, 404, 409, 415, 422, 500} <= {answer.status_code for answer in answers}
    for answer in answers:
        text = answer.text.replace(f'"id":"{MARK}id"', "")
        # Names of unknown skills and agents, and media types, are not data of a customer.
        if answer.status_code not in (404,) and "UNSUPPORTED_SKILL" not in text and "source_agent" not in text:
            holds_nothing_personal(text)


@pytest.mark.requirement("error-id-in-log", "error-internal-error", "rpc-internal")
def test_an_unexpected_exception_is_answered_as_internal_error_and_logged_with_its_id(
    served: tuple[list[httpx.Response], str],
) -> None:
    answers, written = served
    over_http, over_rpc = answers[-2:]
    assert over_http.status_code == 500
    assert over_rpc.status_code == 200
    assert over_rpc.json()["error"]["code"] == -32603
    for answer in (over_http, over_rpc):
        error = error_of(answer)
        assert (error["code"], error["retryable"]) == ("INTERNAL_ERROR", True)
        lines = [line for line in written.splitlines() if error["error_id"] in line]
        assert any('"event":"fault"' in line for line in lines)
        inside = json.dumps([error, answer.json()])
        for each in ("SELECT", "INSERT", "sqlite", "Traceback", "File ", ".py", str(Path.home()), "leads"):
            assert each not in inside


@pytest.mark.requirement("error-id-in-log")
def test_every_error_id_is_in_the_log(served: tuple[list[httpx.Response], str]) -> None:
    answers, written = served
    for answer in answers:
        if "error" in answer.json():
            assert error_of(answer)["error_id"] in written, answer.text


class Broken:
    """A catalogue whose exception has a message that must not get into a log or a response."""

    def __init__(self, secret: str) -> None:
        self.secret = secret

    def __len__(self) -> int:
        return 0

    def search(self, *_: Any) -> Any:
        raise ValueError(f"{self.secret}: SELECT * FROM leads; /srv/dealer/secrets.key")


@pytest.mark.requirement("nothing-internal-leaves")
def test_an_unexpected_exception_reveals_nothing_in_the_reply(
    tmp_path: Path, stocked: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    set_up(tmp_path, stocked=stocked)
    secret = "s3cr3t-4711"
    answers = []
    with run_dealership(tmp_path) as opened:
        service = opened.service
        broken: Any = Broken(secret)
        service.dealer = replace(service.dealer, catalogue=broken)
        for vendor in ("proto", "autoagent"):
            sent = message("inventory.search", vendor, filters={"query": f"{secret} customer"})
            answers += [opened.post(sent), opened.call_rpc(sent)]
    logged = capfd.readouterr().err
    assert [answer.status_code for answer in answers] == [500, 200, 500, 200]
    for answer in answers:
        text = json.dumps(answer.json()["error"])
        assert "INTERNAL_ERROR" in text
        for each in (secret, "SELECT", "ValueError", "Traceback", ".py", "/srv", str(tmp_path)):
            assert each not in text
    assert secret not in logged
    assert "SELECT" not in logged
    assert logged.count('"event":"fault"') == len(answers)
    assert "ValueError" in logged


@pytest.mark.requirement("nothing-internal-leaves")
def test_no_error_reveals_a_path_a_statement_or_a_secret(open_dealership: OpenDealership, tmp_path: Path) -> None:
    opened: Dealership = open_dealership('[auth]\nmode = "bearer"\nskills = ["lead.submit"]\n' + NO_LIMITS)
    _, token = opened.new_token()
    answers = [
        opened.post(b"{"),
        opened.post(b"{", "/rpc"),
        opened.post(message("lead.submit")),
        opened.post(message("lead.submit"), token=token[:-2]),
        opened.post(message("inventory.vehicle", vin="../../etc/passwd")),
        opened.post(message("inventory.vehicle", vin=SOLD)),
        opened.post(message("inventory.search", filters={"stock": "'; DROP TABLE units; --", "year_min": ACCORD})),
        opened.get("/../../etc/passwd"),
        opened.get("/tasks/1"),
    ]
    for answer in answers:
        error = error_of(answer)
        text = json.dumps({**error, "details": {**error["details"], "errors": [], "received": ""}})
        for each in ("Traceback", ".py", str(tmp_path), DATABASE, "SELECT", "sqlite", token, "msgspec", "jsonschema"):
            assert each not in text
