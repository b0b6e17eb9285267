"""Why a delivery is not sent, when it is retried, and when a channel pauses. Pure.

The clock and the random draw are arguments.
"""

from dataclasses import KW_ONLY, dataclass
from datetime import timedelta

from dealer_agent.config.settings import DeliverySettings


@dataclass(eq=False)
class NotDelivered(Exception):  # noqa: N818 - it says what happened
    """The attempt failed, or its result is unknown. `problem` has no personal data and no text of a server.

    `channel_failed`: the circuit breaker of the channel counts it. Otherwise the receiver works and refused only this
    delivery. `permanent`: the receiver says that no later attempt will succeed, which is not always true.
    `may_have_arrived`: the receiver got some of it and did not refuse it.
    """

    problem: str
    _: KW_ONLY
    channel_failed: bool = True
    permanent: bool = False
    retry_after: timedelta | None = None
    may_have_arrived: bool = False


class DeliveryDropped(Exception):  # noqa: N818 - it says what happened
    """The delivery must not be sent: the customer was erased, or its content is out of date."""


class NeedsNewId(Exception):  # noqa: N818 - it says what happened
    """The document of the first attempt must not be sent again. The delivery continues with another id."""


def retry_wait(settings: DeliverySettings, attempts: int, draw: float) -> timedelta:
    """The wait before the next attempt: exponential backoff with full jitter. `draw` is random, from 0 to 1."""
    # More doublings exceed every longest wait, and finally the range of a timedelta.
    doublings: int = 2 ** min(attempts - 1, 20)
    longest = timedelta(minutes=settings.longest_retry_minutes)
    return min(longest, timedelta(seconds=settings.first_retry_seconds) * doublings) * draw


@dataclass(slots=True)
class Breaker:
    """The circuit breaker of a channel: it is open after repeated failures, which first cause a pause."""

    failures_allowed: int
    pause_seconds: float
    failures: int = 0
    paused_until: float = 0.0

    @property
    def is_open(self) -> bool:
        """Whether the channel has failed `failures_allowed` times in a row."""
        return self.failures >= self.failures_allowed

    def capacity(self, now: float, in_progress: int, at_once: int) -> int:
        """How many more deliveries may begin. `now` is in seconds, on the same clock as in `failed`."""
        if now < self.paused_until:
            return 0
        return max(0, (1 if self.is_open else at_once) - in_progress)

    def succeeded(self) -> None:
        """Records a success, or a failure that is not the channel's. Ends the pause."""
        self.failures = 0
        self.paused_until = 0.0

    def failed(self, now: float, asked_to_wait: float = 0.0) -> None:
        """Records a failure of the channel. `asked_to_wait` is the receiver's `Retry-After` in seconds."""
        self.failures += 1
        pause = max(asked_to_wait, self.pause_seconds if self.is_open else 0.0)
        self.paused_until = max(self.paused_until, now + pause)
