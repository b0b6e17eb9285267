"""The same HTTP server with a constant response: the limit of uvicorn itself.

    python -m uvicorn --factory benchmarks.peers.static:app

`PUT /` sets the bytes of the response to every POST.
"""

from starlette.types import ASGIApp, Receive, Scope, Send


def app() -> ASGIApp:
    """Reads each request and sends the same bytes to every caller."""
    body, headers = b"", [(b"content-type", b"application/json"), (b"content-length", b"0")]

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal body, headers
        received = bytearray()
        while True:
            event = await receive()
            received += event.get("body", b"")
            if not event.get("more_body"):
                break
        if scope["method"] == "PUT":
            body = bytes(received)
            headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return answer
