"""How a check is written, and all checks by the id of their requirement.

    judge_each({"http.status": (asking("dealer.information"), status(200))})

    @check("search.skip-past-end")
    async def _(target: Target) -> None:
        page = await search(target, pagination={"skip": 10_000_000, "limit": 10})
        expect(not page.vehicles, "A skip beyond the last vehicle returns vehicles.")

A simple check is a row: a probe and judgements of what it finds (`judge_each`, and `each_of` for checks that share a
probe), or an argument of a function that others share (`check_each`). A probe is a function of the target. Most send
one request and find its exchange (`asking`). `outcome` and `reply` have judgements. A request that must only be refused
or answered is a row of the requirements, and needs nothing here.

Any other check is an async function in a module of `checks/`. It returns if the requirement is fulfilled. It raises
`Failed` if not, most easily through `expect`, and `Skipped` if the target has nothing to check it with, through
`skip_unless`. Any other exception means that the check could not be done: a lost connection, or a defect of the check.
That is never the target's fault. The function has no name of its own: the id is its name, and the requirement says what
it checks.

A check fails for one reason only. What other requirements say is read leniently: `Target.ask` accepts a response with a
wrong content type, because another check fails for it. A negative control (tests/checker/) proves this for each check.

With `last=True`, a check runs after all others of its target, and judges their exchanges (`target.exchanges`).
"""

import pkgutil
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from typing import Any
from zlib import crc32

from dealer_agent.checker.card import FetchedCard
from dealer_agent.checker.exchange import Exchange
from dealer_agent.checker.outcome import Judgement, conclude
from dealer_agent.checker.reply import Refusal, answered, rejected
from dealer_agent.checker.requirement import requirements
from dealer_agent.checker.target import Target, asking, in_turn

CheckFunction = Callable[[Target], Awaitable[None]]
Probe = Callable[[Target], Awaitable[Any]]


@dataclass(frozen=True)
class Check:
    """The check of one requirement."""

    id: str
    run: CheckFunction
    last: bool


# By the id of the requirement.
_registered: dict[str, Check] = {}


def check(requirement_id: str, *, last: bool = False) -> Callable[[CheckFunction], CheckFunction]:
    """Registers a function as the check of a requirement."""

    def register(function: CheckFunction) -> CheckFunction:
        if requirement_id in _registered:
            raise ValueError(f"{requirement_id} has two checks")
        _registered[requirement_id] = Check(requirement_id, function, last)
        return function

    return register


def check_each(rows: Mapping[str, Any], *, last: bool = False) -> Callable[[Callable[..., Awaitable[None]]], None]:
    """Registers a function as the check of several requirements, which differ in its further arguments.

    `rows` has the argument of each requirement. A tuple has several.
    """

    def register(function: Callable[..., Awaitable[None]]) -> None:
        for requirement_id, row in rows.items():
            arguments = row if isinstance(row, tuple) else (row,)
            check(requirement_id, last=last)(partial(_run, function, arguments))

    return register


async def _run(function: Callable[..., Awaitable[None]], arguments: tuple[Any, ...], target: Target) -> None:
    await function(target, *arguments)


def judge_each(rows: Mapping[str, tuple[Probe, *tuple[Judgement, ...]]], *, last: bool = False) -> None:
    """Registers checks that judge what a probe finds: one thing, or each of a list. All judgements must be true."""

    @check_each(rows, last=last)
    async def _(target: Target, probe: Probe, *judgements: Judgement) -> None:
        probed = await probe(target)
        for subject in probed if isinstance(probed, list) else [probed]:
            shown = subject.exchange if isinstance(subject, Refusal | FetchedCard) else subject
            for judgement in judgements:
                conclude(judgement(subject), shown if isinstance(shown, Exchange) else None)


def each_of(probe: Probe, rows: Mapping[str, Judgement], *, last: bool = False) -> None:
    """Registers checks that judge the same things."""
    judge_each({requirement_id: (probe, judgement) for requirement_id, judgement in rows.items()}, last=last)


def _in_turn(requirement_id: str, request: Probe) -> Probe:
    """A request that goes to one interface of the card for half of the ids, and to the other one for the other half."""
    return lambda target: request(in_turn(target, crc32(requirement_id.encode())))


@cache
def checks() -> dict[str, Check]:
    """All checks by id. Imports the modules of `checks/`."""
    package = import_module(f"{__package__}.checks")
    for module in pkgutil.iter_modules(package.__path__):
        import_module(f"{package.__name__}.{module.name}")
    for row in requirements().values():
        if row.refused is not None:
            judge_each({row.id: (_in_turn(row.id, asking(row.skills[0], **row.refused)), rejected)})
        elif row.accepted is not None:
            judge_each({row.id: (_in_turn(row.id, asking(row.skills[0], **row.accepted)), answered)})
    return _registered
