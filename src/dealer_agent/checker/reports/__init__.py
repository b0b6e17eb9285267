"""The reports of a result: a page for people, JSON for programs, JUnit for CI, and a badge. Pure."""

import json
from collections.abc import Callable
from html import escape
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from dealer_agent import __version__
from dealer_agent.checker.events import OUTCOMES, Verdict
from dealer_agent.checker.exchange import Exchange
from dealer_agent.checker.reports.html_page import html_page
from dealer_agent.checker.reports.shown import body_text, plain, request_head, response_head
from dealer_agent.checker.result import Conclusion, Result

COLOURS: dict[Conclusion, str] = {"passed": "#1a7f37", "failed": "#cf222e", "incomplete": "#9a6700"}
LABEL = "dealer agent"
CHARACTER = 6.6
"""Units of the width of a character of this size of Verdana, on average."""


def json_document(result: Result) -> str:
    """One object: the run, the numbers of requirements by outcome, and all verdicts."""
    numbers = result.numbers()
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
        "verdicts": [_verdict(result, each) for each in result.verdicts],
    }
    return json.dumps(document, indent=2) + "\n"


def _verdict(result: Result, verdict: Verdict) -> dict[str, Any]:
    requirement, place = verdict.requirement, verdict.place
    found: dict[str, Any] = {
        "id": requirement.id,
        "level": requirement.level,
        "says": requirement.says,
        "outcome": verdict.outcome,
        "sentence": verdict.sentence,
        "card": place.card,
        "revision": place.revision,
        "binding": place.binding,
        "vocabulary": place.vocabulary,
        "seconds": round(verdict.seconds, 3),
    }
    if verdict.outcome == "fail":
        found |= {"advice": requirement.advice, "link": requirement.link, "expected": result.expectation(verdict)}
    if verdict.exchange is not None:
        found["exchange"] = _exchange(verdict.exchange)
    return found


def _exchange(exchange: Exchange) -> dict[str, Any]:
    return {
        "request": request_head(exchange),
        "request_body": body_text(exchange.request_body),
        "status": exchange.status,
        "response": response_head(exchange),
        "response_body": body_text(exchange.body),
    }


def junit(result: Result) -> str:
    """A suite for each place, and a case for each requirement. A failure that does not count is a skipped case."""
    root = Element("testsuites", name=f"dealer-agent check {plain(result.url)}", time=f"{result.seconds:.3f}")
    for place in dict.fromkeys(each.place for each in result.verdicts):
        found = [each for each in result.verdicts if each.place == place]
        suite = SubElement(
            root,
            "testsuite",
            name=plain(f"{place} {place.card}"),
            tests=str(len(found)),
            failures=str(sum(result.counts_as_failure(each) for each in found)),
            errors=str(sum(each.outcome == "could not check" for each in found)),
            skipped=str(sum(_is_skipped(result, each) for each in found)),
            timestamp=result.started_at.isoformat(timespec="seconds"),
            time=f"{sum(each.seconds for each in found):.3f}",
        )
        for verdict in found:
            _add_case(suite, result, verdict)
    if result.problem is not None or result.stale:
        suite = SubElement(root, "testsuite", name="run", tests="1", failures="0", errors="1", skipped="0")
        case = SubElement(suite, "testcase", classname="run", name="run")
        SubElement(case, "error", message=plain(result.problem or result.stale[0])).text = plain(
            "\n".join(result.stale)
        )
    indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _is_skipped(result: Result, verdict: Verdict) -> bool:
    return verdict.outcome == "skipped" or (verdict.outcome == "fail" and not result.counts_as_failure(verdict))


def _add_case(suite: Element, result: Result, verdict: Verdict) -> None:
    requirement = verdict.requirement
    name = f"{requirement.id} ({requirement.level})"
    case = SubElement(suite, "testcase", classname=requirement.subject, name=name, time=f"{verdict.seconds:.3f}")
    if _is_skipped(result, verdict):
        SubElement(case, "skipped", message=plain(result.expectation(verdict) or verdict.sentence))
    elif verdict.outcome == "could not check":
        SubElement(case, "error", message=plain(verdict.sentence))
    elif verdict.outcome == "fail":
        lines = [requirement.says, f"Advice: {requirement.advice}", f"See {requirement.link}"]
        if exchange := verdict.exchange:
            lines += ["", request_head(exchange), "", body_text(exchange.request_body)]
            lines += ["", response_head(exchange), "", body_text(exchange.body)]
        SubElement(case, "failure", message=plain(verdict.sentence), type=requirement.level).text = "\n".join(lines)


def badge(result: Result) -> str:
    """Two fields: `dealer agent`, and how many requirements are fulfilled."""
    numbers = result.numbers()
    checked = numbers["pass"] + numbers["fail"]
    words = {
        "passed": f"{numbers['pass']} of {checked} passed",
        "failed": f"{numbers['fail']} of {checked} failed",
        "incomplete": "not checked" if not checked else f"{numbers['pass']} passed, incomplete",
    }[result.conclusion]
    left, right = _width(LABEL), _width(words)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" \
aria-label="{escape(LABEL)}: {escape(words)}">
<title>{escape(LABEL)}: {escape(words)}</title>
<clipPath id="r"><rect width="{left + right}" height="20" rx="3"/></clipPath>
<g clip-path="url(#r)"><rect width="{left}" height="20" fill="#444c56"/>\
<rect x="{left}" width="{right}" height="20" fill="{COLOURS[result.conclusion]}"/></g>
<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
<text x="{left / 2}" y="14">{escape(LABEL)}</text>
<text x="{left + right / 2}" y="14">{escape(words)}</text>
</g>
</svg>
"""


def _width(words: str) -> int:
    return round(len(words) * CHARACTER + 14)


REPORTS: dict[str, Callable[[Result], str]] = {
    ".json": json_document,
    ".xml": junit,
    ".html": html_page,
    ".svg": badge,
}
"""Makes the text of a report, by the suffix of its file."""
