"""The terms of a free-text query, and the words of a listing (docs/protocol.md#inventory-search). Pure functions."""

import re
from functools import lru_cache
from itertools import chain, pairwise

from dealer_agent.inventory.canonical_words.tables import FILLERS, LONGEST, TABLES, colour_words, expanded
from dealer_agent.inventory.canonical_words.text import fold, parts, word_groups, words
from dealer_agent.protocol.vehicle import FIELDS

Term = frozenset[str]
"""The alternatives of one term of a query. One of them must be a word of the listing, or the prefix of one."""

SEARCHED = frozenset(name for name, row in FIELDS.items() if row.field.search)
"""The fields that a query searches."""

_NAMES = frozenset(name for name, row in FIELDS.items() if row.field.search == "name")
_IDENTIFIERS = frozenset(name for name, row in FIELDS.items() if row.field.search == "identifier")
_COLOURS = frozenset(name for name, row in FIELDS.items() if row.field.vocabulary == "colour")
_CANONICAL = SEARCHED & TABLES.keys()

_GRAY = frozenset({"gray", "grey"})
_RUNS = re.compile(r"\d+|\D+")
_LONGEST_PHRASE = 6


def _marker(field: str, word: str) -> str:
    """The word of the index for a canonical word of a field, such as `fuel=gas`. No text of a listing folds to it."""
    return f"{field}={fold(word)}"


def _phrases() -> tuple[dict[str, frozenset[str]], frozenset[str]]:
    """A map from folded spelling to its markers, and the first words of the spellings that have several words."""
    meanings: dict[str, set[str]] = {}
    starts: set[str] = set()
    for field in sorted(_CANONICAL):
        for word, spelled in TABLES[field].spellings.items():
            finds = TABLES[field].includes.get(word, (word,))
            for text in (word, *expanded(spelled)):
                meanings.setdefault(fold(text), set()).update(_marker(field, found) for found in finds)
                spelled_parts = parts(text)
                if len(spelled_parts) > 1:
                    starts.add(spelled_parts[0])
    return {spelling: frozenset(markers) for spelling, markers in meanings.items()}, frozenset(starts)


_MEANINGS, _PHRASE_STARTS = _phrases()


def _phrase_at(groups: list[list[str]], start: int) -> tuple[str, int]:
    """The longest known spelling that starts at `start`, and the index after its end. ("", start) without one."""
    if groups[start][0] not in _PHRASE_STARTS and "".join(groups[start]) not in _MEANINGS:
        return "", start
    joined, best, end = "", "", start
    for index in range(start, min(start + _LONGEST_PHRASE, len(groups))):
        joined += "".join(groups[index])
        if joined in _MEANINGS:
            best, end = joined, index + 1
    return best, end


def query_terms(text: str) -> list[Term]:
    """The terms of a query, in order. Each must be found. A query of fillers has no terms, and does not constrain."""
    groups = word_groups(text)
    terms: list[Term] = []
    at = 0
    while at < len(groups):
        phrase, end = _phrase_at(groups, at)
        if phrase:
            terms.append(frozenset({phrase}) | _MEANINGS[phrase])
            at = end
            continue
        group = groups[at]
        # People read `twin-turbo` as two words, `f-150` and `e-tron` as one.
        loose = group if all(len(part) > 2 for part in group) else ["".join(group)]
        terms.extend(_GRAY if word in _GRAY else frozenset({word}) for word in loose if word not in FILLERS)
        at += 1
    return terms


def _name_words(text: str) -> set[str]:
    """The words of a name, joined neighbours, and letters and digits apart.

    `F 150` also gives `f150`. `CX5` also gives `cx` and `5`.
    """
    groups = ["".join(group) for group in word_groups(text)]
    found = set(words(text))
    found.update(run for group in groups for run in _RUNS.findall(group))
    found.update(first + second for first, second in pairwise(groups))
    return found


def _prose_words(text: str) -> set[str]:
    """The words of a text, and the known spellings of several words in it, joined: allwheeldrive."""
    groups = word_groups(text)
    found = set(chain.from_iterable(groups))
    for index, group in enumerate(groups):
        if len(group) > 1:
            found.add("".join(group))
        if group[0] in _PHRASE_STARTS:
            phrase, _ = _phrase_at(groups, index)
            if phrase:
                found.add(phrase)
    return found


def _index_words(field: str, text: str) -> frozenset[str]:
    """The words of one field by which a search finds a listing, with the marker of its canonical word (`_marker`)."""
    found = _prose_words(text)
    if field in _IDENTIFIERS:
        found.add(fold(text))
    if field in _NAMES:
        found |= _name_words(text)
    if field in _COLOURS:
        found |= colour_words(text)
    if field in _CANONICAL:
        word = TABLES[field].read(text)
        if word is not None:
            found |= _name_words(word) if field in _NAMES else set(words(word))
            found.add(_marker(field, word))
    return frozenset(found - {""})


_cached_index_words = lru_cache(maxsize=32_768)(_index_words)


def index_words(field: str, text: str) -> frozenset[str]:
    """The words by which a search finds one value of a `SEARCHED` field. A number is given as its digits.

    Words that contain `=` are markers of canonical words. Only the terms of queries contain them.
    """
    if field in _IDENTIFIERS and text.isascii() and text.isalnum():
        return frozenset((text.lower(),))
    # Long texts and identifiers rarely repeat. Caching them would evict texts that do.
    if field in _IDENTIFIERS or len(text) > LONGEST:
        return _index_words(field, text)
    return _cached_index_words(field, text)


_WORD_OF_MARKER = {field: {_marker(field, word): word for word in TABLES[field].spellings} for field in _CANONICAL}


def canonical_terms(field: str, text: str) -> set[str]:
    """The canonical words of a field that a query names."""
    words = _WORD_OF_MARKER[field]
    return {words[marker] for term in query_terms(text) for marker in term if marker in words}
