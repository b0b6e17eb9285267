"""`SyncDealerAgent`: the client for programs without an event loop.

Each call runs the method of `DealerAgent` in an event loop, which is in a thread of its own. So there is one
implementation, and both have the same arguments, results and errors.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from functools import wraps
from threading import Thread
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

import anyio
from anyio.from_thread import BlockingPortal

from dealer_agent.client.agent import DealerAgent, Discovery
from dealer_agent.client.card import Card
from dealer_agent.client.paging import Vehicles
from dealer_agent.client.result import SkippedListing
from dealer_agent.client.results import StockChanges, Vehicle

Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")
Method = TypeVar("Method", bound=Callable[..., Any])


class _EventLoop:
    """An event loop in a thread that does not keep the program from ending."""

    def __init__(self) -> None:
        ready: Future[BlockingPortal] = Future()

        async def serve() -> None:
            async with BlockingPortal() as portal:
                ready.set_result(portal)
                await portal.sleep_until_stopped()

        self._thread = Thread(target=anyio.run, args=(serve,), name="dealer-agent client", daemon=True)
        self._thread.start()
        self._portal = ready.result()

    def run(self, asked: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
        """Waits for the result of a coroutine. An interrupt of the program cancels it."""
        future: Future[Answer] = self._portal.start_task_soon(asked)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def next_of(self, answers: AsyncIterator[Answer]) -> Answer | None:
        """Waits for the next one; None after the last one."""

        async def following() -> Answer | None:
            return await anext(answers, None)

        return self.run(following)

    @property
    def is_running(self) -> bool:
        """Whether the loop is not closed."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Cancels what still runs, and ends the thread."""
        self._portal.start_task_soon(self._portal.stop, True)
        self._thread.join()


class SyncVehicles(Iterator[Vehicle]):
    """The vehicles of a search. `skipped` are the listings so far that cannot be read."""

    def __init__(self, vehicles: Vehicles, loop: _EventLoop) -> None:
        self._vehicles = vehicles
        self._loop = loop

    @property
    def skipped(self) -> list[SkippedListing]:
        """The listings so far that cannot be read."""
        return self._vehicles.skipped

    def __next__(self) -> Vehicle:
        """The next vehicle. It fetches the next page when it is needed."""
        if (vehicle := self._loop.next_of(self._vehicles)) is None:
            raise StopIteration
        return vehicle


class _Waiting(Generic[Method]):
    """A method of `DealerAgent` that waits for its result. Type checkers and editors see the arguments."""

    def __init__(self, method: Method) -> None:
        self._method = method
        self.__doc__ = method.__doc__


class _Call(_Waiting[Callable[Concatenate[DealerAgent, Parameters], Coroutine[Any, Any, Answer]]]):
    """A method with one result."""

    def __get__(self, agent: "SyncDealerAgent", owner: type["SyncDealerAgent"]) -> Callable[Parameters, Answer]:
        @wraps(self._method)
        def call(*args: Parameters.args, **members: Parameters.kwargs) -> Answer:
            return agent._loop.run(lambda: self._method(agent._asynchronous, *args, **members))

        return call


class _SearchAll(_Waiting[Callable[Concatenate[DealerAgent, Parameters], Vehicles]]):
    """`DealerAgent.search_all` as an iterator that waits for each page."""

    def __get__(self, agent: "SyncDealerAgent", owner: type["SyncDealerAgent"]) -> Callable[Parameters, SyncVehicles]:
        @wraps(self._method)
        def call(*args: Parameters.args, **members: Parameters.kwargs) -> SyncVehicles:
            return SyncVehicles(self._method(agent._asynchronous, *args, **members), agent._loop)

        return call


class _ChangesAll(_Waiting[Callable[Concatenate[DealerAgent, Parameters], AsyncGenerator[StockChanges]]]):
    """`DealerAgent.changes_all` as an iterator that waits for each page."""

    def __get__(
        self, agent: "SyncDealerAgent", owner: type["SyncDealerAgent"]
    ) -> Callable[Parameters, Iterator[StockChanges]]:
        @wraps(self._method)
        def call(*args: Parameters.args, **members: Parameters.kwargs) -> Iterator[StockChanges]:
            """Iterates over the pages of the asynchronous agent, each fetched on the thread of its event loop."""
            pages = self._method(agent._asynchronous, *args, **members)
            while (page := agent._loop.next_of(pages)) is not None:
                yield page

        return call


class _Discover(_Waiting[Callable[Parameters, Discovery]]):
    """`DealerAgent.discover` that waits for the card."""

    def __get__(
        self, agent: "SyncDealerAgent | None", owner: type["SyncDealerAgent"]
    ) -> Callable[Parameters, "SyncDealerAgent"]:
        @wraps(self._method)
        def discover(*args: Parameters.args, **options: Parameters.kwargs) -> SyncDealerAgent:
            """Finds an agent on a new event loop, which is closed if that fails."""
            discovery = self._method(*args, **options)

            async def discovered() -> DealerAgent:
                return await discovery

            loop = _EventLoop()
            try:
                return owner(loop.run(discovered), loop)
            except BaseException:
                loop.close()
                raise

        return discover


class SyncDealerAgent:
    """A dealer's agent, for programs without an event loop. Make it with `SyncDealerAgent.discover`.

        with SyncDealerAgent.discover("https://dealer.example") as agent:
            page = agent.search(make=["Honda"], price_max=30000)

    The methods are those of `DealerAgent`. They wait for the result. Several threads may use one agent.
    """

    def __init__(self, asynchronous: DealerAgent, loop: _EventLoop) -> None:
        self._asynchronous = asynchronous
        self._loop = loop

    discover = _Discover(DealerAgent.discover)
    ask = _Call(DealerAgent.ask)
    information = _Call(DealerAgent.information)
    facets = _Call(DealerAgent.facets)
    search = _Call(DealerAgent.search)
    search_all = _SearchAll(DealerAgent.search_all)
    vehicle = _Call(DealerAgent.vehicle)
    quote = _Call(DealerAgent.quote)
    verify_quote = _Call(DealerAgent.verify_quote)
    hold = _Call(DealerAgent.hold)
    hold_status = _Call(DealerAgent.hold_status)
    release = _Call(DealerAgent.release)
    submit_lead = _Call(DealerAgent.submit_lead)
    lead_status = _Call(DealerAgent.lead_status)
    move_visit = _Call(DealerAgent.move_visit)
    cancel_visit = _Call(DealerAgent.cancel_visit)
    changes = _Call(DealerAgent.changes)
    changes_all = _ChangesAll(DealerAgent.changes_all)

    @property
    def card(self) -> Card:
        """The dealer's card, and what the client chose from it."""
        return self._asynchronous.card

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes all connections. A second call does nothing."""
        if not self._loop.is_running:
            return
        try:
            self._loop.run(self._asynchronous.aclose)
        finally:
            self._loop.close()
