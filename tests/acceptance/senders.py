"""Buyers who send leads as fast as they are answered, and note every response."""

import itertools
import threading
from typing import Any

import httpx
from tests.acceptance.asking import answer, body, lead
from tests.acceptance.running import eventually

_numbers = itertools.count(1)


class Senders:
    """Threads, each with a connection of its own, that stop at the first request that gets no response."""

    def __init__(self, url: str, count: int) -> None:
        self.url = url
        self.answered: dict[str, str] = {}
        """The lead ids that were answered, by the idempotency key of the request."""
        self.failures: list[str] = []
        self.leads: dict[str, dict[str, Any]] = {}
        self._threads = [threading.Thread(target=self._send, daemon=True) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def _send(self) -> None:
        with httpx.Client(timeout=120) as client:
            while True:
                number = next(_numbers)
                key = f"key-{number}"
                self.leads[key] = lead(number, idempotency_key=key)
                try:
                    response = client.post(f"{self.url}/message:send", json=body("lead.submit", **self.leads[key]))
                except httpx.TransportError:
                    return
                try:
                    self.answered[key] = answer(response, "lead.submit")["lead_id"]
                except (AssertionError, KeyError, ValueError) as failure:
                    self.failures.append(f"{response.status_code} {response.text} {failure!r}")
                    return

    def wait_for(self, answers: int) -> None:
        """Waits until so many leads are answered."""
        eventually("leads are answered", lambda: len(self.answered) >= answers)

    def join(self) -> None:
        """Waits until every one of them has lost the service."""
        for thread in self._threads:
            thread.join(240)
            assert not thread.is_alive()
        assert not self.failures, self.failures
