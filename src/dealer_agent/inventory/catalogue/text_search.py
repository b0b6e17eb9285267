"""Free-text search with an inverted index (docs/protocol.md#inventory-search). Pure.

`inventory.canonical_words` defines the words of a listing and the terms of a query. The index has the rows of each
word, in three tiers of weight. Words are sorted, so words with the same prefix are adjacent, and so are their rows.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dealer_agent.inventory.canonical_words.query import index_words, query_terms
from dealer_agent.inventory.catalogue.columns import Codes, EncodedColumn, Numbering, Rows, row_type
from dealer_agent.inventory.catalogue.flat_arrays import FlatArrays, FlatWriter
from dealer_agent.inventory.catalogue.flat_tables import SortedWords
from dealer_agent.protocol.vehicle import FIELDS, Vehicle
from dealer_agent.protocol.vehicle_field import SearchWeight

Scores = NDArray[np.uint16]


def _searched(weight: SearchWeight) -> list[str]:
    return [name for name, row in FIELDS.items() if row.field.search == weight]


_NAMES, _FACTS, _IDENTIFIERS = _searched("name"), _searched("fact"), _searched("identifier")
_PROSE = [name for name in _searched("prose") if FIELDS[name].value_type is str]
_LISTS = [name for name in _searched("prose") if name not in _PROSE]

# A marker is the canonical word of a field, such as `fuel=gas`. A marker is only found whole, never by a prefix.
_MARK = "="


class _TermScore(NamedTuple):
    prefix: int
    whole: int


# By ascending weight.
_TIERS = {"prose": _TermScore(1, 2), "facts": _TermScore(4, 6), "names": _TermScore(12, 16)}


class TextIndex:
    """Scores the rows for a query."""

    __slots__ = ("_count", "_tiers", "_words")

    def __init__(self, flat: FlatArrays, count: int) -> None:
        self._words = SortedWords(flat, "words")
        # In each tier, `rows[starts[i]:starts[i + 1]]` have word number i.
        self._tiers = tuple(
            (flat.numbers(f"words.{tier}.starts"), flat.array(f"words.{tier}.rows"), term_score)
            for tier, term_score in _TIERS.items()
        )
        self._count = count

    def scores(self, query: str) -> Scores | None:
        """The score of each row: zero if a term of the query is missing. None for a query without terms.

        A term scores its best hit: a name above a fact, a fact above prose, and a whole word above a prefix. A repeated
        term counts once.
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
        """The weight of each row's best hit for one term; 0 for no hit."""
        hits = np.zeros(self._count, np.uint16)
        spans = []
        for alternative in term:
            marker = _MARK in alternative
            text = _MARK + alternative if marker else alternative
            first, there = self._words.position(text)
            whole = first + there
            last = whole if marker else self._words.position(text + "\U0010ffff")[0]
            if first < last:
                spans.append((first, whole, last))
        # By ascending weight, so that the best hit is written last.
        for starts, rows, term_score in self._tiers:
            for _, whole, last in spans:
                begin, end = starts[whole], starts[last]
                if begin < end:
                    hits[rows[begin:end]] = term_score.prefix
            for first, whole, _ in spans:
                begin, end = starts[first], starts[whole]
                if begin < end:
                    hits[rows[begin:end]] = term_score.whole
        return hits


class _Lists:
    """A list of numbers for each listing, in two arrays: all numbers, and how many each listing has."""

    def __init__(self) -> None:
        self._numbers = array("I")
        self._counts = array("I")

    def add(self, numbers: Iterable[int]) -> None:
        before = len(self._numbers)
        self._numbers.extend(numbers)
        self._counts.append(len(self._numbers) - before)

    def __len__(self) -> int:
        return len(self._counts)

    def taken(self) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        counts = np.frombuffer(self._counts, np.uint32)
        return np.frombuffer(self._numbers, np.uint32), np.repeat(np.arange(len(counts), dtype=np.uint32), counts)


class TextCollector:
    """Collects the words of the stock.

    Prose and identifiers rarely repeat, so they are split for each listing. Other texts are split once per value.
    """

    def __init__(self) -> None:
        # By word, its number.
        self._words: Numbering[str] = Numbering()
        # By the name of a member with a list of texts: each distinct text, and its number in this member.
        self._texts: dict[str, Numbering[str]] = {name: Numbering() for name in _LISTS}
        # By the name of such a member, the numbers of the texts of each listing.
        self._texts_of_listings = {name: _Lists() for name in _LISTS}
        # The numbers of the words of each listing.
        self._prose = _Lists()
        self._identifiers = _Lists()

    def extend(self, vehicles: Sequence[Vehicle]) -> None:
        """Adds listings. They may come in any order and in several calls."""
        for name, numbering in self._texts.items():
            lists, number = self._texts_of_listings[name], numbering.__getitem__
            for values in map(attrgetter(name), vehicles):
                lists.add(map(number, values or ()))
        number = self._words.__getitem__
        for lists, fields in ((self._prose, _PROSE), (self._identifiers, _IDENTIFIERS)):
            for vehicle in vehicles:
                words: list[str] = []
                for field in fields:
                    if text := getattr(vehicle, field):
                        words.extend(index_words(field, text))
                lists.add(map(number, words))

    def write(self, writer: FlatWriter, columns: Mapping[str, EncodedColumn[Any]], default_order: Rows) -> None:
        """Writes the index; afterwards the collector is empty. Row n is the listing that came as `default_order[n]`."""
        lists = [(self._texts_of_listings[name], self._words_of(name, values)) for name, values in self._texts.items()]
        names = [(columns[name].codes, self._words_of(name, columns[name].values)) for name in _NAMES]
        facts = [(columns[name].codes, self._words_of(name, columns[name].values)) for name in _FACTS]
        numbers = {_MARK + word if _MARK in word else word: number for word, number in self._words.items()}
        self._words.clear()
        words = sorted(numbers)
        SortedWords.write(writer, "words", words)
        positions = np.empty(len(words), np.int64)
        positions[[numbers[word] for word in words]] = np.arange(len(words))
        row_of = np.empty(len(default_order), np.int64)
        row_of[default_order] = np.arange(len(default_order))
        in_order = np.arange(len(default_order))

        def pairs(word_numbers: NDArray[np.uint32], rows: NDArray[np.int64]) -> NDArray[np.int64]:
            """The position of each word and its row as one number, for one sort."""
            numbered = positions[word_numbers]
            numbered <<= 32
            numbered |= rows
            return numbered

        def listed(lists: _Lists) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
            word_numbers, listings = lists.taken()
            return word_numbers, row_of[listings]

        for tier, pieces in (
            ("prose", [pairs(*listed(self._prose)), *(pairs(*words.of(*listed(codes))) for codes, words in lists)]),
            (
                "facts",
                [pairs(*listed(self._identifiers)), *(pairs(*each.of(codes, in_order)) for codes, each in facts)],
            ),
            ("names", [pairs(*each.of(codes, in_order)) for codes, each in names]),
        ):
            _write_tier(writer, tier, pieces, len(words), row_type(len(default_order)))

    def _words_of(self, field: str, values: Iterable[Any]) -> "_ValueWords":
        words = _Lists()
        for value in values:
            words.add(map(self._words.__getitem__, index_words(field, str(value))))
        return _ValueWords(words)


class _ValueWords:
    """The words of each code's value. The last code stands for an absent value and has no words."""

    def __init__(self, words: _Lists) -> None:
        self._words, values = words.taken()
        self._counts = np.bincount(values, minlength=len(words) + 1)
        self._firsts = np.cumsum(self._counts) - self._counts

    def of(self, codes: Codes, rows: NDArray[np.int64]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """The words of each code, and for each word the row that has the code."""
        lengths = self._counts[codes]
        # For each code, the positions of its words: the first position, and one more for each further word.
        at = np.repeat(self._firsts[codes] - np.cumsum(lengths) + lengths, lengths)
        at += np.arange(len(at))
        return self._words[at], np.repeat(rows, lengths)


def _write_tier(writer: FlatWriter, name: str, pieces: list[NDArray[np.int64]], words: int, rows: type[Any]) -> None:
    """Sorts the pairs by the position of the word, then by row, and removes duplicates."""
    pairs = np.concatenate(pieces)
    pieces.clear()
    pairs.sort()
    pairs = pairs[np.diff(pairs, prepend=-1) != 0]
    writer.array(f"words.{name}.starts", np.searchsorted(pairs, np.arange(words + 1) << 32))
    # The lower half of a pair is its row.
    writer.array(f"words.{name}.rows", pairs.astype(np.int32).astype(rows, copy=False))
