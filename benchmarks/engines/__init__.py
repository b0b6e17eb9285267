"""Engines that answer the same questions in the process, over the same listings: the catalogue and its peers.

Each engine runs in its own process. `make` of its module prepares a folder, and its class opens this folder.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from benchmarks.questions import Question
from dealer_agent.protocol.vehicle import Vehicle


class Engine(Protocol):
    """Answers questions as `inventory.search`, `inventory.facets` and `inventory.vehicle` do."""

    def search(self, question: Question) -> tuple[int, list[bytes]]:
        """The number of matches, and the page as JSON."""

    def text(self, words: str) -> tuple[int, list[bytes]]:
        """The same for the words of a query, best match first."""

    def facets(self, question: Question) -> object:
        """The values of the matches with their counts, and the ranges."""

    def detail(self, vin: str) -> bytes | None:
        """One listing."""


Make = Callable[[Path, Iterable[tuple[Vehicle, bytes]]], None]
Open = Callable[[Path], Engine]
