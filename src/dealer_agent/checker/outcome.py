"""How a check ends if it does not pass."""

from collections.abc import Iterator
from contextlib import contextmanager

from dealer_agent.checker.exchange import Exchange


class Failed(Exception):  # noqa: N818 - a verdict, not an error of the program.
    """The target breaks the requirement. `sentence` says how, and `exchange` shows it. None: the latest exchange."""

    def __init__(self, sentence: str, exchange: Exchange | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.exchange = exchange


class Skipped(Exception):  # noqa: N818 - a verdict, not an error of the program.
    """The target has nothing to check the requirement with. The argument is the reason, a sentence."""


class NotChecked(Exception):  # noqa: N818 - a verdict, not an error of the program.
    """The run failed, for a reason that is not the target's fault. The argument is the reason, a sentence."""


def expect(condition: object, sentence: str, exchange: Exchange | None = None) -> None:
    """Raises Failed with the sentence unless the condition is true."""
    if not condition:
        raise Failed(sentence, exchange)


def expect_status(exchange: Exchange, *statuses: int) -> None:
    """Raises Failed unless the HTTP status is one of these."""
    wanted = " or ".join(map(str, statuses))
    expect(exchange.status in statuses, f"The status is {exchange.status}, not {wanted}.", exchange)


def conclude(judgement: bool | str, exchange: Exchange | None = None) -> None:
    """Raises Failed unless the judgement is True. Else it is the sentence that says what is wrong."""
    if judgement is not True:
        raise Failed(str(judgement), exchange)


@contextmanager
def skip_if_failed(reason: str = "") -> Iterator[None]:
    """Skips the check if its preparation fails: another check fails for that. `reason` comes before the sentence."""
    try:
        yield
    except Failed as failure:
        raise Skipped(f"{reason}{failure.sentence}") from None
