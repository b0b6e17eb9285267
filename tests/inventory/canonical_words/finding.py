"""The rule of free-text search in its simplest form. The index of the catalogue is faster."""

from dealer_agent.inventory.canonical_words.query import Term


def is_found(term: Term, listing_words: frozenset[str]) -> bool:
    """Whether one alternative of the term is a word of the listing, or the prefix of one.

    A marker (`fuel=gas`) must be equal.
    """
    return any(
        word == alternative or ("=" not in word and word.startswith(alternative))
        for alternative in term
        for word in listing_words
    )
