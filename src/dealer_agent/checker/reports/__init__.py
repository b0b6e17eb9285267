"""The reports of a result: a page for people, JSON for programs, JUnit for CI, and a badge.

JSON is a document. The others are templates of this folder, in which everything that comes from the target is escaped.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, partial
from importlib.resources import files
from typing import Any

import msgspec
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

from dealer_agent import __version__
from dealer_agent.checker.events import OUTCOMES, Outcome, Verdict
from dealer_agent.checker.exchange import Exchange, Headers, read_json
from dealer_agent.checker.requirement import LEVELS
from dealer_agent.checker.result import Conclusion, Group, RunResult

MOST_CHARACTERS = 6_000
"""Characters of a body that are shown."""

SECRET = "(not shown)"  # noqa: S105 - the words that replace a token.

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")

MOST_EXCHANGES = 3
"""Exchanges that the page shows for one requirement."""

WORDS: dict[Outcome, str] = {"fail": "Failed", "could not check": "Not checked", "skipped": "Skipped", "pass": "Passed"}
CLASSES: dict[Outcome, str] = {"fail": "fail", "could not check": "undone", "skipped": "skip", "pass": "pass"}
SUBJECT_TITLES = {"json-rpc": "JSON-RPC", "http": "HTTP", "cards": "Agent cards"}
COLOURS: dict[Conclusion, str] = {"passed": "#1a7f37", "failed": "#cf222e", "incomplete": "#9a6700"}
_CODE = re.compile("`([^`]+)`")
CHARACTER = 6.6
"""The average width of a character of the badge, in the units of SVG."""


def json_document(result: RunResult) -> str:
    """One object: the run, the numbers of requirements by outcome, and all verdicts."""
    numbers, causes = result.numbers(), _causes(result)
    document = {
        "checker": f"dealer-agent {__version__}",
        "url": result.url,
        "started_at": result.started_at.isoformat(timespec="seconds"),
        "seconds": round(result.seconds, 2),
        "requests": result.requests,
        "conclusion": result.conclusion,
        "sentence": result.sentence,
        "requirements": {outcome: numbers[outcome] for outcome in OUTCOMES},
        "notes": list(result.notes),
        "stale_expectations": result.stale,
        "verdicts": [_verdict(result, each, causes) for each in result.verdicts],
    }
    return json.dumps(document, indent=2) + "\n"


def _verdict(result: RunResult, verdict: Verdict, causes: Mapping[str, str]) -> dict[str, Any]:
    """The JSON of one verdict in a report."""
    requirement, variant = verdict.requirement, verdict.variant
    node: dict[str, Any] = {
        "id": requirement.id,
        "level": requirement.level,
        "says": requirement.says,
        "outcome": verdict.outcome,
        "sentence": verdict.sentence,
        "card": variant.card,
        "revision": variant.revision,
        "binding": variant.binding,
        "vocabulary": variant.vocabulary,
        "seconds": round(verdict.seconds, 3),
    }
    if verdict.outcome == "fail":
        node |= {
            "advice": requirement.advice,
            "source": requirement.source,
            "link": requirement.link,
            "expected": result.expectation(verdict),
            "follows_from": causes.get(requirement.id),
        }
    if verdict.exchange is not None:
        node["exchange"] = _exchange(verdict.exchange)
    return node


def _exchange(exchange: Exchange) -> dict[str, Any]:
    return {
        "request": request_head(exchange),
        "request_body": body_text(exchange.request_body),
        "status": exchange.status,
        "response": response_head(exchange),
        "response_body": body_text(exchange.body),
    }


def _causes(result: RunResult) -> dict[str, str]:
    """The cause of each failure that follows from another one, by ids."""
    return {each.requirement.id: cause.requirement.id for cause, effects in result.failures for each in effects}


def _subjects(result: RunResult) -> list[tuple[str, list[Group]]]:
    """The requirements of each subject that did not fail, for the page."""
    subjects: dict[str, list[Group]] = {}
    for group in (each for each in result.groups if each.outcome != "fail"):
        subjects.setdefault(group.requirement.subject, []).append(group)
    return sorted(subjects.items())


def _reasons(group: Group) -> list[tuple[Outcome, str, list[str]]]:
    """Outcome and sentence, with the variants that have both. The worst first."""
    variants_of: dict[tuple[Outcome, str], list[str]] = {}
    for verdict in sorted(group.verdicts, key=lambda each: OUTCOMES.index(each.outcome)):
        variants_of.setdefault((verdict.outcome, verdict.sentence), []).append(str(verdict.variant))
    return [(outcome, sentence, variants) for (outcome, sentence), variants in variants_of.items()]


def _expectations(result: RunResult, failures: list[Verdict]) -> list[str]:
    """Why these failures are expected, each reason once."""
    return list(dict.fromkeys(reason for each in failures if (reason := result.expectation(each))))


def _shown(group: Group) -> list[Verdict]:
    """The verdicts whose exchanges the page shows: one for each sentence and beginning of a response."""
    chosen: dict[tuple[str, bytes], Verdict] = {}
    for verdict in group.verdicts:
        if verdict.outcome in ("fail", "could not check") and verdict.exchange is not None:
            chosen.setdefault((verdict.sentence, verdict.exchange.body[:200]), verdict)
    return list(chosen.values())[:MOST_EXCHANGES]


def _suites(result: RunResult) -> list[tuple[str, list[Verdict], Counter[str]]]:
    """The verdicts of each variant, failures first, and how many there are of each kind, for JUnit."""
    suites = []
    for variant in dict.fromkeys(each.variant for each in result.verdicts):
        verdicts = [each for each in result.verdicts if each.variant == variant]
        verdicts.sort(key=lambda each: each.requirement.rank if each.outcome == "fail" else len(LEVELS))
        kinds = Counter(_kind(result, each) for each in verdicts)
        suites.append((f"{variant} {variant.card}", verdicts, kinds))
    return suites


def _kind(result: RunResult, verdict: Verdict) -> str:
    """What a verdict is called in JUnit, which knows no levels. A failure that does not count is a skipped case."""
    if verdict.outcome == "fail":
        return "failure" if result.counts_as_failure(verdict) else "skipped"
    return {"could not check": "error"}.get(verdict.outcome, verdict.outcome)


def _junit_words(result: RunResult, verdict: Verdict, causes: Mapping[str, str]) -> str:
    """The message of a case that did not pass: for a failure, its level and its cause as well."""
    if verdict.outcome != "fail":
        return verdict.sentence
    expected, cause = result.expectation(verdict), causes.get(verdict.requirement.id)
    words = f"{verdict.requirement.level} failed: {verdict.sentence}"
    return words + (f" Expected: {expected}" if expected else "") + (f" Follows from {cause}." if cause else "")


def _badge(result: RunResult) -> tuple[str, str]:
    """The words and the colour of the badge. It is green only if most was checked and no MUST failed.

    An expected failure of a MUST counts here.
    """
    numbers, count = result.numbers(), len(result.groups)
    checked = numbers["pass"] + numbers["fail"]
    words = {
        "passed": f"{numbers['pass']} of {checked} passed",
        "failed": f"{numbers['fail']} of {checked} failed",
        "incomplete": "not checked" if not checked else f"{numbers['pass']} passed, incomplete",
    }[result.conclusion]
    if result.conclusion != "passed":
        return words, COLOURS[result.conclusion]
    if 2 * checked < count:
        return f"{checked} of {count} checked", COLOURS["incomplete"]
    must_failed = any(each.outcome == "fail" and each.requirement.level == "MUST" for each in result.verdicts)
    return words, COLOURS["incomplete" if must_failed else "passed"]


def _width(words: str) -> int:
    return round(len(words) * CHARACTER + 14)


def _prose(text: str) -> Markup:
    """A sentence for the page. It is escaped, and words between backticks become code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(plain(text)))))  # noqa: S704 - it is escaped before.


@cache
def _environment() -> Environment:
    """The templates of reports, with their filters."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(
        {
            "plain": plain,
            "prose": _prose,
            "unquoted": unquoted,
            "words": WORDS.__getitem__,
            "class": CLASSES.__getitem__,
            "title": lambda subject: SUBJECT_TITLES.get(subject, subject.capitalize()),
            "request": lambda exchange: f"{request_head(exchange)}\n\n{body_text(exchange.request_body)}".rstrip(),
            "response": lambda exchange: f"{response_head(exchange)}\n\n{body_text(exchange.body)}".rstrip(),
            "width": _width,
        }
    )
    # What the templates call.
    environment.globals.update(
        version=__version__,
        css=Markup(_file("page.css")),  # noqa: S704 - our own file.
        outcomes=OUTCOMES,
        subjects=_subjects,
        reasons=_reasons,
        shown=_shown,
        expectations=_expectations,
        suites=_suites,
        kind=_kind,
        badge=_badge,
        causes=_causes,
        junit_words=_junit_words,
    )
    return environment


def _rendered(template: str, result: RunResult) -> str:
    return _environment().from_string(_file(template)).render(result=result, numbers=result.numbers())


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


REPORTS: dict[str, Callable[[RunResult], str]] = {
    ".json": json_document,
    ".xml": partial(_rendered, "junit.xml"),
    ".html": partial(_rendered, "page.html"),
    ".svg": partial(_rendered, "badge.svg"),
}
"""Makes the text of a report, by the suffix of its file."""


def plain(text: str) -> str:
    """Untrusted text, in which control characters and marks of direction are visible codes."""
    return _CONTROLS.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def unquoted(text: str) -> str:
    """A sentence for a report that cannot show code in another way: without backticks."""
    return plain(text).replace("`", "")


def request_head(exchange: Exchange) -> str:
    """The first line and the headers of the request. The token is not shown."""
    return "\n".join([f"{exchange.method} {plain(exchange.url)}", *_header_lines(exchange.request_headers)])


def response_head(exchange: Exchange) -> str:
    """The status and the headers of the response."""
    return "\n".join([f"HTTP {exchange.status}", *_header_lines(exchange.headers)])


def body_text(body: bytes, *, most: int = MOST_CHARACTERS) -> str:
    """A body. JSON that has no defects is indented."""
    value, defects = read_json(body)
    text = body.decode("utf-8", "replace")
    if value is not None and not defects:
        # A body with very many levels stays as it came.
        with suppress(RecursionError, msgspec.DecodeError):
            text = msgspec.json.format(text, indent=2)
    text = plain(text)
    left_out = len(text) - most
    return text if left_out <= 0 else f"{text[:most]}\n… ({left_out:,} more characters)"


def _header_lines(headers: Headers) -> list[str]:
    return [
        f"{plain(name)}: {SECRET if name.lower() == 'authorization' else plain(value[:1000])}"
        for name, value in headers
    ]
