"""How a check is written, and all checks by the id of their requirement.

    @check("search.skip-past-end")
    async def skip_past_end(target: Target) -> None:
        listings = await target.material.listings()
        page = await target.ask("inventory.search", pagination={"skip": len(listings) + 10})
        expect(page.get("vehicles") == [], "A skip beyond the last result gives an empty page.", target)

A check is an async function in a module of `checks/`. It returns if the requirement is fulfilled. It raises `Failed` if
not, most easily through `expect`, and `Skipped` if the target has nothing to check it with. Any other exception means
that the check could not be done: a lost connection, or a defect of the check. That is never the target's fault.

A check fails for one reason only. What other requirements say is read leniently: `Target.ask` accepts a reply with a
wrong content type, because another check fails for it. A negative control (tests/checker/) proves this for each check.

With `last=True`, a check runs after all others of its target, and judges their exchanges (`target.exchanges`).
"""

import pkgutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from dealer_agent.checker.exchange import Exchange

if TYPE_CHECKING:
    from dealer_agent.checker.target import Target

CheckFunction = Callable[["Target"], Awaitable[None]]


class Failed(Exception):  # noqa: N818 - a verdict, not an error of the program.
    """The target breaks the requirement. `sentence` says how, and `exchange` shows it."""

    def __init__(self, sentence: str, exchange: Exchange | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.exchange = exchange


class Skipped(Exception):  # noqa: N818 - a verdict, not an error of the program.
    """The target has nothing to check the requirement with. The argument is the reason, a sentence."""


class NotChecked(Exception):  # noqa: N818 - a verdict, not an error of the program.
    """The run failed, for a reason that is not the target's fault. The argument is the reason, a sentence."""


@dataclass(frozen=True)
class Check:
    """The check of one requirement."""

    id: str
    run: CheckFunction
    last: bool


_registered: dict[str, Check] = {}


def check(requirement_id: str, *, last: bool = False) -> Callable[[CheckFunction], CheckFunction]:
    """Registers a function as the check of a requirement."""

    def register(function: CheckFunction) -> CheckFunction:
        if requirement_id in _registered:
            raise ValueError(f"{requirement_id} has two checks")
        _registered[requirement_id] = Check(requirement_id, function, last)
        return function

    return register


def expect(condition: object, sentence: str, shown: "Target | Exchange | None" = None) -> None:
    """Raises Failed with the sentence unless the condition is true.

    `shown` is the exchange for the report. A target stands for its latest exchange.
    """
    if not condition:
        raise Failed(sentence, shown if isinstance(shown, Exchange) or shown is None else shown.latest)


@cache
def checks() -> dict[str, Check]:
    """All checks by id. Imports the modules of `checks/`."""
    package = import_module(f"{__package__}.checks")
    for module in pkgutil.iter_modules(package.__path__):
        import_module(f"{package.__name__}.{module.name}")
    return _registered
