"""Identifiers are unique and have the form of a ULID (docs/protocol.md#reply-message-id)."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from ulid import ULID

from dealer_agent.protocol.ids import new_ulid

pytestmark = pytest.mark.requirement("reply-message-id", "error-id")


def _some(count: int) -> list[str]:
    return [new_ulid() for _ in range(count)]


def test_an_id_is_a_ulid() -> None:
    """A fresh ULID, 26 characters of Crockford's base 32."""
    text = new_ulid()
    assert len(text) == 26
    assert str(ULID.from_str(text)) == text


def test_an_id_contains_its_time() -> None:
    """ULID-like."""
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    made = ULID.from_str(new_ulid()).datetime
    assert before <= made <= datetime.now(UTC)


def test_no_id_comes_twice() -> None:
    """The dealer's messageId MUST differ from the request's, so from every other one."""
    assert len(set(_some(10_000))) == 10_000


def test_forked_workers_make_different_ids() -> None:
    """Unique also across processes that share their parent's memory."""
    mine = _some(10)
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
        theirs = [one for some in pool.map(_some, [500] * 4) for one in some]
    assert len({*mine, *theirs}) == 2_010


def test_one_id_does_not_tell_the_next() -> None:
    """Ids made within one millisecond differ in more than a count."""
    randomness = [int.from_bytes(ULID.from_str(text).bytes[6:]) for text in _some(1_000)]
    assert all(abs(second - first) > 1 for first, second in pairwise(randomness))
