"""`dealer-agent consent verify` and `consent head`: detect changes of the consent record and of the access log."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import typer

from dealer_agent.cli.lead_display import show_event
from dealer_agent.cli.terminal import (
    HERE,
    DirOption,
    counted,
    fail,
    moment,
    open_customer_store,
    open_store,
    out,
    report_errors,
)
from dealer_agent.server.chain_heads import append_heads, read_heads
from dealer_agent.storage.accesses import verify_accesses
from dealer_agent.storage.chain_heads import Head, by_chain
from dealer_agent.storage.consent_evidence import MOST_LINE_BYTES, BadEvidence, check_evidence
from dealer_agent.storage.consents import verify_chain
from dealer_agent.storage.event_chain import heads

COMPARED = "It agrees with a recorded head: nobody changed these events after that head was recorded."
NOT_COMPARED = (
    "It does not prove that the head is genuine: repeat the command with --against and a head that was recorded "
    "outside the database."
)
NOT_PROVEN = (
    "It does not prove that the agent told the truth, because the dealer recorded what it received. It does not prove "
    "that the person has no other leads."
)


def head(directory: DirOption = HERE) -> None:
    """Print the heads of the consent record and of the access log, and add them to the file of heads.

    Keep the output where a person who can change the database cannot change it. `consent verify --against` reads it.
    """
    with open_store(directory) as (settings, store):
        with store.read(settings.dealer.id) as tx:
            found = heads(tx)
        append_heads(settings.heads_file, found, tx.now)
    for each in found:
        out.print(str(each), markup=False)


def verify(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", help="A file that `consent export` wrote. Checking it needs no database and no key."
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="FILE-OR-HEAD", help="A file of recorded heads, or one head as `consent head` prints it."),
    ] = None,
    directory: DirOption = HERE,
) -> None:
    """Check that nobody changed, removed or added consent events or entries of the access log in the database.

    If somebody did, it names the first broken event or entry and ends with exit code 1. It finds that the newest events
    were removed, or that an older copy of the database was put back, only with --against.
    """
    recorded = None if against is None else _recorded(against)
    if file is not None:
        with report_errors():
            _verify_file(file, recorded)
        return
    with open_customer_store(directory) as (settings, store):
        dealer_id = settings.dealer.id
        known = _of_dealer(recorded, dealer_id)
        with store.read(dealer_id) as tx:
            report = verify_chain(tx, known["consents"])
            log = verify_accesses(tx, known["accesses"])
    if report.first_broken is not None:
        fail(f"The consent record is broken at event {report.first_broken}: {report.problem}")
    if log.first_broken is not None:
        fail(f"The access log is broken at entry {log.first_broken}: {log.problem}")
    erased = f", {report.erased} of them of erased persons" if report.erased else ""
    out.print(f"The consent record is whole: {counted(report.events, 'event')}{erased}.")
    deleted = f"; the first {log.deleted:,} were deleted by age" if log.deleted else ""
    entries = f"{log.entries:,} {'entry' if log.entries == 1 else 'entries'}"
    out.print(f"The access log is whole: {entries}{deleted}.")
    if recorded is not None:
        newest = max(each.at for each in recorded if each.dealer_id == dealer_id)
        out.print(f"Both agree with the recorded heads; the newest head is from {moment(newest)} UTC.")


def _recorded(against: str) -> list[Head]:
    """The heads of --against. Raises BadParameter."""
    path = Path(against)
    try:
        if " " not in against or path.exists():
            return list(read_heads(path))
        return [Head.parse(against)]
    except (ValueError, OSError) as problem:
        raise typer.BadParameter(str(problem), param_hint="--against") from None


def _of_dealer(recorded: list[Head] | None, dealer_id: str) -> Mapping[str, Mapping[int, bytes]]:
    """The hashes of the recorded heads by chain. Ends the command if they contradict each other."""
    if recorded is not None and not any(each.dealer_id == dealer_id for each in recorded):
        raise typer.BadParameter(f"holds no head of the dealer {dealer_id}", param_hint="--against")
    try:
        return by_chain(recorded or (), dealer_id)
    except ValueError as problem:
        fail(str(problem))


def _verify_file(file: Path, recorded: list[Head] | None) -> None:
    try:
        found = check_evidence(_lines(file), recorded or ())
    except BadEvidence as problem:
        fail(f"{file} is not a valid consent record: {problem}")
    if recorded is not None and not found.compared:
        fail(
            f"{file} cannot be compared: no recorded head of the dealer {found.dealer_id} counts "
            "the events of the file. Export the record again: it then reaches the newest head"
        )
    for event in found.events:
        show_event(event)
    out.print(
        f"\nThe record is valid. Each text is the one that was recorded. "
        f"{counted(found.head.rows, 'event')} without a gap lead to this head:\n{found.head}",
        markup=False,
    )
    out.print(COMPARED if recorded is not None else NOT_COMPARED)
    out.print(NOT_PROVEN)


def _lines(file: Path) -> Iterator[bytes]:
    with file.open("rb") as opened:
        while line := opened.readline(MOST_LINE_BYTES + 2):
            yield line
