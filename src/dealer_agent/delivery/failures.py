"""Why a delivery is not sent, when it is retried, and when a channel pauses. Pure.

The clock and the random draw are arguments.
"""

from dataclasses import dataclass
from datetime import timedelta

from dealer_agent.config.settings import DeliverySettings


class NotDelivered(Exception):  # noqa: N818 - it says what happened
    """The attempt failed, or its result is unknown. `problem` has no personal data and no text of a server.

    `channel_failed`: the circuit breaker of the channel counts it. Otherwise the receiver works and refused only this
    delivery. `permanent`: the receiver says that no later attempt will succeed, which is not always true.
    `may_have_arrived`: the receiver got some of it and did not refuse it.
    """

    def __init__(
        self,
        problem: str,
        *,
        channel_failed: bool = True,
        permanent: bool = False,
        retry_after: timedelta | None = None,
        may_have_arrived: bool = False,
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.channel_failed = channel_failed
        self.permanent = permanent
        self.retry_after = retry_after
        self.may_have_arrived = may_have_arrived


class _NotSendable(Exception):  # noqa: N818 - it says what happened
    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class DeliveryDropped(_NotSendable):
    """The delivery must not be sent: the customer was erased, or its content is out of date."""


class NeedsNewId(_NotSendable):
    """The document of the first attempt must not be sent again. The delivery continues with another id."""


def retry_wait(settings: DeliverySettings, attempts: int, draw: float) -> timedelta:
    """The wait before the next attempt: exponential backoff with full jitter. `draw` is random, from 0 to 1."""
    # More doublings exceed every longest wait, and finally the range of a timedelta.
    doublings: int = 2 ** min(attempts - 1, 20)
    longest = timedelta(minutes=settings.longest_retry_minutes)
    return min(longest, timedelta(seconds=settings.first_retry_seconds) * doublings) * draw


@dataclass(slots=True)
class Breaker:
    """The circuit breaker of a channel: a pause after repeated failures, then one delivery at a time."""

    failures_allowed: int
    rest_seconds: float
    failures: int = 0
    rests_until: float = 0.0

    @property
    def ailing(self) -> bool:
        """Whether the channel has failed `failures_allowed` times in a row."""
        return self.failures >= self.failures_allowed

    def room(self, now: float, under_way: int, at_once: int) -> int:
        """How many more deliveries may begin. `now` is in seconds, on the same clock as in `failed`."""
        if now < self.rests_until:
            return 0
        return max(0, (1 if self.ailing else at_once) - under_way)

    def succeeded(self) -> None:
        """Records a success, or a failure that is not the channel's. Ends the pause."""
        self.failures = 0
        self.rests_until = 0.0

    def failed(self, now: float, asked_to_wait: float = 0.0) -> None:
        """Records a failure of the channel. `asked_to_wait` is the receiver's `Retry-After` in seconds."""
        self.failures += 1
        rest = max(asked_to_wait, self.rest_seconds if self.ailing else 0.0)
        self.rests_until = max(self.rests_until, now + rest)
