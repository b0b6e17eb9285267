"""Counts requests on the event loop: a few dictionary operations for each one. `server.counting` does the rest.

A request counts by its skill, its outcome and its agent. Besides, the first requests of each second are kept until the
end of that second, so that `server.counting` can read their words in a thread.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct

from dealer_agent.protocol.replies import Answer
from dealer_agent.protocol.responses import LeadStatus
from dealer_agent.protocol.skill import InventorySearchRequest, InventoryVehicleRequest, Payload
from dealer_agent.storage.daily_counts import DUPLICATE, OK, OTHER, REPEATED

MOST_KEPT = 50
"""The most searches and vehicle requests of a dealer and second whose words are counted in each process."""
MOST_KINDS = 500
"""The most combinations of skill, outcome and agent that are counted apart until the next step."""
LONGEST_NAME = 100
"""How many bytes of a `User-Agent` are compared with the names of the dealer's list."""
UNKNOWN_SKILL = "unknown"
"""The skill of a request that is refused before its skill is known."""


Answered = tuple[InventorySearchRequest | InventoryVehicleRequest, bytes]
"""The payload of an answered request, and the beginning of the JSON of its response's `data`."""


class Counted(NamedTuple):
    """What a dealer's requests of about one second were: their number by (skill, outcome, agent), and the kept ones.

    `zone` is the dealer's time zone. An agent is the id of a token, a name of the dealer's list, or OTHER.
    """

    dealer_id: str
    zone: str
    requests: dict[tuple[str, str, str], int]
    kept: list[Answered]


class DealerCounts:
    """The counts of one dealer's requests since the last `take`. Use it on the event loop only.

    While nothing is counted, it is not among the `active` ones. So idle dealers cost nothing.
    """

    __slots__ = ("_active", "_agents", "_answered", "_dealer_id", "_kept", "_requests", "_zone")

    def __init__(self, dealer_id: str, zone: str, agents: Sequence[str], active: "list[DealerCounts]") -> None:
        """`agents` are the names that the dealer wants to see. They are compared without regard to case."""
        self._dealer_id = dealer_id
        self._zone = zone
        self._agents = [(name.lower().encode(), name) for name in agents]
        self._active = active
        # Answers to agents without a known name, by skill: most requests. A plain key is faster than a tuple.
        self._answered: dict[str, int] = {}
        self._requests: dict[tuple[str, str, str], int] = {}
        self._kept: list[Answered] = []

    def count_answer(
        self, skill: str, token_id: str | None, fields: Mapping[bytes, bytes], payload: Payload | None, data: bytes
    ) -> None:
        """Counts an answered request, and keeps it while there is room. `data` begins the JSON of the response's data.

        `fields` are the headers of the request.
        """
        if token_id is None and not self._agents:
            try:
                self._answered[skill] += 1
            except KeyError:
                self._register()
                self._answered[skill] = 1
        else:
            self.count(skill, OK, token_id, fields)
        if len(self._kept) < MOST_KEPT and isinstance(payload, InventorySearchRequest | InventoryVehicleRequest):
            self._kept.append((payload, data))

    def count(self, skill: str, outcome: str, token_id: str | None, fields: Mapping[bytes, bytes]) -> None:
        """Counts a request with its outcome."""
        kind = skill, outcome, token_id or self._listed(fields.get(b"user-agent", b""))
        if kind not in self._requests:
            self._register()
            if len(self._requests) >= MOST_KINDS:
                kind = skill, outcome, OTHER
        self._requests[kind] = self._requests.get(kind, 0) + 1

    def take(self) -> Counted:
        """Returns the counts, and begins again."""
        requests = self._requests
        for skill, number in self._answered.items():
            kind = skill, OK, OTHER
            requests[kind] = requests.get(kind, 0) + number
        taken = Counted(self._dealer_id, self._zone, requests, self._kept)
        self._answered, self._requests, self._kept = {}, {}, []
        return taken

    def _register(self) -> None:
        if not self._requests and not self._answered:
            self._active.append(self)

    def _listed(self, user_agent: bytes) -> str:
        """The name of the dealer's list with which a `User-Agent` begins."""
        given = user_agent[:LONGEST_NAME].lower()
        return next((name for beginning, name in self._agents if given.startswith(beginning)), OTHER)


class _Receipt(Struct):
    status: LeadStatus


_receipt = msgspec.json.Decoder(_Receipt)


def lead_outcome(answer: Answer) -> str:
    """The outcome of an accepted lead: OK for a new one, DUPLICATE for an addition, REPEATED for a repeated request."""
    if answer.is_repeated:
        return REPEATED
    return DUPLICATE if _receipt.decode(answer.data).status == "duplicate" else OK


class RequestCounts:
    """The counts of all dealers of a process."""

    def __init__(self) -> None:
        self._active: list[DealerCounts] = []

    def of_dealer(self, dealer_id: str, zone: str, agents: Sequence[str] = ()) -> DealerCounts:
        """The counts of a dealer, for its service."""
        return DealerCounts(dealer_id, zone, agents, self._active)

    def take(self) -> list[Counted]:
        """Returns what was counted since the last call."""
        taken = [dealer.take() for dealer in self._active]
        self._active.clear()
        return taken
