"""The report for programs. Pure."""

import json
from typing import Any

from dealer_agent import __version__
from dealer_agent.checker.events import OUTCOMES, Verdict
from dealer_agent.checker.exchange import Exchange
from dealer_agent.checker.reports.shown import body_text, request_head, response_head
from dealer_agent.checker.result import Result


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
