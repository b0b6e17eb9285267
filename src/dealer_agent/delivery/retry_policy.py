"""When a failed delivery is retried, and when a channel pauses. Pure: the clock and the random draw are arguments."""

from dataclasses import dataclass
from datetime import timedelta

from dealer_agent.config.settings import DeliverySettings


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
