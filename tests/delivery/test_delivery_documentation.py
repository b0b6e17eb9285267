"""docs/reference/delivery.md: its example checks real requests, its headers and states are those that there are."""

import asyncio
import re
from pathlib import Path
from typing import Any, get_args

import httpx
from tests.delivery.receivers import HttpReceiver, always, receiving_http
from tests.delivery.samples import parcel, sent

from dealer_agent.delivery.outlet import FORMATS
from dealer_agent.delivery.outlets.http import HttpOutlet
from dealer_agent.storage.deliveries.outbox import State

TEXT = (Path(__file__).parents[2] / "docs" / "reference" / "delivery.md").read_text(encoding="utf-8")


def test_the_example_verifies_the_signature_of_a_request() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)
    is_ours = names["is_ours"]
    with receiving_http(HttpReceiver(always("take"))) as receiver:

        async def send() -> None:
            async with httpx.AsyncClient() as client:
                await sent(HttpOutlet(client, receiver.url, FORMATS["adf"], 120, b"a secret"), parcel())

        asyncio.run(send())
    (posted,) = receiver.taken
    assert is_ours(posted.headers, posted.body, "a secret")
    assert not is_ours(posted.headers, posted.body, "another secret")
    assert not is_ours(posted.headers, posted.body + b" ", "a secret")
    later = str(int(posted.headers["x-timestamp"]) + 1)
    assert not is_ours(posted.headers | {"x-timestamp": later}, posted.body, "a secret")
    documented = {name.lower() for name in re.findall(r"^\| `((?:X-|Content-)[A-Za-z-]+)`", TEXT, re.MULTILINE)}
    ours = {name for name in posted.headers if name.startswith("x-")} | {"content-type"}
    assert documented == ours


def test_every_state_is_explained() -> None:
    for state in get_args(State):
        assert f"| `{state}` |" in TEXT
