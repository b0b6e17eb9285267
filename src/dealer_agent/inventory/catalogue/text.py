"""Free-text search: an inverted index of the words by which listings are found (contract, part 7). Pure.

Which words these are, and what a query asks for, the vocabulary says; this keeps for every word the rows that have it,
in three ranks of weight. Words are sorted, so the words with one beginning stand together, and so do their rows.
"""

from array import array
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dealer_agent.inventory.catalogue.columns import Column, Numbering, Rows, row_type
from dealer_agent.inventory.catalogue.flat import Flat, FlatWriter
from dealer_agent.inventory.catalogue.words import SortedWords
from dealer_agent.inventory.vocabulary import index_words, query_terms
from dealer_agent.protocol.vehicle import Vehicle

Scores = NDArray[np.uint16]

NAMES = ("make", "model", "trim")
FACTS = (
    "year",
    "condition",
    "body",
    "fuel",
    "driveline",
    "transmission",
    "engine",
    "exterior_color",
    "interior_color",
)
NUMBERS = ("stock", "vin")
"""Facts as well, but of each unit alone. Beside names and facts stands the prose: features and description."""

# A marker says that a listing has a canonical word. It is no beginning of anything, and no word is a beginning of it.
_MARK = "="


class _Worth(NamedTuple):
    """What a hit in one rank is worth: the beginning of a word, a whole word."""

    begun: int
    whole: int


# From the least worth to the most.
_RANKS = {"prose": _Worth(1, 2), "facts": _Worth(4, 6), "names": _Worth(12, 16)}


class TextIndex:
    """Scores the rows for a query."""

    __slots__ = ("_count", "_ranks", "_words")

    def __init__(self, flat: Flat, count: int) -> None:
        self._words = SortedWords(flat, "words")
        # The postings of each rank: `rows[starts[i]:starts[i + 1]]` have word number i.
        self._ranks = tuple(
            (flat.numbers(f"words.{rank}.starts"), flat.array(f"words.{rank}.rows"), worth)
            for rank, worth in _RANKS.items()
        )
        self._count = count

    def scores(self, query: str) -> Scores | None:
        """For each row, zero when a term of the query is not found in it; None when the query has no terms.

        A term counts as its best hit: in make, model or trim above other facts, these above prose, and a whole word
        above the beginning of one. A term that is asked twice counts once.
        """
        total: Scores | None = None
        for term in dict.fromkeys(query_terms(query)):
            hits = self._hits(term)
            if total is None:
                total = hits
            else:
                both = np.logical_and(total, hits)
                total += hits
                total *= both
        return total

    def _hits(self, term: Iterable[str]) -> Scores:
        hits = np.zeros(self._count, np.uint16)
        spans = []
        for alternative in term:
            marker = _MARK in alternative
            text = _MARK + alternative if marker else alternative
            first, there = self._words.place(text)
            whole = first + there
            last = whole if marker else self._words.place(text + "\U0010ffff")[0]
            if first < last:
                spans.append((first, whole, last))
        # From the least worth to the most, so that the best hit is the one that stays.
        for starts, rows, worth in self._ranks:
            for _, whole, last in spans:
                begin, end = starts[whole], starts[last]
                if begin < end:
                    hits[rows[begin:end]] = worth.begun
            for first, whole, _ in spans:
                begin, end = starts[first], starts[whole]
                if begin < end:
                    hits[rows[begin:end]] = worth.whole
        return hits


class _Loose:
    """Words listing by listing: their numbers in a row, and how many each listing has."""

    def __init__(self) -> None:
        self._numbers = array("I")
        self._counts = array("I")

    def add(self, numbers: Collection[int]) -> None:
        self._numbers.extend(numbers)
        self._counts.append(len(numbers))

    def pairs(self, places: NDArray[np.int64], row_of: NDArray[np.int64]) -> NDArray[np.int64]:
        """As `_pairs`; `row_of` says which row each listing is."""
        pairs = places[np.frombuffer(self._numbers, np.uint32)]
        pairs <<= 32
        pairs |= np.repeat(row_of, np.frombuffer(self._counts, np.uint32))
        return pairs


class TextCollector:
    """Collects the words of the stock: what hardly repeats listing by listing, the rest from the finished columns."""

    def __init__(self) -> None:
        self._numbers: Numbering[str] = Numbering()
        self._features: dict[str, list[int]] = {}
        self._prose = _Loose()
        self._own_numbers = _Loose()

    def add(self, vehicle: Vehicle) -> None:
        """The next listing; in any order."""
        found: set[int] = set()
        for feature in vehicle.features or ():
            numbers = self._features.get(feature)
            if numbers is None:
                numbers = self._features[feature] = self._numbered("features", feature)
            found.update(numbers)
        if vehicle.description:
            found.update(self._numbered("description", vehicle.description))
        self._prose.add(found)
        found = set()
        for field in NUMBERS:
            if number := getattr(vehicle, field):
                found.update(self._numbered(field, number))
        self._own_numbers.add(found)

    def write(self, writer: FlatWriter, columns: Mapping[str, Column[Any]], default_order: Rows) -> None:
        """The finished index, which uses the collector up; `default_order` says which collected listing each row is."""
        names = [self._words_of(name, columns[name]) for name in NAMES]
        facts = [self._words_of(name, columns[name]) for name in FACTS]
        numbers = {_MARK + word if _MARK in word else word: number for word, number in self._numbers.items()}
        self._numbers.clear()
        self._features.clear()
        words = sorted(numbers)
        SortedWords.write(writer, "words", words)
        places = np.empty(len(words), np.int64)
        places[[numbers[word] for word in words]] = np.arange(len(words))
        row_of = np.empty(len(default_order), np.int64)
        row_of[default_order] = np.arange(len(default_order))
        for rank, pieces in (
            ("prose", [self._prose.pairs(places, row_of)]),
            ("facts", [self._own_numbers.pairs(places, row_of), *(_pairs(places, *given) for given in facts)]),
            ("names", [_pairs(places, *given) for given in names]),
        ):
            _write_rank(writer, rank, pieces, len(words), row_type(len(default_order)))

    def _numbered(self, field: str, text: str) -> list[int]:
        return list(map(self._numbers.__getitem__, index_words(field, text)))

    def _words_of(self, field: str, column: Column[Any]) -> tuple[Column[Any], NDArray[np.uint32], NDArray[np.int64]]:
        """A column, the word numbers of its values in a row, and how many each value has."""
        numbers = array("I")
        counts = np.zeros(column.absent + 1, np.int64)
        for code, value in enumerate(column.values):
            found = self._numbered(field, str(value))
            numbers.extend(found)
            counts[code] = len(found)
        return column, np.frombuffer(numbers, np.uint32), counts


def _pairs(
    places: NDArray[np.int64], column: Column[Any], numbers: NDArray[np.uint32], counts: NDArray[np.int64]
) -> NDArray[np.int64]:
    """A word's place and a row in one number, for every word of every row's value."""
    firsts = np.cumsum(counts) - counts
    lengths = counts[column.codes]
    # Row by row, the word numbers of its value: where these begin, and one on for each.
    at = np.repeat(firsts[column.codes] - np.cumsum(lengths) + lengths, lengths)
    at += np.arange(len(at))
    pairs = places[numbers[at]]
    pairs <<= 32
    pairs |= np.repeat(np.arange(len(column.codes)), lengths)
    return pairs


def _write_rank(writer: FlatWriter, name: str, pieces: list[NDArray[np.int64]], words: int, rows: type[Any]) -> None:
    """Sorts pairs by the word's place, then row."""
    pairs = pieces.pop() if len(pieces) == 1 else np.concatenate(pieces)
    pieces.clear()
    pairs.sort()
    writer.array(f"words.{name}.starts", np.searchsorted(pairs, np.arange(words + 1) << 32))
    # The lower half of a pair is its row.
    writer.array(f"words.{name}.rows", pairs.astype(np.int32).astype(rows, copy=False))
