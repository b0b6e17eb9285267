"""Checks every answer of a run, whatever was asked, and the answers to requests that several buyers send at once."""

import asyncio
import json
import re
from collections.abc import Iterator

from dealer_agent.checker.check import check, each_of, judge_each
from dealer_agent.checker.checks.lead_defects import Lead
from dealer_agent.checker.exchange import Exchange, at, dicts
from dealer_agent.checker.oracle import is_valid
from dealer_agent.checker.outcome import Failed, expect, skip_if_failed, skip_unless, status
from dealer_agent.checker.reply import Refusal, data_of, message_of, refusal_of
from dealer_agent.checker.revision import Revision
from dealer_agent.checker.searches import shown
from dealer_agent.checker.target import LEAD, Target

STATUSES = {
    "SCHEMA_VALIDATION_FAILED": 422,
    "MISSING_REQUIRED_FIELD": 422,
    "UNSUPPORTED_SKILL": 404,
    "VEHICLE_NOT_FOUND": 404,
    "VEHICLE_UNAVAILABLE": 409,
    "CONTACT_CONSENT_REQUIRED": 403,
    "INVALID_CONSENT": 403,
    "APPOINTMENT_TIME_UNAVAILABLE": 409,
    "RATE_LIMITED": 429,
    "INTERNAL_ERROR": 500,
}
"""The table of the specification."""
OF_TRANSPORT = (401, 405, 413, 415)
"""What HTTP says before a skill is asked."""
KEYWORD = re.compile(
    "type|enum|const|required|(dependent|additional|unevaluated|pattern|min|max)?Properties|properties|propertyNames"
    "|pattern|format(Minimum|Maximum)?|(min|max)(Length|Items|Contains|imum)|exclusive(Min|Max)imum|multipleOf|uniqueItems|contains"
    "|items|prefixItems|unevaluatedItems|dependentRequired|dependentSchemas|(any|one|all)Of|not|if|then|else"
    "|content(Encoding|MediaType)|\\$ref"
)
"""The keywords of JSON Schema that can fail, and those for times that many validators have."""
AT_ONCE = 6
FAILED = 10
"""How many failures are not by chance."""


async def _refusals(target: Target) -> list[Refusal]:
    """The errors of all requests so far that have an error object."""
    refusals = [refusal_of(each) for each in target.posted if isinstance(at(each.json, "error"), dict)]
    return skip_unless(refusals, "No request was refused.")


def _status_of_code(error: Refusal) -> bool | str:
    wanted = STATUSES.get(error.code, error.status)
    good = error.status in (wanted, *OF_TRANSPORT) or error.info.get("reason") != error.code
    return good or f"{error.code} has HTTP {error.status}, not {wanted}."


def _keywords_known(error: Refusal) -> bool | str:
    entries = dicts(at(error.payload, "details.errors"))
    unknown = [str(each["keyword"]) for each in entries if not KEYWORD.fullmatch(str(each.get("keyword", "type")))]
    return not unknown or f"`keyword` is {unknown[0]!r}, which is not a keyword of JSON Schema."


POINTER = re.compile("(/([^~/]|~[01])*)*")


def _entry(entry: Lead, revision: Revision) -> str | None:
    """What is wrong with an entry of `details.errors`; None if nothing is."""
    pointer, text = revision.problem_members
    lacking = [name for name in (pointer, text) if not isinstance(entry.get(name), str)]
    if lacking:
        return f"An entry has no text in `{lacking[0]}`."
    return None if POINTER.fullmatch(entry[pointer]) else f"{entry[pointer]!r} is not a JSON pointer."


@check("errors.entries", last=True)
async def _(target: Target) -> None:
    for error in await _refusals(target):
        for entry in dicts(at(error.payload, "details.errors")):
            wrong = _entry(entry, target.revision)
            expect(wrong is None, f"{wrong} The entry: {shown(entry)}", error.exchange)


each_of(
    _refusals,
    {"errors.status-of-code": _status_of_code, "errors.keyword-known": _keywords_known},
    last=True,
)


@check("limits.no-server-errors", last=True)
async def _(target: Target) -> None:
    for each in target.posted:
        failed = each.status == 500 or each.status == 502 or at(each.json, "error.code") == -32603
        expect(not failed, f"A request of the checks gets HTTP {each.status}, or an internal error.", each)


@check("limits.searches-answered", last=True)
async def _(target: Target) -> None:
    """A single failure can be by chance. Then the checks that it concerns are done again."""
    failed = [
        each
        for each in target.posted
        if at(asked := target.asked(each), "type") == "inventory.search.request"
        and is_valid({name: value for name, value in asked.items() if name != "type"})
        and (each.status >= 500 or at(each.json, "error.code") == -32603)
    ]
    expect(len(failed) < FAILED, f"{len(failed)} valid searches fail.", failed[-1] if failed else None)


async def _answers(target: Target) -> list[Exchange]:
    answers = [each for each in target.posted if at(each.json, "message") or at(each.json, "result.message")]
    return skip_unless(answers, "No request was answered.")


def _is_no_task(exchange: Exchange) -> bool | str:
    return "taskId" not in message_of(exchange) or "The response has a taskId. A skill makes no task."


judge_each({"envelope.reply.no-task-id": (_answers, _is_no_task), "http.status": (_answers, status(200))}, last=True)


def _leads(exchange: Exchange) -> Iterator[Lead]:
    """The lead of a request."""
    document = exchange.request_json if LEAD.encode() in exchange.request_body else None
    for part in dicts(at(document, "params.message.parts") or at(document, "message.parts")):
        if at(part, "data.type") == LEAD:
            yield part["data"]


@check("leads.personal-data-everywhere", last=True)
async def _(target: Target) -> None:
    """What each refused lead says of its customer is looked for in the response."""
    leads = [(each, lead) for each in target.posted for lead in _leads(each)]
    for exchange, lead in skip_unless([each for each in leads if each[0].is_refusal], "No lead was refused."):
        for name in ("email", "phone", "last_name"):
            value = at(lead, f"customer.{name}")
            # A shorter text can be part of an id or a time by chance.
            repeated = isinstance(value, str) and len(value) > 6 and json.dumps(value)[1:-1].encode() in exchange.body
            expect(not repeated, f"The error repeats `{name}` of the customer.", exchange)


@check("limits.parallel")
async def _(target: Target) -> None:
    """Searches that differ in `skip` and in their context are sent together.

    A response with the values of another one was mixed up.
    """
    with skip_if_failed():
        await target.ask("inventory.search")
    paginations = [{"skip": skip, "limit": 2} for skip in range(AT_ONCE)]
    messages = [
        target.message(target.payload("inventory.search", pagination=each), contextId=f"check-{each['skip']}")
        for each in paginations
    ]
    exchanges = await asyncio.gather(*(target.send_message(each, fresh=True) for each in messages))
    for skip, exchange in enumerate(exchanges):
        said, context = data_of(exchange).get("skip", skip), message_of(exchange).get("contextId", f"check-{skip}")
        if (said, context) != (skip, f"check-{skip}"):
            raise Failed(
                f"Of {AT_ONCE} searches at once, the search with skip {skip} gets the answer to another one.", exchange
            )


@check("http.other-methods")
async def _(target: Target) -> None:
    message = target.body(target.message(target.payload(target.reading_skills()[0])))
    for method in ("PUT", "DELETE"):
        headers = (("Content-Type", "application/json"), ("Accept", "application/json"))
        exchange = await target.request(method, target.interface.endpoint, message, headers)
        expect(exchange.status >= 400, f"{method} gets HTTP {exchange.status}.", exchange)
    # GET may get a page for people.
    exchange = await target.request("GET", target.interface.endpoint)
    expect(
        not isinstance(at(exchange.json, "message") or at(exchange.json, "result"), dict), "GET is answered.", exchange
    )
