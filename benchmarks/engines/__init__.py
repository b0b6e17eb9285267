"""What answers the same questions in process, over the same listings: the catalogue and its peers.

Every engine is asked in a process of its own. Its module's `make` prepares a folder, its class opens what was prepared.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from benchmarks.questions import Question
from dealer_agent.protocol.vehicle import Vehicle


class Engine(Protocol):
    """Answers questions as `inventory.search`, `inventory.facets` and `inventory.vehicle` do."""

    def search(self, question: Question) -> tuple[int, list[bytes]]:
        """How many match, and the page of ready listings."""

    def text(self, words: str) -> tuple[int, list[bytes]]:
        """The same for the words of a query, the best first."""

    def facets(self, question: Question) -> object:
        """The values of the matching set with their counts, and the ranges."""

    def detail(self, vin: str) -> bytes | None:
        """One listing."""


Make = Callable[[Path, Iterable[tuple[Vehicle, bytes]]], None]
Open = Callable[[Path], Engine]
