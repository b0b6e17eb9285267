"""The long form of tests: `make soak`. Without it, a test generates fewer cases, and the same ones in every run."""

import os
import time

import pytest

SOAK = bool(os.environ.get("SOAK"))
"""Whether this is the long form."""


def soak_count(name: str, few: int) -> int:
    """How many cases a test has: `few`, or what the environment variable says."""
    return int(os.environ.get(name, few))


def examples(many: int) -> int:
    """How many examples Hypothesis generates for a test: a quarter of `many` in a short run, which repeats the same."""
    return many if SOAK else max(10, many // 4)


def soak_seed() -> int:
    """The seed of generated cases: another one in every long run, always the same in a short one."""
    return int(os.environ.get("SOAK_SEED", "0")) or (int(time.time()) if SOAK else 1)


SQLITE_FIRST = ("sqlite", pytest.param("postgresql", marks=pytest.mark.soak))
"""The databases of tests whose statements other tests prove on both: PostgreSQL only in `make soak`."""


def sqlite_first(fixture: str = "database_url") -> pytest.MarkDecorator:
    """For a long test whose rule other tests prove on both databases: on PostgreSQL only in `make soak`."""
    return pytest.mark.parametrize(fixture, SQLITE_FIRST, indirect=True)
