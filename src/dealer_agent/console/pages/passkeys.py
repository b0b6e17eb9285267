"""What the pages with passkeys share: the answers of browsers, and the JSON for the script of the pages."""

import msgspec
from starlette.responses import Response

from dealer_agent.console.credentials import MAX_ANSWER_BYTES
from dealer_agent.console.requests import ConsoleRequest, refuse
from dealer_agent.storage.console.sign_ins import prove_session
from dealer_agent.storage.transaction import Transaction


def passkey_answer(request: ConsoleRequest) -> bytes:
    """What the browser says about a passkey. Raises Answer for a large one."""
    if len(request.body) > MAX_ANSWER_BYTES:
        refuse("The browser's answer is too large.", 413)
    return request.body


def prove(tx: Transaction, request: ConsoleRequest) -> None:
    """Stores that the person of the session has proved who they are."""
    assert request.session_hash is not None, "the act needs a session"
    prove_session(tx, request.session_hash)


def go_json(path: str) -> Response:
    """Tells the script to open a page."""
    return json_response(msgspec.json.encode({"go": path}))


def problem_json(words: str, status: int) -> Response:
    """Tells the script what to show."""
    return json_response(msgspec.json.encode({"problem": words}), status)


def json_response(document: bytes, status: int = 200) -> Response:
    """A response with JSON."""
    return Response(document, status, media_type="application/json")
