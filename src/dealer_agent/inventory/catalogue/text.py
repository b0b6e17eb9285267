"""Free-text search: an inverted index of the words by which listings are found (contract, part 7). Pure.

Which words these are, and what a query asks for, the vocabulary says; this keeps for every word the rows that have it,
in three ranks of weight. Words are sorted, so the words with one beginning stand together, and so do their rows.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dealer_agent.inventory.catalogue.columns import Column, Rows, row_type
from dealer_agent.inventory.vocabulary import index_words, query_terms

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
    "stock",
    "vin",
)
"""Beside names and facts stands the prose: features and description."""

# A marker says that a listing has a canonical word. It is no beginning of anything, and no word is a beginning of it.
_MARK = "="


class _Rank(NamedTuple):
    """The postings of one rank: `rows[starts[i]:starts[i + 1]]` have word number i; what a hit is worth."""

    starts: memoryview
    rows: Rows
    begun: int
    whole: int


class TextIndex:
    """Scores the rows for a query."""

    __slots__ = ("_count", "_ranks", "_words")

    def __init__(self, words: list[str], ranks: tuple[_Rank, ...], count: int) -> None:
        self._words = words
        self._ranks = ranks
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
        words = self._words
        spans = []
        for alternative in term:
            marker = _MARK in alternative
            text = _MARK + alternative if marker else alternative
            first = bisect_left(words, text)
            whole = first + (first < len(words) and words[first] == text)
            last = whole if marker else bisect_left(words, text + "\U0010ffff", whole)
            if first < last:
                spans.append((first, whole, last))
        # From the least worth to the most, so that the best hit is the one that stays.
        for starts, rows, begun_worth, whole_worth in self._ranks:
            for _, whole, last in spans:
                begin, end = starts[whole], starts[last]
                if begin < end:
                    hits[rows[begin:end]] = begun_worth
            for first, whole, _ in spans:
                begin, end = starts[first], starts[whole]
                if begin < end:
                    hits[rows[begin:end]] = whole_worth
        return hits


class TextCollector:
    """Collects the words of the stock; prose listing by listing in any order, the rest from the finished columns."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._features: dict[str, tuple[int, ...]] = {}
        self._prose_words = array("I")
        self._prose_counts = array("I")

    def add_prose(self, features: Iterable[str], description: str) -> None:
        """The prose of the next listing."""
        found: set[int] = set()
        for feature in features:
            numbers = self._features.get(feature)
            if numbers is None:
                numbers = self._features[feature] = self._numbered("features", feature)
            found.update(numbers)
        if description:
            found.update(self._numbered("description", description))
        self._prose_words.extend(found)
        self._prose_counts.append(len(found))

    def index(self, columns: Mapping[str, Column[Any]], default_order: Rows) -> TextIndex:
        """The finished index, which uses the collector up; `default_order` says which collected listing each row is."""
        count = len(default_order)
        names = [self._words_of(name, columns[name]) for name in NAMES]
        facts = [self._words_of(name, columns[name]) for name in FACTS]
        words = sorted(self._numbers)
        places = np.empty(len(words), np.int64)
        for place, word in enumerate(words):
            places[self._numbers[word]] = place
        self._numbers.clear()
        self._features.clear()
        ranks = (
            _rank([self._prose(places, default_order)], len(words), count, begun=1, whole=2),
            _rank([_pairs(places, *given) for given in facts], len(words), count, begun=4, whole=6),
            _rank([_pairs(places, *given) for given in names], len(words), count, begun=12, whole=16),
        )
        return TextIndex(words, ranks, count)

    def _numbered(self, field: str, text: str) -> tuple[int, ...]:
        numbers = self._numbers
        return tuple(
            numbers.setdefault(_MARK + word if _MARK in word else word, len(numbers))
            for word in index_words(field, text)
        )

    def _words_of(self, field: str, column: Column[Any]) -> tuple[Column[Any], NDArray[np.uint32], NDArray[np.int64]]:
        """A column, the word numbers of its values in a row, and how many each value has."""
        numbers = array("I")
        counts = np.zeros(column.absent + 1, np.int64)
        for code, value in enumerate(column.values):
            found = self._numbered(field, str(value))
            numbers.extend(found)
            counts[code] = len(found)
        return column, np.frombuffer(numbers, np.uint32), counts

    def _prose(self, places: NDArray[np.int64], default_order: Rows) -> NDArray[np.int64]:
        """The pairs of the prose."""
        row_of = np.empty(len(default_order), np.int64)
        row_of[default_order] = np.arange(len(default_order))
        pairs = places[np.frombuffer(self._prose_words, np.uint32)]
        pairs <<= 32
        pairs |= np.repeat(row_of, self._prose_counts)
        return pairs


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


def _rank(pieces: list[NDArray[np.int64]], words: int, count: int, *, begun: int, whole: int) -> _Rank:
    """Sorts pairs by the word's place, then row."""
    pairs = pieces.pop() if len(pieces) == 1 else np.concatenate(pieces)
    pieces.clear()
    pairs.sort()
    starts = np.searchsorted(pairs, np.arange(words + 1) << 32)
    # The lower half of a pair is its row.
    return _Rank(memoryview(starts.data), pairs.astype(np.int32).astype(row_type(count), copy=False), begun, whole)
