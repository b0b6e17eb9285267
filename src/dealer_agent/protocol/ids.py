"""Fresh identifiers: ULIDs (specification, part 2.1; contract, parts 2 and 3)."""

from ulid import PureRandomPolicy, ULIDGenerator

# python-ulid's default counts upwards within a millisecond: workers forked in that millisecond would make the same ids,
# and one id would tell the next. Fresh randomness for each costs as little.
_generate = ULIDGenerator(policy=PureRandomPolicy()).generate


def new_ulid() -> str:
    """26 characters that no other call returns, sorting by the millisecond in which they were made."""
    return str(_generate())
