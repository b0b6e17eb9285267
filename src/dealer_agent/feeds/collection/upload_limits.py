"""How many connections the SFTP server has, and which addresses failed to log in too often. Times are in seconds. Pure.

IPv6 addresses count by their /64 network: a client can use every address in it.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from typing import Generic, TypeVar

FAILURE_SECONDS = 900.0
"""How long a failed login counts."""
MOST_REMEMBERED = 10_000
"""Addresses whose failed logins are counted. The oldest are forgotten first."""

Connection = TypeVar("Connection", bound=Hashable)


def counted_as(address: str) -> str:
    """The text by which a client with this IP address is counted."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        return str(parsed.ipv4_mapped or IPv6Address(int(parsed) >> 64 << 64))
    return str(parsed)


@dataclass
class ConnectionLimits(Generic[Connection]):
    """The open connections, each with its address. At most `most` and `most_per_address`, and `failed_logins`."""

    most: int
    most_per_address: int
    failed_logins: int
    # The address of each open connection.
    _open: dict[Connection, str] = field(default_factory=dict)
    # The connections that have not logged in, the oldest first. A dict keeps their order; its values mean nothing.
    _anonymous: dict[Connection, None] = field(default_factory=dict)
    _per_address: dict[str, int] = field(default_factory=dict)
    # The times of failed logins by address. The address that failed most recently is the last.
    _failures: dict[str, list[float]] = field(default_factory=dict)

    def admit(self, connection: Connection, address: str, now: float) -> Connection | None:
        """Counts a new connection. Returns the connection to close: this one, another one, or None.

        When all places are taken, the connection that has waited longest for its login is closed.
        """
        counted = counted_as(address)
        if self._recent(counted, now) >= self.failed_logins:
            return connection
        if self._per_address.get(counted, 0) >= self.most_per_address:
            return connection
        replaced = None
        if len(self._open) >= self.most:
            replaced = next(iter(self._anonymous), None)
            if replaced is None:
                return connection
            self.remove(replaced)
        self._open[connection] = counted
        self._anonymous[connection] = None
        self._per_address[counted] = self._per_address.get(counted, 0) + 1
        return replaced

    def log_in(self, connection: Connection) -> None:
        """The client of this connection has logged in. The failures of its address still count."""
        self._anonymous.pop(connection, None)

    def fail(self, connection: Connection, now: float) -> None:
        """The client of this connection has failed to log in."""
        counted = self._open.get(connection)
        if counted is None:
            return
        recent = self._recent_times(counted, now)[-self.failed_logins :]
        self._failures.pop(counted, None)
        self._failures[counted] = [*recent, now]
        if len(self._failures) > MOST_REMEMBERED:
            del self._failures[next(iter(self._failures))]

    def remove(self, connection: Connection) -> None:
        """The connection is closed."""
        counted = self._open.pop(connection, None)
        self._anonymous.pop(connection, None)
        if counted is not None:
            self._per_address[counted] -= 1
            if not self._per_address[counted]:
                del self._per_address[counted]

    def __len__(self) -> int:
        return len(self._open)

    def _recent(self, counted: str, now: float) -> int:
        return len(self._recent_times(counted, now))

    def _recent_times(self, counted: str, now: float) -> list[float]:
        return [each for each in self._failures.get(counted, ()) if now - each < FAILURE_SECONDS]
