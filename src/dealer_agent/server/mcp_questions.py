"""Asks people about leads through MCP hosts of the revisions 2025-06-18 and 2025-11-25 (docs/how-to/mcp.md).

In these revisions the server asks with a request of its own on the stream of the tool call, and the host sends the
answer as another POST, which may reach another worker or machine. So:

- A session needs no memory of a process. Its id is an encrypted text with all that is known of the host.
- The answer waits in the database until the process that holds the stream has read it.
- The id of the event with the question is the call itself, encrypted. If the stream breaks, any process continues with
  `Last-Event-ID`: the person is not asked again.

The tool is called as in the revision 2026-07-28: its first response is the question, and a second call has the answer.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from starlette.types import Receive, Scope, Send

from dealer_agent.mcp_tools.consent import ANSWER_SECONDS, LONGEST_AGENT, one_line
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.server.client_address import scope_address
from dealer_agent.server.service import Service
from dealer_agent.storage.errors import StorageError

Json = dict[str, Any]
CallTool = Callable[[Json], Awaitable[Json]]
"""Sends one JSON-RPC request of the revision 2026-07-28 to the tools, and returns the response."""

REVISION: Final = "2026-07-28"
ASKING_REVISIONS: Final = ("2025-06-18", "2025-11-25")
"""The revisions in which a server asks with a request of its own."""

SESSION_SECONDS: Final = 86_400
"""The life of a session. Then the host begins another one."""
QUESTION_SECONDS: Final = ANSWER_SECONDS - 30
"""The life of a question: the state of the call lives a little longer."""
LOOK_SECONDS = 1.0
"""How often a stream looks for the answer."""
BEAT_SECONDS = 15.0
"""How often a waiting stream sends a comment, so that no proxy takes it for dead."""
MOST_WAITING: Final = 64
"""The questions of a process that may wait at the same time."""
MOST_OF_ADDRESS: Final = 16
"""The questions that may wait for one IP address: assistants on servers call for many people from few addresses."""
RETRY_MILLISECONDS: Final = 3_000
"""When a host continues a stream that broke: load balancers then know that the machine is gone."""
LONGEST_EVENT_ID: Final = 6_000
"""Characters. Servers and proxies refuse a request with longer headers."""

_SESSION, _QUESTION, _STREAM, _ANSWER = "session", "question", "stream", "answer"
"""What a sealed text is for."""
_CONSENT: Final = "consent"
"""The name of the question in a call of the tool."""
_SSE_HEADERS = [
    (b"content-type", b"text/event-stream"),
    # nginx would keep the question back.
    (b"x-accel-buffering", b"no"),
]


class McpSession(NamedTuple):
    """What is known of a host. `client` is its name."""

    id: str
    client: str


class EncryptedTexts:
    """Encrypted texts of one dealer that only a process with the dealer's keys can make or read."""

    def __init__(self, service: Service) -> None:
        from mcp.server.request_state import AESGCMRequestStateCodec

        self._codec = AESGCMRequestStateCodec([service.mcp_key])
        self._dealer_id = service.dealer_id

    def seal(self, kind: str, expires_at: datetime, content: object) -> str:
        """A text of this kind, which is valid until a time."""
        return self._codec.seal(json.dumps([kind, self._dealer_id, expires_at.timestamp(), content]).encode())

    def open(self, kind: str, text: str) -> Any:
        """The content of a text of this kind. None if it is expired, or was not made by this dealer."""
        from mcp.server.request_state import InvalidRequestState

        try:
            sealed = json.loads(self._codec.unseal(text))
        except (InvalidRequestState, ValueError):
            return None
        match sealed:
            case [named, dealer_id, float(expires_at), content] if (named, dealer_id) == (kind, self._dealer_id):
                return content if datetime.now(UTC).timestamp() < expires_at else None
        return None


def new_session(service: Service, request: Mapping[str, Any], response: Mapping[str, Any]) -> str | None:
    """The id of a session for a host that has sent `initialize` and can show a form; None for any other host."""
    match request, response:
        case (
            {"method": "initialize", "params": {"capabilities": {"elicitation": dict(asks)}, "clientInfo": dict(info)}},
            {"result": {"protocolVersion": version}},
        ) if version in ASKING_REVISIONS and ("form" in asks or "url" not in asks):
            name = one_line(str(info.get("title") or info.get("name") or ""), LONGEST_AGENT)
            expires_at = datetime.now(UTC) + timedelta(seconds=SESSION_SECONDS)
            return EncryptedTexts(service).seal(_SESSION, expires_at, [new_ulid(), name])
    return None


def session_of(service: Service, session_id: str) -> McpSession | None:
    """The session with this id. None if it has expired, or is not one of this dealer."""
    content = EncryptedTexts(service).open(_SESSION, session_id)
    return None if content is None else McpSession(*content)


def is_answer(message: object) -> bool:
    """Whether a message of a host is a response."""
    return isinstance(message, dict) and "method" not in message and ("result" in message or "error" in message)


async def keep_answer(service: Service, session: McpSession, message: Json) -> bool:
    """Stores the answer to a question. False if there is no such question for this host. Raises StorageError."""
    seals = EncryptedTexts(service)
    question = seals.open(_QUESTION, str(message.get("id")))
    if question is None or question[1] != session.id:
        return False
    question_id, _, until = question
    expires_at = datetime.fromtimestamp(until, UTC)
    result = message.get("result")
    sealed = seals.seal(_ANSWER, expires_at, result if isinstance(result, dict) else None)
    await asyncio.to_thread(service.mcp_answers.put, question_id, sealed, expires_at)
    return True


class WaitingCall(NamedTuple):
    """A tool call that waits for a person. `request` is the second call of the tool, without the answer."""

    question_id: str
    session_id: str
    expires_at: float
    request: Json
    call_id: Any


class Questions:
    """The questions of a process that wait for people."""

    def __init__(self) -> None:
        # By the address of the client.
        self._waiting: Counter[str] = Counter()

    async def ask(
        self, scope: Scope, receive: Receive, send: Send, message: Json, session: McpSession, call: CallTool
    ) -> Json | None:
        """Calls a tool that may ask the person. None if the response has been sent as a stream; else the response."""
        service: Service = scope["service"]
        request = _as_newer_call(message, session)
        response = await call(request)
        result = response.get("result")
        if not isinstance(result, dict) or result.get("resultType") != "input_required":
            return _of_older_revision(response)
        with self._question_slot(service, scope) as has_slot:
            if not has_slot:
                return _not_sent(message["id"], "Too many people are being asked now. Try again in a minute.")
            until = datetime.now(UTC) + timedelta(seconds=QUESTION_SECONDS)
            request["params"]["requestState"] = result["requestState"]
            waiting = WaitingCall(new_ulid(), session.id, until.timestamp(), request, message["id"])
            seals = EncryptedTexts(service)
            params = result["inputRequests"][_CONSENT]["params"]
            question = {
                "jsonrpc": "2.0",
                "id": seals.seal(_QUESTION, until, [waiting.question_id, session.id, waiting.expires_at]),
                "method": "elicitation/create",
                "params": {name: params[name] for name in ("message", "requestedSchema")},
            }
            event_id = seals.seal(_STREAM, until, list(waiting))
            head = f"id: {event_id}\nretry: {RETRY_MILLISECONDS}\n" if len(event_id) <= LONGEST_EVENT_ID else ""
            await _stream(service, receive, send, waiting, call, f"{head}{_event(question)}")
        return None

    async def resume(
        self, scope: Scope, receive: Receive, send: Send, session: McpSession, event_id: str, call: CallTool
    ) -> bool:
        """Continues a stream that broke. False if there is no such stream, or no free slot."""
        service: Service = scope["service"]
        stream = EncryptedTexts(service).open(_STREAM, event_id)
        if stream is None or stream[1] != session.id:
            return False
        with self._question_slot(service, scope) as has_slot:
            if has_slot:
                await _stream(service, receive, send, WaitingCall(*stream), call, ": continued\n\n")
        return has_slot

    @contextmanager
    def _question_slot(self, service: Service, scope: Scope) -> Iterator[bool]:
        """A slot among the questions that wait. False if there is none."""
        address = scope_address(scope, service.settings.service.trusted_networks) or ""
        if self._waiting.total() >= MOST_WAITING or self._waiting[address] >= MOST_OF_ADDRESS:
            yield False
            return
        self._waiting[address] += 1
        try:
            yield True
        finally:
            self._waiting[address] -= 1
            # Removes the addresses that have no question any more.
            self._waiting += Counter()


async def _stream(
    service: Service, receive: Receive, send: Send, waiting: WaitingCall, call: CallTool, first: str
) -> None:
    """Sends the events of a question until it is answered or expires, or the host disconnects."""
    await send({"type": "http.response.start", "status": 200, "headers": list(_SSE_HEADERS)})
    gone = asyncio.ensure_future(_wait_for_disconnect(receive))
    try:
        await send(_part(first))
        async for event in _events(service, waiting, call, gone):
            await send(_part(event))
    finally:
        gone.cancel()
    await send({"type": "http.response.body", "body": b""})


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _events(
    service: Service, waiting: WaitingCall, call: CallTool, gone: "asyncio.Future[None]"
) -> AsyncIterator[str]:
    """Comments while the person decides, then the response to the call. None of it if the host or the server stops."""
    connections = service.process.connections
    quiet = 0.0
    while not gone.done() and not (connections is not None and connections.are_stopping):
        try:
            sealed = await asyncio.to_thread(service.mcp_answers.find, waiting.question_id)
        except StorageError:
            # The database may come back before the question expires.
            sealed = None
        if sealed is not None:
            yield _event(await _finish(service, waiting, sealed, call))
            return
        if datetime.now(UTC).timestamp() >= waiting.expires_at:
            yield _event(_not_sent(waiting.call_id, "The person has not answered in time."))
            return
        await asyncio.wait([gone], timeout=LOOK_SECONDS)
        quiet += LOOK_SECONDS
        if quiet >= BEAT_SECONDS:
            quiet = 0.0
            yield ": the person is being asked\n\n"


async def _finish(service: Service, waiting: WaitingCall, sealed: str, call: CallTool) -> Json:
    """Calls the tool with the answer, and removes the answer."""
    answer = EncryptedTexts(service).open(_ANSWER, sealed)
    if answer is None:
        response = _not_sent(waiting.call_id, "The host could not ask the person.")
    else:
        params = waiting.request["params"] | {"inputResponses": {_CONSENT: answer}}
        response = _of_older_revision(await call(waiting.request | {"params": params}))
    # If this fails, a job removes the answer later. Meanwhile, a second lead of it has the same idempotency key.
    with suppress(StorageError):
        await asyncio.to_thread(service.mcp_answers.remove, waiting.question_id)
    return response


def _as_newer_call(message: Json, session: McpSession) -> Json:
    """A call of a tool as a request of the revision 2026-07-28."""
    params = message["params"]
    meta = {
        "io.modelcontextprotocol/protocolVersion": REVISION,
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
        "io.modelcontextprotocol/clientInfo": {"name": session.client, "version": ""},
    }
    arguments = {name: params[name] for name in ("name", "arguments") if name in params}
    return {"jsonrpc": "2.0", "id": message["id"], "method": "tools/call", "params": arguments | {"_meta": meta}}


def _of_older_revision(response: Json) -> Json:
    """A response without the members that older revisions do not have."""
    if isinstance(response.get("result"), dict):
        shown = {name: value for name, value in response["result"].items() if name not in ("resultType", "_meta")}
        return response | {"result": shown}
    return response


def _not_sent(call_id: object, words: str) -> Json:
    content = [{"type": "text", "text": f"NOT SENT: {words}"}]
    return {"jsonrpc": "2.0", "id": call_id, "result": {"content": content, "isError": True}}


def _event(message: Json) -> str:
    return f"event: message\ndata: {json.dumps(message)}\n\n"


def _part(text: str) -> dict[str, Any]:
    return {"type": "http.response.body", "body": text.encode(), "more_body": True}
