"""The test vectors of RFC 9421, appendix B, and of the drafts of Web Bot Auth, in `vectors.json`."""

import json
from pathlib import Path
from typing import Any

from dealer_agent.http_signatures.signature_base import Response, SignableRequest

VECTORS: dict[str, Any] = json.loads(Path(__file__).with_name("vectors.json").read_text())


def message_of(case: dict[str, Any]) -> SignableRequest | Response:
    """The message of a vector."""
    headers = [(name.encode(), value.encode()) for name, value in case["headers"]]
    if "status" in case:
        return Response(case["status"], headers, SignableRequest("GET", case.get("authority", ""), "/", "", ()))
    return SignableRequest(case["method"], case["authority"], case["path"], case["query"], headers)
