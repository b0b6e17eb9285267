"""The report for people: one page without scripts and without anything from elsewhere. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from dealer_agent import __version__
from dealer_agent.checker.events import OUTCOMES, Outcome, Verdict
from dealer_agent.checker.exchange import Exchange
from dealer_agent.checker.reports.shown import body_text, plain, request_head, response_head
from dealer_agent.checker.result import Group, Result

MOST_EXCHANGES = 3
"""Exchanges that are shown for one requirement."""

WORDS: dict[Outcome, str] = {"fail": "Failed", "could not check": "Not checked", "skipped": "Skipped", "pass": "Passed"}
CLASSES: dict[Outcome, str] = {"fail": "fail", "could not check": "undone", "skipped": "skip", "pass": "pass"}
SUBJECT_TITLES = {"json-rpc": "JSON-RPC", "http": "HTTP", "cards": "Agent cards"}


@dataclass(frozen=True)
class Subject:
    """The requirements of one subject."""

    name: str
    groups: list[Group]


def html_page(result: Result) -> str:
    """The page. Everything that comes from the target is escaped, and a policy forbids scripts and requests."""
    numbers = result.numbers()
    subjects: dict[str, list[Group]] = {}
    for group in result.groups:
        subjects.setdefault(group.requirement.subject, []).append(group)
    return _template().render(
        result=result,
        version=__version__,
        css=Markup(_file("page.css")),  # noqa: S704 - our own file.
        numbers=numbers,
        total=sum(numbers.values()),
        outcomes=OUTCOMES,
        subjects=[Subject(name, groups) for name, groups in sorted(subjects.items())],
        reasons=_reasons,
        shown=_shown,
        expectations=_expectations,
    )


def _reasons(group: Group) -> list[tuple[Outcome, str, list[str]]]:
    """Outcome and sentence, with the places that have both. The worst first."""
    found: dict[tuple[Outcome, str], list[str]] = {}
    for verdict in sorted(group.verdicts, key=lambda each: OUTCOMES.index(each.outcome)):
        found.setdefault((verdict.outcome, verdict.sentence), []).append(str(verdict.place))
    return [(outcome, sentence, places) for (outcome, sentence), places in found.items()]


def _expectations(result: Result, failures: list[Verdict]) -> list[str]:
    """Why these failures are expected, each reason once."""
    return list(dict.fromkeys(reason for each in failures if (reason := result.expectation(each))))


def _shown(group: Group) -> list[Verdict]:
    """The verdicts whose exchanges the page shows: one for each sentence and beginning of a response."""
    found: dict[tuple[str, bytes], Verdict] = {}
    for verdict in group.verdicts:
        if verdict.outcome in ("fail", "could not check") and verdict.exchange is not None:
            found.setdefault((verdict.sentence, verdict.exchange.body[:200]), verdict)
    return list(found.values())[:MOST_EXCHANGES]


@cache
def _template() -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    filters: dict[str, Callable[..., str]] = {
        "plain": plain,
        "words": _words,
        "class": _class,
        "title": _title,
        "request": _request,
        "response": _response,
    }
    environment.filters.update(filters)
    return environment.from_string(_file("page.html"))


def _words(outcome: Outcome) -> str:
    return WORDS[outcome]


def _class(outcome: Outcome) -> str:
    return CLASSES[outcome]


def _title(subject: str) -> str:
    return SUBJECT_TITLES.get(subject, subject.capitalize())


def _request(exchange: Exchange) -> str:
    return f"{request_head(exchange)}\n\n{body_text(exchange.request_body)}".rstrip()


def _response(exchange: Exchange) -> str:
    return f"{response_head(exchange)}\n\n{body_text(exchange.body)}".rstrip()


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")
