"""A CRM that accepts every lead and stores none.

    python -m uvicorn --factory benchmarks.peers.crm:app

`GET /` returns the number of accepted leads.
"""

from starlette.types import ASGIApp, Receive, Scope, Send


def app() -> ASGIApp:
    """Reads each request and answers it without a delay."""
    taken = 0

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal taken
        while (await receive()).get("more_body"):
            pass
        taken += scope["method"] == "POST"
        body = b"" if scope["method"] == "POST" else str(taken).encode()
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return answer
