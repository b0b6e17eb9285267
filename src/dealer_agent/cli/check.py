"""`dealer-agent check`: checks any dealer agent against the protocol."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group as Lines
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dealer_agent.cli.command import JsonOption, wrong_use
from dealer_agent.cli.self_test import run_self_test
from dealer_agent.cli.signer_options import AsOption, SignOption, read_signer
from dealer_agent.cli.terminal import counted, fail, out, plain, progress, terminal_width

if TYPE_CHECKING:
    from dealer_agent.checker.events import Event
    from dealer_agent.checker.result import ExpectedFailure, Group, RunResult
    from dealer_agent.checker.runner import Options

EXIT_FAILED, EXIT_INCOMPLETE = 1, 3
EXIT_CODES = (
    "Exit codes: 0 no MUST failed (a failed SHOULD is shown only, unless --strict); 1 a MUST failed, an expected "
    "failure did not fail, or nothing was checked; 2 a wrong option; 3 no MUST failed, and something could not be "
    "checked: no card was found, for example."
)
STYLES = {"pass": "green", "fail": "bold red", "skipped": "dim", "could not check": "yellow"}
TITLES = {"pass": "passed", "fail": "failed", "skipped": "skipped", "could not check": "not checked"}
MOST_IN_FULL = 8
"""With more failures than these, the terminal shows no requests and responses."""
SHOWN_BODY = 400
"""Characters of a body that the terminal shows. The other reports have more."""


def check(
    url: Annotated[
        str, typer.Argument(metavar="URL", help="The address of a dealer agent, or of its agent card.")
    ] = "",
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="ID", help="Check this requirement, or all that begin with ID. Repeatable."),
    ] = None,
    profile: Annotated[
        list[str] | None,
        typer.Option(
            "--profile",
            metavar="NAME",
            help="Check the requirements of this profile, too. dealer-agent: the decisions of this project where the "
            "specification leaves something open. Repeatable.",
        ),
    ] = None,
    revision: Annotated[
        list[str] | None,
        typer.Option("--revision", metavar="NAME", help="Check cards of this revision, e.g. 1.0.0. Repeatable."),
    ] = None,
    binding: Annotated[
        list[str] | None, typer.Option("--binding", metavar="NAME", help="JSONRPC or HTTP+JSON. Repeatable.")
    ] = None,
    vocabulary: Annotated[
        list[str] | None, typer.Option("--vocabulary", metavar="NAME", help="For example proto. Repeatable.")
    ] = None,
    token: Annotated[
        str | None, typer.Option("--token", envvar="DEALER_AGENT_CHECK_TOKEN", help="A bearer token for the agent.")
    ] = None,
    sign: SignOption = None,
    origin: AsOption = None,
    leads: Annotated[
        bool, typer.Option("--leads", help="Submit test leads, too. Each is marked as a test and names no real person.")
    ] = False,
    rate: Annotated[float, typer.Option(min=0.1, max=1000, help="The most requests in a second.")] = 50,
    time: Annotated[float, typer.Option(min=1, max=86_400, help="The longest time of the run, in seconds.")] = 600,
    strict: Annotated[bool, typer.Option("--strict", help="A failed SHOULD fails the run, as a MUST does.")] = False,
    expected: Annotated[
        Path | None,
        typer.Option(
            "--expected", metavar="FILE", exists=True, dir_okay=False, help="A TOML file of failures that are known."
        ),
    ] = None,
    report: Annotated[
        list[Path] | None,
        typer.Option("--report", metavar="FILE", help="Write a report: .json, .xml (JUnit), .html, .svg. Repeatable."),
    ] = None,
    self_test: Annotated[
        bool, typer.Option("--self-test", help="Check the checker: run it on dealers that are broken on purpose.")
    ] = False,
    whole: Annotated[
        bool, typer.Option("--whole", help="With --self-test: run all checks on each dealer. This takes much longer.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check any dealer agent against the protocol, as a buyer sees it.

    The checks need nothing but the address: they find cards, interfaces and vehicles themselves. They submit no lead
    without --leads.
    """
    from dealer_agent.checker.result import RunResult
    from dealer_agent.checker.runner import Options

    if self_test:
        run_self_test(only or (), whole=whole, as_json=as_json)
        return
    if not url.startswith(("http://", "https://")):
        raise typer.BadParameter("an address begins with http:// or https://", param_hint="URL")
    reports = _writable(report or [])
    options = Options(
        only or (),
        profile or (),
        revision or (),
        binding or (),
        vocabulary or (),
        token,
        leads,
        rate,
        time,
        read_signer(sign, origin),
    )
    _require_known(options)
    result = RunResult(url, datetime.now(UTC), strict=strict, expected=_known_failures(expected))
    asyncio.run(_run(result, options))
    _report(result, reports, as_json=as_json)


def _writable(reports: Sequence[Path]) -> Sequence[Path]:
    """The files of the reports. Raises BadParameter for one that cannot be written."""
    from dealer_agent.checker.reports import REPORTS

    for path in reports:
        if path.suffix not in REPORTS:
            raise typer.BadParameter(f"the name must end with one of {', '.join(REPORTS)}", param_hint="--report")
        if not path.absolute().parent.is_dir():
            raise typer.BadParameter(f"there is no folder {path.parent}; make it first", param_hint="--report")
    return reports


def _require_known(options: "Options") -> None:
    """Raises BadParameter for a name that selects nothing."""
    from dealer_agent.checker.requirement import PROFILES, requirements
    from dealer_agent.checker.revision import REVISIONS
    from dealer_agent.protocol.did_you_mean import did_you_mean

    for each in options.only:
        named = [row for row in requirements().values() if row.is_among([each])]
        if not named:
            advice = did_you_mean(each, [*requirements()])
            raise typer.BadParameter(f"no requirement begins with {each}{advice}", param_hint="--only")
        profiles = {row.profile(published=True) for row in named}
        if profiles.isdisjoint({None, *options.profiles}):
            raise typer.BadParameter(
                f"{each} belongs to a profile: add --profile {profiles.pop()}", param_hint="--only"
            )
    for option, names, allowed in (
        ("--profile", options.profiles, PROFILES),
        ("--revision", options.revisions, REVISIONS),
        ("--binding", options.bindings, ("JSONRPC", "HTTP+JSON")),
    ):
        for each in names:
            if each not in allowed:
                raise typer.BadParameter(f"{each} is not one of {', '.join(allowed)}", param_hint=option)


def _known_failures(file: Path | None) -> "list[ExpectedFailure]":
    from dealer_agent.checker.result import read_expected

    with wrong_use("--expected"):
        return read_expected(file) if file else []


def _report(result: "RunResult", reports: Sequence[Path], *, as_json: bool) -> None:
    """Writes the reports, prints the result, and ends the command with its exit code."""
    from dealer_agent.checker.reports import REPORTS

    for path in reports:
        path.write_text(REPORTS[path.suffix](result), encoding="utf-8")
    if as_json:
        typer.echo(REPORTS[".json"](result), nl=False)
    else:
        _show(result, reports)
    if result.conclusion != "passed":
        raise typer.Exit(EXIT_FAILED if result.conclusion == "failed" else EXIT_INCOMPLETE)


async def _run(result: "RunResult", options: "Options") -> None:
    """Runs the checks, with a bar that moves."""
    from dealer_agent.checker.events import CheckStarted, RunStarted, Verdict
    from dealer_agent.checker.outcome import NotChecked
    from dealer_agent.checker.runner import open_client, run_checks

    with progress() as bar:
        task = bar.add_task("Looking for agent cards", total=None)

        def listen(event: "Event") -> None:
            """Shows the events of a run in the progress bar, and gives them to the printer of results."""
            result(event)
            match event:
                case RunStarted():
                    bar.update(task, total=event.checks)
                case CheckStarted():
                    bar.update(task, description=plain(f"{event.variant}"))
                case Verdict():
                    bar.advance(task)

        try:
            async with open_client() as client:
                await run_checks(result.url, options, client, listen)
        except NotChecked as problem:
            result.problem = str(problem)


def _show(result: "RunResult", reports: Sequence[Path]) -> None:
    """Prints failures with request, response and advice, the numbers of each subject, and the conclusion."""
    if result.problem is not None:
        fail(result.problem, EXIT_INCOMPLETE)
    width = terminal_width() or 120
    undone = sorted((each for each in result.groups if each.outcome == "could not check"), key=_rank)
    shown: list[tuple[Group, list[Group]]] = [*result.failures, *((each, []) for each in undone)]
    for group, following in shown:
        out.print(_failure(result, group, following, short=len(shown) > MOST_IN_FULL), width=width, soft_wrap=False)
    if len(shown) > MOST_IN_FULL:
        out.print("Requests and responses are in the other reports: add --report report.html\n")
    out.print(_numbers(result), width=width, soft_wrap=False)
    for each in (*result.notes, *result.stale):
        out.print(_prose(each, "yellow"))
    style = {"passed": "bold green", "failed": "bold red", "incomplete": "bold yellow"}[result.conclusion]
    out.print(_prose(f"\n{result.sentence}", style))
    out.print(
        f"{counted(len(result.verdicts), 'verdict')} in {counted(len(result.variants), 'variant')} of the protocol, "
        f"{counted(result.requests, 'request')}, {result.seconds:.1f} s"
    )
    for path in reports:
        out.print(f"Report: {path}")


def _rank(group: "Group") -> int:
    return group.requirement.rank


def _prose(text: str, style: str = "") -> Text:
    """A sentence for the terminal. Words between backticks get another style."""
    parts = plain(text).split("`")
    return Text.assemble(*((part, "italic" if index % 2 else "") for index, part in enumerate(parts)), style=style)


def _failure(result: "RunResult", group: "Group", following: "Sequence[Group]", *, short: bool) -> Lines:
    """One requirement that failed or could not be checked, with the failures that follow from it.

    `short` leaves the exchange out.
    """
    from dealer_agent.checker.reports import body_text

    requirement = group.requirement
    verdicts = group.having(group.outcome)
    style = STYLES[group.outcome]
    title = Text.assemble((TITLES[group.outcome], style), "  ", (requirement.id, "bold"), f"  {requirement.level}")
    lines: list[Text] = [_prose(requirement.says)]
    sentences = dict.fromkeys(each.sentence for each in verdicts)
    for sentence in sentences:
        variants = [str(each.variant) for each in verdicts if each.sentence == sentence]
        where = ", ".join(variants[:4]) + (f" and {len(variants) - 4} more" if len(variants) > 4 else "")
        lines.append(Text.assemble(_prose(sentence, style), f"  ({where})"))
    if group.outcome == "fail":
        lines.append(_prose(f"Do: {requirement.advice}", "bold"))
        lines += [_prose(f"Expected: {reason}") for each in verdicts[:1] if (reason := result.expectation(each))]
    if following:
        names = ", ".join(f"{each.requirement.id} ({each.requirement.level})" for each in following)
        lines.append(Text(f"Probably for the same reason, {counted(len(following), 'more failure')}: {names}"))
    exchange = next((each.exchange for each in verdicts if each.exchange), None)
    if exchange is not None and not short:
        request_body, response_body = exchange.request_body, exchange.body
        lines.append(Text(f"> {exchange.method} {plain(exchange.url)}", style="cyan"))
        if request_body:
            lines.append(Text(f"> {_one_line(body_text(request_body, most=SHOWN_BODY * 2))}", style="cyan"))
        lines.append(
            Text(f"< HTTP {exchange.status} {_one_line(body_text(response_body, most=SHOWN_BODY * 2))}", style="dim")
        )
    return Lines(title, Padding(Lines(*lines), (0, 0, 1, 2)))


def _one_line(text: str) -> str:
    joined = " ".join(text.split())
    return joined if len(joined) <= SHOWN_BODY else f"{joined[:SHOWN_BODY]} …"


def _numbers(result: "RunResult") -> Table:
    """How many requirements of each subject have each outcome."""
    from dealer_agent.checker.events import OUTCOMES

    table = Table(header_style="bold", show_edge=False, pad_edge=False)
    table.add_column("Subject")
    outcomes = tuple(reversed(OUTCOMES))
    for outcome in outcomes:
        table.add_column(TITLES[outcome], justify="right")
    subjects: dict[str, list[Group]] = {}
    for group in result.groups:
        subjects.setdefault(group.requirement.subject, []).append(group)
    for subject, groups in [*sorted(subjects.items()), ("all", result.groups)]:
        cells = [(outcome, sum(group.outcome == outcome for group in groups)) for outcome in outcomes]
        row = [
            Text(str(number), style=STYLES[outcome]) if number else Text("·", style="dim") for outcome, number in cells
        ]
        if subject == "all":
            table.add_section()
        table.add_row(subject, *row)
    return table
