"""Why a delivery is not sent, how long it waits, and when a channel rests. Pure.

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
    """The delivery must not be sent: the customer was erased, or the message is out of date."""


class NeedsNewId(_NotSendable):
    """The document of the first attempt must not be sent again. The delivery continues with another id."""


def retry_wait(settings: DeliverySettings, attempts: int, draw: float) -> timedelta:
    """How long to wait after that many attempts: exponential backoff with full jitter. `draw` is from 0 to 1."""
    # More doublings exceed every longest wait, and finally the range of a timedelta.
    doublings: int = 2 ** min(attempts - 1, 20)
    return min(settings.longest_retry, settings.first_retry * doublings) * draw


@dataclass(slots=True)
class Breaker:
    """Whether a channel is worth trying. After so many failures in a row it rests, then one delivery tries it."""

    failures_allowed: int
    rest_seconds: float
    failures: int = 0
    rests_until: float = 0.0

    @property
    def ailing(self) -> bool:
        """Whether it has failed so often that it rests, or is being tried by one delivery at a time."""
        return self.failures >= self.failures_allowed

    def room(self, now: float, under_way: int, at_once: int) -> int:
        """How many more deliveries may begin; `now` is in seconds on the clock that the failures are told by."""
        if now < self.rests_until:
            return 0
        return max(0, (1 if self.ailing else at_once) - under_way)

    def succeeded(self) -> None:
        """The receiver lives."""
        self.failures = 0
        self.rests_until = 0.0

    def failed(self, now: float, asked_to_wait: float = 0.0) -> None:
        """The channel failed; the receiver may have asked to be left alone for some seconds."""
        self.failures += 1
        rest = max(asked_to_wait, self.rest_seconds if self.ailing else 0.0)
        self.rests_until = max(self.rests_until, now + rest)
