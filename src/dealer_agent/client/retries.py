"""Which failures are retried, and after which pause."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import anyio

from dealer_agent.client.errors import DealerAgentError, Refused, Unreachable

Result = TypeVar("Result")


@dataclass(frozen=True)
class Retries:
    """How often and how long the client tries again.

    `most` is the number of retries after the first attempt; 0 switches them off. A pause is what `Retry-After` says, or
    else doubles from `first_pause_seconds`. If `Retry-After` is longer than `longest_pause_seconds`, the error is
    raised at once.
    """

    most: int = 2
    first_pause_seconds: float = 0.5
    longest_pause_seconds: float = 60.0

    async def reading(self, attempt: Callable[[], Awaitable[Result]]) -> Result:
        """The result of an attempt that changes nothing. Every failure that a retry can mend is retried."""
        return await self._repeat(attempt, _can_be_mended)

    async def lead(self, attempt: Callable[[], Awaitable[Result]]) -> Result:
        """The result of an attempt that submits a lead. It is repeated only if the dealer stored nothing."""
        return await self._repeat(attempt, lambda error: _can_be_mended(error) and _stored_nothing(error))

    async def _repeat(
        self, attempt: Callable[[], Awaitable[Result]], may_repeat: Callable[[DealerAgentError], bool]
    ) -> Result:
        for number in range(self.most):
            try:
                return await attempt()
            except (Refused, Unreachable) as error:
                pause = self._pause(number, error.retry_after)
                if pause > self.longest_pause_seconds or not may_repeat(error):
                    raise
            await anyio.sleep(pause)
        return await attempt()

    def _pause(self, number: int, retry_after: float | None) -> float:
        if retry_after is not None:
            return retry_after
        # Clients that failed together do not come back together.
        doubled: float = self.first_pause_seconds * 2**number * random.uniform(0.5, 1.5)  # noqa: S311 - no secret
        return min(doubled, self.longest_pause_seconds)


def _can_be_mended(error: DealerAgentError) -> bool:
    return isinstance(error, Unreachable) or (isinstance(error, Refused) and error.retryable)


def _stored_nothing(error: DealerAgentError) -> bool:
    """The dealer's agent says so with `retryable`; a failure without its answer only if the request did not arrive."""
    return isinstance(error, Refused) or not error.may_have_arrived
