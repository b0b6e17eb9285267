"""The matrix: each defect, the requirement that must fail, whether it did, and what else failed."""

import asyncio
import multiprocessing
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Literal

from dealer_agent.checker.check import checks
from dealer_agent.checker.requirement import Level, Requirement, requirements
from dealer_agent.checker.revision import REVISIONS
from dealer_agent.checker.runner import Options
from dealer_agent.self_test.dealer import (
    ASKS_FOR_TOKENS,
    PUBLISHED,
    ConformingDealer,
    make_dealer,
    make_token,
    running,
    signer,
)
from dealer_agent.self_test.defect import Defect, defects

CARDS = {
    "1.0.0": "/.well-known/agent-card.json",
    "0.1.0": "/cards/0.1.0.json",
    **{name: f"/{name}/.well-known/agent-card.json" for name, each in REVISIONS.items() if each.is_published},
}
"""The path of the card of each revision."""

READING = {"information", "facets", "search", "vehicle"}
BEFORE = {
    "errors": {"strict", "vehicle"},
    "filters": {"query"},
    "leads": {"consent"},
    "limits": {*READING, "strict"},
    "search": {"filters", "query", "sort"},
    "sort": {"filters"},
}
"""The subjects with the requests that a check of exchanges needs; those of READING for a subject that is not here."""

Found = Literal["found", "missed", "could not check"]


@dataclass(frozen=True)
class MatrixRow:
    """A defect and what the checker says. `others` are the ids of requirements that failed too."""

    name: str
    says: str
    requirement: str
    level: Level
    found: Found
    others: tuple[str, ...]


def variant_of(requirement: Requirement, defect: Defect) -> tuple[str, str, str]:
    """Revision, binding and vocabulary in which a defect is checked."""
    return next(
        (revision, binding, vocabulary)
        for revision in ("1.0.0", "0.1.0", *REVISIONS)
        for binding in ("HTTP+JSON", "JSONRPC")
        for vocabulary in ("proto", "autoagent")
        if requirement.applies_to(revision, binding, vocabulary)
        and binding in REVISIONS[revision].bindings
        and REVISIONS[revision].only_vocabulary in (None, vocabulary)
        and defect.revision in (None, revision)
        and defect.binding in (None, binding)
        and defect.vocabulary in (None, vocabulary)
    )


def checks_before(defect: Defect) -> set[str]:
    """The subjects that must be checked before the defect can be found: its check may judge their exchanges."""
    requirement = requirements()[defect.requirement]
    if not checks()[requirement.id].last:
        return set()
    return {requirement.subject, *BEFORE.get(requirement.subject, READING)}


def options_of(defect: Defect, token: str | None, only: Collection[str] = ()) -> Options:
    """The options of the run that must find a defect: its variant, and `only` these requirements; all without them.

    Leads are submitted only if the requirement of the defect is about leads.
    """
    requirement = requirements()[defect.requirement]
    revision, binding, vocabulary = variant_of(requirement, defect)
    return Options(
        revisions={revision},
        bindings={binding},
        vocabularies={vocabulary},
        token=token if defect.token else None,
        leads=requirement.leads,
        signer=signer() if defect.signed else None,
        rate=1e9,
        only=only,
    )


def url_of(defect: Defect) -> str:
    """The card of a defect."""
    return defect.base + CARDS[variant_of(requirements()[defect.requirement], defect)[0]]


@dataclass(frozen=True)
class Dealers:
    """The two conforming dealers of a process: one asks for tokens."""

    open: ConformingDealer
    asking_for_tokens: ConformingDealer

    def of(self, defect: Defect) -> ConformingDealer:
        """The dealer that a defect breaks."""
        return self.asking_for_tokens if defect.token else self.open

    async def judge(self, defect: Defect, *, whole: bool) -> MatrixRow:
        """Checks the dealer with a defect: what has to do with its subject, or the whole interface."""
        dealer = self.of(defect)
        only = () if whole else {requirements()[defect.requirement].subject, *checks_before(defect)}
        verdicts = await dealer.check(options_of(defect, dealer.token, only), defect.answer, url_of(defect))
        failed = dict.fromkeys(each.requirement.id for each in verdicts if each.outcome == "fail")
        undone = {each.requirement.id for each in verdicts if each.outcome == "could not check"}
        wanted = defect.requirement
        found: Found = "found" if wanted in failed else "could not check" if wanted in undone else "missed"
        others = tuple(each for each in failed if each != wanted)
        return MatrixRow(defect.name, defect.says, wanted, requirements()[wanted].level, found, others)


@asynccontextmanager
async def both_dealers(folder: Path) -> AsyncIterator[Dealers]:
    """The conforming dealers, with files in this folder."""
    make_dealer(folder / "open", tables=PUBLISHED)
    make_dealer(folder / "tokens", tables=ASKS_FOR_TOKENS)
    async with running(folder / "open") as one, running(folder / "tokens", make_token(folder / "tokens")) as other:
        yield Dealers(one, other)


def run_matrix(chosen: Sequence[Defect], on_row: Callable[[MatrixRow], None], *, whole: bool) -> list[MatrixRow]:
    """The rows of these defects, in their order. `on_row` gets each one when it is ready.

    With `whole`, each run has all checks of an interface, else those of the defect's subject.
    One process for each processor has its own dealers. Raises RuntimeError if one of them ends early.
    """
    names = [each.name for each in chosen]
    workers = max(1, min(os.cpu_count() or 1, len(names)))
    rows = {}
    for row in _rows([names[each::workers] for each in range(workers)], whole=whole):
        rows[row.name] = row
        on_row(row)
    if len(rows) < len(names):
        raise RuntimeError("a process of the self-test ended early: its error is above")
    return [rows[name] for name in names]


def _rows(shares: Sequence[Sequence[str]], *, whole: bool) -> Iterator[MatrixRow]:
    """The rows of all defects, as they come. Each of `shares` has the names of defects that one process judges."""
    context = multiprocessing.get_context("spawn")
    receivers = []
    for names in shares:
        receiver, sender = context.Pipe(duplex=False)
        context.Process(target=_judge_in_child_process, args=(names, sender, whole), daemon=True).start()
        sender.close()
        receivers.append(receiver)
    while receivers:
        for ready in wait(receivers):
            assert isinstance(ready, Connection)
            try:
                yield ready.recv()
            except EOFError:
                receivers.remove(ready)


def _judge_in_child_process(names: Sequence[str], sender: Connection, whole: bool) -> None:
    """Runs in a process of its own: judges the defects with these names, and sends the row of each to the parent."""

    async def run(folder: Path) -> None:
        async with both_dealers(folder) as dealers:
            for name in names:
                sender.send(await dealers.judge(defects()[name], whole=whole))

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder)))
