"""How hard a delivery is tried, and when a channel rests. Pure: the clock and the dice are arguments."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The dealer's settings. `lease` must be longer than any outlet's deadline."""

    first_retry: timedelta = timedelta(seconds=15)
    longest_retry: timedelta = timedelta(minutes=60)
    park_after: timedelta = timedelta(hours=72)
    breaker_failures: int = 5
    breaker_rest: timedelta = timedelta(seconds=60)
    lease: timedelta = timedelta(seconds=300)

    def wait(self, attempts: int, draw: float) -> timedelta:
        """How long to wait after that many attempts: exponential backoff with full jitter. `draw` is from 0 to 1."""
        # More doublings than these outgrow any longest wait, and in the end what a timedelta holds.
        doublings: int = 2 ** min(attempts - 1, 20)
        ceiling = min(self.longest_retry, self.first_retry * doublings)
        return ceiling * draw


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
