"""Many buyers who send at one moment, each on a connection of its own."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
from tests.acceptance.asking import body


def send_at_once(url: str, leads: Sequence[dict[str, Any]]) -> list[httpx.Response]:
    """The answers to these leads, in their order. Everybody is connected before anybody sends."""
    ready = threading.Barrier(len(leads), timeout=240)

    def send(members: dict[str, Any]) -> httpx.Response:
        with httpx.Client(timeout=240, verify=False) as client:
            client.get(f"{url}/healthz")
            ready.wait()
            return client.post(f"{url}/message:send", json=body("lead.submit", **members))

    with ThreadPoolExecutor(len(leads)) as buyers:
        return list(buyers.map(send, leads))
