"""Counts what agents ask each day: a few dictionary operations for each request, and the rest in a thread.

A request counts by its skill, its outcome and its agent. Besides, the first requests of each second are kept until the
end of that second. A thread then reads what buyers searched for (makes, models, prices), and saves all counts about
once a minute.

A process that is killed loses the counts of its last minute, and the last uses of tokens in it. If a connection breaks
during a commit, the requests of that minute may be counted twice.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

import msgspec
from msgspec import UNSET, Struct

from dealer_agent.callers.caller import token_id_of
from dealer_agent.inventory.asked_for import asked_for, has_price
from dealer_agent.inventory.catalogue import Catalogue
from dealer_agent.inventory.listing import LISTING_ID
from dealer_agent.protocol.requests import Filters
from dealer_agent.protocol.response_bodies import SkillResult
from dealer_agent.protocol.responses import LeadStatus
from dealer_agent.protocol.skill import InventorySearchRequest, InventoryVehicleRequest, Payload
from dealer_agent.server.repeated_steps import RepeatedSteps
from dealer_agent.storage.daily_counts import (
    DUPLICATE,
    MOST_ITEMS,
    OK,
    OTHER,
    REPEATED,
    SearchCount,
    Subject,
    add_counts,
)
from dealer_agent.storage.installation.registration import hold_registration
from dealer_agent.storage.isolation import ALL_DEALERS
from dealer_agent.storage.store import Store
from dealer_agent.storage.tokens import note_use

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


class RecentRequests(NamedTuple):
    """What a dealer's requests of about one second were: their number by (skill, outcome, agent), and the kept ones.

    `zone` is the dealer's time zone. `tokens` are the ids of the tokens that were used. An agent is the identity of a
    known caller, a name of the dealer's list, or OTHER.
    """

    dealer_id: str
    zone: str
    requests: dict[tuple[str, str, str], int]
    kept: list[Answered]
    tokens: set[str]


class DealerCounts:
    """The counts of one dealer's requests since the last `take`. Use it on the event loop only.

    While nothing is counted, it is not among the `active` ones. So idle dealers cost nothing.
    """

    __slots__ = ("_active", "_agents", "_answered", "_dealer_id", "_kept", "_requests", "_tokens", "_zone")

    def __init__(self, dealer_id: str, zone: str, agents: Sequence[str], active: "list[DealerCounts]") -> None:
        """`agents` are the names that the dealer wants to see. They are compared without regard to case."""
        self._dealer_id = dealer_id
        self._zone = zone
        self._agents = [(name.lower().encode(), name) for name in agents]
        self._active = active
        # Answers to agents without a known name, by skill: most requests. A plain key is faster than a tuple.
        self._answered: dict[str, int] = {}
        # By skill, outcome, and the identity of the caller or the name of its agent.
        self._requests: dict[tuple[str, str, str], int] = {}
        self._kept: list[Answered] = []
        self._tokens: set[str] = set()

    def count_answer(
        self, skill: str, caller: str, fields: Mapping[bytes, bytes], payload: Payload | None, data: bytes
    ) -> None:
        """Counts an answered request, and keeps it while there is room. `data` begins the JSON of the response's data.

        `caller` is the identity of the caller, empty if it is anonymous. `fields` are the headers of the request.
        """
        if not caller and not self._agents:
            try:
                self._answered[skill] += 1
            except KeyError:
                self._register()
                self._answered[skill] = 1
        else:
            self.count(skill, OK, caller, fields)
        if len(self._kept) < MOST_KEPT and isinstance(payload, InventorySearchRequest | InventoryVehicleRequest):
            self._kept.append((payload, data))

    def count(self, skill: str, outcome: str, caller: str, fields: Mapping[bytes, bytes]) -> None:
        """Counts a request with its outcome."""
        if (token_id := token_id_of(caller)) is not None:
            self._tokens.add(token_id)
        kind = skill, outcome, caller or self._listed(fields.get(b"user-agent", b""))
        if kind not in self._requests:
            self._register()
            if len(self._requests) >= MOST_KINDS:
                kind = skill, outcome, OTHER
        self._requests[kind] = self._requests.get(kind, 0) + 1

    def take(self) -> RecentRequests:
        """Returns the counts, and begins again."""
        requests = self._requests
        for skill, number in self._answered.items():
            kind = skill, OK, OTHER
            requests[kind] = requests.get(kind, 0) + number
        taken = RecentRequests(self._dealer_id, self._zone, requests, self._kept, self._tokens)
        self._answered, self._requests, self._kept, self._tokens = {}, {}, [], set()
        return taken

    def _register(self) -> None:
        if not self._requests and not self._answered:
            self._active.append(self)

    def _listed(self, user_agent: bytes) -> str:
        """The name of the dealer's list with which a `User-Agent` begins."""
        agent = user_agent[:LONGEST_NAME].lower()
        return next((name for beginning, name in self._agents if agent.startswith(beginning)), OTHER)


class _Receipt(Struct):
    status: LeadStatus


_receipt = msgspec.json.Decoder(_Receipt)


def lead_outcome(answer: SkillResult) -> str:
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

    def take(self) -> list[RecentRequests]:
        """Returns what was counted since the last call."""
        taken = [dealer.take() for dealer in self._active]
        self._active.clear()
        return taken


TAKE_SECONDS = 1.0
SAVE_SECONDS = 60.0
MOST_READ = 500
"""The most searches and vehicle requests of a second whose words a process reads. Dealers share it evenly."""
MOST_WAITING = 5
"""The most searches of a dealer that wait for the analysis of their price limits."""
MOST_MISSED = 20
"""The most units of each kind that the analysis of one search names."""
SAVED_TOGETHER = 100
"""The most dealers and days in one transaction."""

Day = tuple[str, date]
"""A dealer's id, and a day of its time zone."""


_NO_RESULT = b'{"total":0,'


class DayTally:
    """The numbers of one dealer and day, by subject and item. Items above the bound of a subject count as OTHER.

    `tokens` has the last use of each token.
    """

    __slots__ = ("numbers", "tokens")

    def __init__(self) -> None:
        self.numbers: dict[Subject, dict[str, int]] = {}
        self.tokens: dict[str, datetime] = {}

    def add(self, subject: Subject, items: Iterable[str], number: int = 1) -> None:
        """Adds `number` to each item."""
        numbers = self.numbers.setdefault(subject, {})
        for item in items:
            name = item if item in numbers or len(numbers) < MOST_ITEMS else OTHER
            numbers[name] = numbers.get(name, 0) + number

    def add_to_searches(self, numbers: Mapping[SearchCount, int]) -> None:
        """Adds numbers to items of `searches`."""
        for name, number in numbers.items():
            self.add("searches", [name], number)


@dataclass
class Counting:
    """The counts of a process. `find_catalogue` returns the stock of an opened dealer."""

    store: Store
    requests: RequestCounts
    find_catalogue: Callable[[str], Catalogue | None]
    _unsaved: dict[Day, DayTally] = field(default_factory=dict)
    # By dealer id, the days and filters of the searches with a price, which `_check_price` judges later.
    _to_check: dict[str, deque[tuple[date, Filters]]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    async def run(self, steps: RepeatedSteps) -> None:
        """Repeats both steps until it is cancelled."""
        await asyncio.gather(
            steps.repeat("counts", self.read, TAKE_SECONDS),
            steps.repeat("saved counts", self.save, SAVE_SECONDS),
        )

    async def close(self) -> None:
        """Writes what is left. Raises StorageError."""
        await self.read()
        await self.save()

    async def read(self, now: datetime | None = None) -> None:
        """Counts the words of the last requests, and analyses the price limits of one search.

        They count for the day of `now`, by default of the current time.
        """
        taken, now = self.requests.take(), now or datetime.now(UTC)
        catalogues = {counted.dealer_id: self.find_catalogue(counted.dealer_id) for counted in taken}
        checked = next(iter(self._to_check), None)
        if checked is not None:
            catalogues.setdefault(checked, self.find_catalogue(checked))
        if catalogues:
            await asyncio.to_thread(self._add_recent_requests, taken, catalogues, now)

    async def save(self) -> None:
        """Adds the counts to those in the database. Raises StorageError; then the next call tries again."""
        if self._unsaved:
            await asyncio.to_thread(self._save)

    def _add_recent_requests(
        self, taken: list[RecentRequests], catalogues: dict[str, Catalogue | None], now: datetime
    ) -> None:
        """Adds the counts of the last requests to `_unsaved`. Reads the words of at most MOST_READ requests."""
        share = max(1, MOST_READ // max(1, sum(bool(counted.kept) for counted in taken)))
        with self._lock:
            for counted in taken:
                day = now.astimezone(ZoneInfo(counted.zone)).date()
                tally = self._unsaved.setdefault((counted.dealer_id, day), DayTally())
                _count_requests(tally, counted)
                tally.tokens.update(dict.fromkeys(counted.tokens, now))
                catalogue = catalogues[counted.dealer_id]
                for payload, data in counted.kept[:share]:
                    if not isinstance(payload, InventorySearchRequest):
                        tally.add("viewed", [LISTING_ID.decode(data).vehicle_id])
                        continue
                    filters = Filters() if payload.filters is UNSET else payload.filters
                    _count_search(tally, filters, catalogue, found_nothing=data.startswith(_NO_RESULT))
                    if has_price(filters):
                        waiting = self._to_check.setdefault(counted.dealer_id, deque(maxlen=MOST_WAITING))
                        waiting.append((day, filters))
            self._check_price(catalogues)

    def _check_price(self, catalogues: dict[str, Catalogue | None]) -> None:
        """Counts the units that one search misses because of its price limits, for the dealer that has waited longest.

        This reads the whole stock, so each call does it for only one search.
        """
        dealer_id = next(iter(self._to_check), None)
        if dealer_id is None:
            return
        waiting = self._to_check.pop(dealer_id)
        day, filters = waiting.popleft()
        if waiting:
            self._to_check[dealer_id] = waiting
        catalogue = catalogues.get(dealer_id)
        if catalogue is None:
            return  # The dealer was closed meanwhile.
        missed = catalogue.price_misses(filters, MOST_MISSED)
        tally = self._unsaved.setdefault((dealer_id, day), DayTally())
        tally.add_to_searches(
            {"price_checked": 1, "no_price_units": missed.no_price, "outside_price_units": missed.outside}
        )
        tally.add("no_price", missed.no_price_ids)
        tally.add("outside_price", missed.outside_ids)

    def _save(self) -> None:
        """Writes all unsaved counts, some dealers at a time. If it fails, those not written are unsaved again."""
        with self._lock:
            unsaved, self._unsaved = self._unsaved, {}
        # Processes write dealers in one order, so that two of them never wait for each other.
        days = sorted(unsaved)
        saved = 0
        try:
            for first in range(0, len(days), SAVED_TOGETHER):
                self._write([(day, unsaved[day]) for day in days[first : first + SAVED_TOGETHER]])
                saved = first + SAVED_TOGETHER
        finally:
            with self._lock:
                for day in days[saved:]:
                    _merge(self._unsaved.setdefault(day, DayTally()), unsaved[day])

    def _write(self, counts: list[tuple[Day, DayTally]]) -> None:
        """Adds the counts to those of the database."""
        with self.store.write(ALL_DEALERS) as tx:
            for (dealer_id, day), tally in counts:
                of_dealer = replace(tx, dealer_id=dealer_id)
                # The counts of a removed dealer are discarded.
                if hold_registration(of_dealer):
                    add_counts(of_dealer, day, tally.numbers)
                    note_use(of_dealer, tally.tokens)


def _count_requests(tally: DayTally, counted: RecentRequests) -> None:
    for (skill, outcome, agent), number in counted.requests.items():
        tally.add("requests", [f"{skill} {outcome}"], number)
        if outcome == OK:
            tally.add("agents", [f"{agent} {skill}"], number)


def _count_search(tally: DayTally, filters: Filters, catalogue: Catalogue | None, *, found_nothing: bool) -> None:
    """Counts what a search asked for, and again under `nothing_...` if it found nothing."""
    tally.add_to_searches({"examined": 1, "found_nothing": int(found_nothing), "with_price": int(has_price(filters))})
    demand = asked_for(filters, catalogue)
    tally.add("make", demand.make)
    tally.add("model", demand.model)
    tally.add("body", demand.body)
    tally.add("price", demand.price)
    if found_nothing:
        tally.add("nothing_make", demand.make)
        tally.add("nothing_model", demand.model)
        tally.add("nothing_body", demand.body)
        tally.add("nothing_price", demand.price)
        tally.add("nothing_filter", demand.filters)


def _merge(tally: DayTally, more: DayTally) -> None:
    """Adds the numbers of an earlier tally."""
    tally.tokens = more.tokens | tally.tokens
    for subject, numbers in more.numbers.items():
        for item, number in numbers.items():
            tally.add(subject, [item], number)
