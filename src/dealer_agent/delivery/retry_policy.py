"""How long a failed delivery waits, and when a channel rests. Pure: the clock and the random draw are arguments."""

from dataclasses import dataclass
from datetime import timedelta

from dealer_agent.config.settings import DeliverySettings


def retry_wait(settings: DeliverySettings, attempts: int, draw: float) -> timedelta:
    """How long to wait after that many attempts: exponential backoff with full jitter. `draw` is from 0 to 1."""
    # More doublings exceed every longest wait, and finally the range of a timedelta.
    doublings: int = 2 ** min(attempts - 1, 20)
    longest = timedelta(minutes=settings.longest_retry_minutes)
    return min(longest, timedelta(seconds=settings.first_retry_seconds) * doublings) * draw


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
