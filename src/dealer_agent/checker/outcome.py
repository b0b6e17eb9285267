"""How a check ends if it does not pass, and judgements of what a target says."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from dealer_agent.checker.exchange import Exchange, at

T = TypeVar("T")

Judgement = Callable[[Any], bool | str]
"""Judges a thing. True, or the sentence that says what is wrong."""


class Failed(Exception):  # noqa: N818 - a verdict, not an error of the program.
    """The target breaks the requirement. `sentence` says how, and `exchange` shows it. None: the latest exchange."""

    def __init__(self, sentence: str, exchange: Exchange | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.exchange = exchange


class Skipped(Exception):  # noqa: N818 - a verdict, not an error of the program.
    """The target has nothing to check the requirement with. The argument is the reason, a sentence."""


class Unprepared(Skipped):
    """The preparation of the check failed: another check fails for that. With fresh data, it may not."""


class NotChecked(Exception):  # noqa: N818 - a verdict, not an error of the program.
    """The run failed, for a reason that is not the target's fault. The argument is the reason, a sentence."""


def expect(condition: object, sentence: str, exchange: Exchange | None = None) -> None:
    """Raises Failed with the sentence unless the condition is true."""
    if not condition:
        raise Failed(sentence, exchange)


def conclude(judgement: bool | str, exchange: Exchange | None = None) -> None:
    """Raises Failed unless the judgement is True. Else it is the sentence that says what is wrong."""
    if judgement is not True:
        raise Failed(str(judgement), exchange)


def skip_unless(thing: T | None, reason: str) -> T:
    """The thing. Skips the check for this reason if it is empty, false or None."""
    if not thing:
        raise Skipped(reason)
    return thing


@contextmanager
def skip_if_failed(reason: str = "") -> Iterator[None]:
    """Raises Unprepared if the preparation of the check fails. `reason` comes before the sentence."""
    try:
        yield
    except Failed as failure:
        raise Unprepared(f"{reason}{failure.sentence}") from None


def has(path: str, form: Callable[[Any], bool], why: str = "") -> Judgement:
    """A judgement of JSON: the value at a path (see `at`) has a form. `why` is added to the sentence."""

    def judge(node: Any) -> bool | str:
        value = at(node, path)
        return (
            bool(form(value)) or f"`{path}` is {'absent' if value is None else repr(value)[:300]}{why and ', '}{why}."
        )

    return judge


def status(*wanted: int) -> Judgement:
    """A judgement of an exchange: it has one of these HTTP statuses."""
    return lambda exchange: (
        exchange.status in wanted or f"The status is {exchange.status}, not {' or '.join(map(str, wanted))}."
    )


def expect_status(exchange: Exchange, *wanted: int) -> None:
    """Raises Failed unless the HTTP status is one of these."""
    conclude(status(*wanted)(exchange), exchange)


def header(name: str, form: Callable[[str], object]) -> Judgement:
    """A judgement of an exchange: a header of its response has a form. An absent header is an empty text."""
    return lambda exchange: bool(form(exchange.header(name) or "")) or f"{name} is {exchange.header(name) or 'absent'}."
