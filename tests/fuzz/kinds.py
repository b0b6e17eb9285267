"""What generated inputs test: decoders, the whole application, feed readers, settings.

A kind makes an input from a source of random numbers, takes it, and says how it was answered. A response that breaks a
promise is an AssertionError; so is any other exception, when the caller counts it.
"""

import csv
import hashlib
import io
import json
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from tests.config.test_loading import EVERYTHING, LEAST
from tests.feeds.files.test_feed_files import VALID
from tests.feeds.files.test_feed_files import check as feed_check
from tests.feeds.files.test_feed_json_layouts import FILES as JSON_FEEDS
from tests.feeds.files.test_feed_layouts import FILES as TABLE_FEEDS
from tests.fuzz.hostile import RICH, TARGETS
from tests.fuzz.judging import AnswerJudge
from tests.fuzz.mutation import Documents, damaged, settings_file, table
from tests.fuzz.sending import Answer
from tests.protocol.bodies import STEMS, WIRE, body, call
from tests.protocol.test_two_decoders import VALID as VALID_BODIES
from tests.protocol.test_two_decoders import assert_same_request

from dealer_agent.config import SettingsError, load_settings
from dealer_agent.config.new_dealer_file import dealer_toml
from dealer_agent.demo import demo_dealer_toml
from dealer_agent.feeds.files.layouts import LAYOUT_NAMES
from dealer_agent.protocol.envelope import Request, check_request, decode_plain_request
from dealer_agent.protocol.errors import ProtocolError
from dealer_agent.protocol.json_body import read_json
from dealer_agent.protocol.json_rpc import decode_call, decode_plain_call
from dealer_agent.protocol.task_list import TaskPage
from dealer_agent.server.fast_path import DEALERS, FAST_BODY_BYTES
from dealer_agent.server.guards import IncomingRequest
from dealer_agent.server.request_pipeline import answer_plain, decode_plain

ACCEPTED = "accepted"
"""The outcome of an accepted input begins with this."""


FILE_BOUND = 200
"""Units of work for a file of the dealer's own, of at most `LARGEST_FILE` bytes: no stranger sends it, and it is read
once.
"""

LARGEST_FILE = 32 * 1024

UNIT_BYTES, UNIT_NUMBERS = 256 * 1024, 24_000

BEYOND_A_DOUBLE = re.compile(rb"\d{300}|[eE]\+?\d{3}")
"""The full decoder refuses such a number. The plain decoder skips it in a member that the service does not read."""


class Sent(NamedTuple):
    """A request to the application."""

    method: str
    target: str
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


@dataclass(frozen=True)
class Kind:
    """One kind of input.

    Of a thousand inputs, `share` are of this kind. What `take` returns is awaited when it is awaitable. `clock` counts
    the processor time of the thread, or of the process where other threads do a part of the work.
    """

    name: str
    share: int
    make: Callable[[Random], Any]
    take: Callable[[Any], str | Awaitable[str]]
    clock: Callable[[], float] = time.thread_time
    bound: int = 20
    """Units of work (`unit_of_work`) that no input may cost; of a request, at 1,000 vehicles."""


def unit_of_work() -> float:
    """Seconds of processor time that a fixed calculation takes now: 1 ms on a quiet machine of 2026.

    Costs are compared with it, because another program on the same core makes both slower.
    """
    before = time.thread_time()
    hashlib.sha256(bytes(UNIT_BYTES)).digest()
    sum(range(UNIT_NUMBERS))
    return time.thread_time() - before


def _bodies() -> Documents:
    """Valid and invalid bodies of all skills in both vocabularies."""
    documents: list[Any] = [*VALID_BODIES]
    for vendor in ("proto", "autoagent"):
        documents += [body(skill, vendor) for skill in STEMS]
        documents += [body(skill, vendor, **members) for skill, members in RICH.items()]
    lead = body("lead.submit", trade_in={"year": 2015, "make": "Ford", "mileage": 90000, "other_attributes": {"a": 1}})
    lead["message"]["parts"][0]["data"]["source_agent"] = {"name": "Example Agent", "url": "https://agent.example.com"}
    timed = body(
        "lead.submit",
        appointment={"appointment_type": "sales", "appointment_at": "2027-01-05T15:00:00Z", "notes": "By the door."},
        message="Is it there?",
        idempotency_key="key-2",
    )
    timed["message"]["parts"][0]["data"]["customer"] |= {
        "phone": "+12025550123",
        "preferred_contact": "email",
        "address": {"address_line_1": "1 Example Way", "city": "Nashville", "state": "TN", "zip": "37201"},
    }
    texts = body("inventory.search", filters={"query": "used awd hybrid suv", "exterior_color": ["white"]})
    texts["message"] |= {"contextId": "c-1", "metadata": {"a": [1, {"b": None}]}}
    texts["message"]["parts"].insert(0, {"text": "Hello", "mediaType": "text/plain"})
    return Documents([*documents, lead, timed, texts])


def envelope_kind() -> Kind:
    """Bodies of `POST /message:send`, decoded by both decoders."""
    bodies = _bodies()

    def take(sent: bytes) -> str:
        # The service uses the plain decoder first only for short bodies.
        fast = decode_plain_request(sent, WIRE) if len(sent) <= FAST_BODY_BYTES else None
        try:
            slow: Request | ProtocolError = check_request(read_json(sent), WIRE)
        except ProtocolError as error:
            slow = error
        return _verdict(sent, fast, slow)

    return Kind("envelope", 460, lambda source: bodies.text(source, bodies.picked(source)), take)


def json_rpc_kind() -> Kind:
    """JSON-RPC frames."""
    bodies = _bodies()

    def make(source: Random) -> bytes:
        frame = call(bodies.picked(source))
        frame["id"] = source.choice((1, "a", None, 2**70, 1.5, "\ud83d\ude00"))
        if source.random() < 0.1:
            frame["method"] = source.choice(("GetTask", "ListTasks", "message/send", "SendStreamingMessage", ""))
        frames = [frame] if source.random() < 0.02 else frame
        return bodies.text(source, frames)

    def take(sent: bytes) -> str:
        fast = decode_plain_call(sent, WIRE) if len(sent) <= FAST_BODY_BYTES else None
        rpc_id, verdict = decode_call(sent, WIRE)
        assert not isinstance(json.loads(rpc_id), dict | list | bool), rpc_id
        assert fast is None or fast[0] == rpc_id
        if isinstance(verdict, TaskPage):
            return f"{ACCEPTED} by the slow way: ListTasks"
        return _verdict(sent, fast[1] if fast else None, verdict)

    return Kind("JSON-RPC", 230, make, take)


def _verdict(sent: bytes, fast: Request | None, slow: Request | ProtocolError) -> str:
    if fast is not None and isinstance(slow, ProtocolError) and BEYOND_A_DOUBLE.search(sent):
        return f"{ACCEPTED} by the fast way, which skips a number beyond a double: {fast.skill.id}"
    if fast is not None:
        assert_same_request(fast, slow)
        return f"{ACCEPTED} by both ways: {fast.skill.id}"
    if isinstance(slow, ProtocolError):
        assert slow.http < 500
        return f"refused: {slow.code}"
    assert bool(slow.problems) is (slow.payload is None)
    return f"refused: payload of {slow.skill.id}" if slow.problems else f"{ACCEPTED} by the slow way: {slow.skill.id}"


_JSON_HEADER = (b"content-type", b"application/json")
_HEADERS = (
    (b"content-type", b"application/a2a+json; charset=utf-8"),
    (b"content-type", b"text/plain"),
    (b"a2a-version", b"1.0"),
    (b"a2a-version", b"0.3"),
    (b"a2a-extensions", b"https://proto.example/extensions/a2a-automotive-retail/v1.0, x"),
    (b"authorization", b"Bearer dat_x"),
    (b"authorization", b"Basic \xff"),
    (b"accept", b"\xff"),
)
_ELSEWHERE = (
    "/",
    "/docs",
    "/openapi.json",
    "/schemas",
    "/schemas/x",
    "/cards/1.0.0.json",
    "/healthz",
    "/tasks/1",
    "/\x00",
)

App = Callable[[Any, Any, Any], Awaitable[None]]


def application_kind(app: App, state: dict[str, Any], judge: AnswerJudge) -> Kind:
    """Requests to the whole application, on the fast path where that is possible, else over
    ASGI. `state` is what the application's lifespan has left for its connections."""
    bodies = _bodies()
    dealers = state[DEALERS]

    def make(source: Random) -> Sent:
        if source.random() < 0.02:
            path = source.choice(_ELSEWHERE) + source.choice(("", "", "/", "?a=%00", "%2e%2e"))
            return Sent(source.choice(("GET", "GET", "HEAD", "PUT")), path, (), b"")
        target = source.choice(TARGETS)
        document = bodies.picked(source)
        headers = [_JSON_HEADER]
        if source.random() < 0.3:
            headers.append(source.choice(_HEADERS))
        sent = bodies.text(source, call(document) if target == "/rpc" else document)
        return Sent("POST", target, tuple(headers), sent)

    async def take(sent: Sent) -> str:
        answer = on_fast_path(sent) or await over_asgi(app, sent)
        if sent.method == "POST":
            judge.judge(answer, sent.target, sent=len(sent.body))
        else:
            assert answer.status < 500, answer
            return f"{answer.status} elsewhere"
        if answer.status == 200 and b'"error"' not in answer.body[:60] and b'"error":{' not in answer.body[-2000:]:
            return f"{ACCEPTED}: {_member(answer.body, 'type')}"
        return f"refused: {_member(answer.body, 'code')}"

    def on_fast_path(sent: Sent) -> Answer | None:
        found = dealers.find_binding(b"", sent.target.encode())
        if found is None or sent.method != "POST" or len(sent.body) > FAST_BODY_BYTES:
            return None
        service, binding = found
        incoming = IncomingRequest(binding, service, list(sent.headers), dict(sent.headers), "198.51.100.7")
        if not decode_plain(incoming, sent.body):
            return None
        reply = answer_plain(incoming)
        head = dict(line.split(b": ", 1) for line in reply.head.split(b"\r\n")[:-1])
        return Answer(reply.status, {"content-type": head[b"content-type"].decode()}, b"".join(reply.body))

    # Other threads write leads, so the processor time of the whole process counts.
    return Kind("application", 200, make, take, time.process_time)


def _member(answer: bytes, name: str) -> str:
    """The first string with this name in a response."""
    return answer.partition(b'"%b":"' % name.encode())[2].partition(b'"')[0].decode()


async def over_asgi(app: App, sent: Sent) -> Answer:
    """The application's answer."""
    path, _, query = sent.target.partition("?")
    length = (b"content-length", str(len(sent.body)).encode())
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": sent.method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [*sent.headers, length],
        "client": ("198.51.100.7", 40_000),
        "server": ("127.0.0.1", 8080),
    }
    messages: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": sent.body, "more_body": False}

    async def send(message: Any) -> None:
        messages.append(message)

    await app(scope, receive, send)
    start, *bodies = messages
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in start["headers"]}
    return Answer(start["status"], headers, b"".join(message.get("body", b"") for message in bodies))


def feed_kind() -> Kind:
    """Small feed files of every layout, tables and JSON."""
    tables = [list(_rows(data.decode())) for _, data, _ in TABLE_FEEDS]
    records = Documents(
        [json.loads(data) for _, data, _ in JSON_FEEDS if data[:1] in b"[{"]
        + [json.loads(VALID[2]), json.loads(VALID[3])]
    )
    pages = [data for _, data, _ in JSON_FEEDS if data[:1] == b"<"]

    def make(source: Random) -> tuple[bytes, str | None]:
        choice = source.random()
        if choice < 0.6:
            data = table(source, source.choice(tables))
        elif choice < 0.95:
            data = records.text(source, records.picked(source))
        else:
            data = damaged(source, source.choice(pages))
        layout = source.choice(LAYOUT_NAMES) if source.random() < 0.1 else None
        return (data, layout) if len(data) <= LARGEST_FILE else make(source)

    def take(given: tuple[bytes, str | None]) -> str:
        feed = feed_check(*given)
        if feed is None:
            return "refused: FeedError"
        return f"{ACCEPTED}: {feed.layout}" if feed.units else f"{ACCEPTED} without a unit: {feed.layout}"

    return Kind("feed", 70, make, take, bound=FILE_BOUND)


def _rows(text: str) -> list[list[str]]:
    delimiter = max("\t;,", key=text.partition("\n")[0].count)
    return list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))


_LITERALS = (
    *('""', '"x"', "1", "-1", "0", "0.5", "true", "[]", "{}", '["a"]', "[1]", "1979-05-27", "inf", "nan", "9" * 30),
    *('"EST"', '"Europe/Berlin"', '"9:00-5:00"', '"25:00-26:00"', '"5/minute"', '"5/"', '"https://x"', '"http://[::1"'),
    *('"10.0.0.0/8"', '"a@b"', '"+1"', '"/a/"', '"../x"', '"\\u0000"', "'''x'''", "{ a = 1 }", '[{ name = "x" }]'),
)


def settings_kind(folder: Path) -> Kind:
    """`dealer.toml` files; `folder` holds the key, and the file is written into it."""
    texts = [LEAST, EVERYTHING, *_sections(demo_dealer_toml()), *_sections(dealer_toml("My Store"))]
    literals = (
        *_LITERALS,
        *(line.partition(" = ")[2] for text in texts for line in text.splitlines() if " = " in line),
    )
    path = folder / "dealer.toml"

    def take(text: bytes) -> str:
        path.write_bytes(text)
        try:
            settings = load_settings(folder, {})
        except SettingsError as refused:
            problems = str(refused)
        else:
            return f"{ACCEPTED}: {len(settings.dealer.rooftops)} rooftops"
        assert problems.startswith("dealer.toml")
        return "refused: SettingsError"

    return Kind("settings", 40, lambda source: settings_file(source, texts, literals), take, bound=FILE_BOUND)


def _sections(text: str) -> list[str]:
    """For each section of a file: the shortest valid file with this section added, without comments."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    sections: list[list[str]] = []
    for line in lines:
        if line.startswith("["):
            sections.append([])
        if sections:
            sections[-1].append(line)
    return [LEAST + "\n".join(section) for section in sections]
