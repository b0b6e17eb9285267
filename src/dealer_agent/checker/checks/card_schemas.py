"""Checks the JSON Schemas that a card names: they can be fetched, are valid, and describe what the agent does."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urldefrag, urljoin

import jsonschema_rs

from dealer_agent.checker import forms
from dealer_agent.checker.check import check, check_each, each_of
from dealer_agent.checker.checks.cards import profile_extensions
from dealer_agent.checker.checks.errors import UNKNOWN_MEMBER
from dealer_agent.checker.checks.facets import counts_of, facet_of_all
from dealer_agent.checker.checks.lead_defects import OF_LEADS, VALIDATION_CODES, defective, expect_refused
from dealer_agent.checker.checks.valid_leads import VALID, send_valid
from dealer_agent.checker.exchange import Exchange, at
from dealer_agent.checker.outcome import Skipped, expect, skip_unless, status
from dealer_agent.checker.reply import is_answered, payload_of, refusal_of
from dealer_agent.checker.requirement import requirements
from dealer_agent.checker.searches import expect_number, filter_of
from dealer_agent.checker.target import Target
from dealer_agent.protocol.skill import SKILL_BY_ID, SKILLS

MOST_DOCUMENTS = 60
"""Documents that the references of one schema are followed to."""
KINDS = ("request_schema", "response_schema")


def _declared(target: Target) -> dict[str, dict[str, Any]]:
    """The URLs of the schemas for each skill of the protocol, of the first extension that has them."""
    skills = profile_extensions(target.card)[0]["params"]["skills"]
    return {name: urls for name, urls in skills.items() if name in SKILL_BY_ID and isinstance(urls, dict)}


def _urls(target: Target, kind: str) -> dict[str, str]:
    """The URL of a kind of schema for each skill, on the host of the card. Skips the check if there is none."""
    urls = {name: each.get(kind) for name, each in _declared(target).items()}
    own = {name: url for name, url in urls.items() if forms.url(url) and target.card.is_at_home(url)}
    return skip_unless(own, "The card names no schemas on its own host.")


async def _all(target: Target) -> list[Exchange]:
    """The exchanges of all schemas on the host of the card."""
    return [await target.fetch(url) for kind in KINDS for url in _urls(target, kind).values()]


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for each in node.values():
            yield from _references(each)
    elif isinstance(node, list):
        for each in node:
            yield from _references(each)


def _is_valid(document: dict[str, Any]) -> bool | None:
    """Whether a document is a valid JSON Schema. None if its meta-schema is unknown."""
    try:
        return jsonschema_rs.meta.is_valid(document)
    except (jsonschema_rs.ReferencingError, ValueError):
        return None


async def _validator(target: Target, url: str) -> jsonschema_rs.Validator:
    """The validator of a schema and of the documents that it refers to. Skips the check if one cannot be had."""
    documents: dict[str, Any] = {}
    waiting = [url]
    while waiting:
        each = waiting.pop()
        if each in documents:
            continue
        if not target.card.is_at_home(each) or len(documents) == MOST_DOCUMENTS:
            raise Skipped(f"The schema refers to {each}, which is not fetched.")
        document = (await target.fetch(each)).json
        if not isinstance(document, dict) or not _is_valid(document):
            raise Skipped(f"The schema {each} cannot be read.")
        documents[each] = document
        base = document.get("$id") if forms.url(document.get("$id")) else each
        try:
            targets = [urldefrag(urljoin(str(base), reference))[0] for reference in _references(document)]
        except ValueError:
            raise Skipped(f"The schema {each} has a reference that is not a URL.") from None
        waiting += [found for found in targets if found not in (each, base)]
    known = documents | {str(document["$id"]): document for document in documents.values() if "$id" in document}
    try:
        return jsonschema_rs.validator_for(documents[url], base_uri=url, retriever=lambda uri: known[uri])
    except (jsonschema_rs.ReferencingError, jsonschema_rs.ValidationError, ValueError, KeyError) as error:
        raise Skipped(f"The schema {url} cannot be used: {error}") from None


@check("cards.schema-urls")
async def _(target: Target) -> None:
    declared = _declared(target)
    for skill_id in sorted(target.card.skills & {skill.id for skill in SKILLS}):
        for kind in KINDS:
            url = declared.get(skill_id, {}).get(kind)
            expect(forms.url(url), f"The {kind} of {skill_id} is {url!r}, not an absolute URL.", target.card.exchange)


def _is_schema(exchange: Exchange) -> bool | str:
    good = isinstance(exchange.json, dict) and _is_valid(exchange.json) is not False
    return exchange.status != 200 or good or f"{exchange.url} is not a valid JSON Schema."


each_of(_all, {"cards.schemas-served": status(200), "cards.schemas-valid": _is_schema})


async def _refused_by_published_versions(target: Target) -> None:
    """Sends what published versions refuse. Afterwards it is among the exchanges of the target."""
    for row in requirements().values():
        if row.refused is not None and row.source.startswith("AAP") and row.skills[0] in target.card.skills:
            await target.send(target.payload(row.skills[0], **row.refused))


@check_each({"cards.request-schemas": "request_schema", "cards.response-schemas": "response_schema"}, last=True)
async def _(target: Target, kind: str) -> None:
    """All answered requests of the run, or the responses to them, fit the schemas. Other checks are about schemas that
    cannot be used.
    """
    validators: dict[str, jsonschema_rs.Validator] = {}
    for skill_id, url in _urls(target, kind).items():
        # Leads have a check of their own.
        if (skill_id, kind) != ("lead.submit", "request_schema"):
            with suppress(Skipped):
                validators[SKILL_BY_ID[skill_id].request_type] = await _validator(target, url)
    if kind == "request_schema":
        await _refused_by_published_versions(target)
    for exchange in target.posted:
        payload = target.asked(exchange)
        validator = validators.get(str(at(payload, "type")))
        if validator is not None and is_answered(exchange):
            document = payload if kind == "request_schema" else payload_of(exchange)
            defect = next(validator.iter_errors(document), None)
            where = "/".join(map(str, defect.instance_path)) if defect else ""
            expect(defect is None, f"The {kind} refuses what is answered, at /{where}: {str(defect)[:200]}", exchange)


@check("cards.request-schemas-refuse")
async def _(target: Target) -> None:
    """A schema that the card names refuses an unknown filter that the agent refuses."""
    url = skip_unless(
        _urls(target, "request_schema").get("inventory.search"), "The card names no schema of inventory.search."
    )
    payload = target.payload("inventory.search", **UNKNOWN_MEMBER)
    exchange = await target.send(payload)
    skip_unless(exchange.is_refusal, "The agent accepts an unknown filter.")
    accepted = (await _validator(target, url)).is_valid(payload)
    expect(not accepted, "The schema accepts an unknown filter, which the agent refuses.", exchange)


async def _request_validator(target: Target, skill_id: str) -> jsonschema_rs.Validator:
    """The validator of the request schema of a skill. Skips the check without it."""
    url = _urls(target, "request_schema").get(skill_id)
    return await _validator(target, skip_unless(url, f"The card names no schema of {skill_id}."))


@check("facets.filters-kept")
async def _(target: Target) -> None:
    """A few filters are tried, each with a value that excludes listings."""
    validator, facet = await _request_validator(target, "inventory.facets"), await facet_of_all(target)
    closed = not validator.is_valid({"type": "inventory.facets.request", "filters": {"no_such_filter": True}})
    skip_unless(closed, "The schema accepts any filter.")
    for name in ("make", "fuel", "body", "rooftops", "year_min", "price_max"):
        with suppress(Skipped):
            filters, matches = await filter_of(target, name)
            if validator.is_valid({"type": "inventory.facets.request", "filters": filters}):
                counts = counts_of((await target.ask("inventory.facets", filters=filters)).get(facet, []))
                await expect_number(target, sum((counts or {}).values()), filters, matches)


@check("leads.requests-kept")
async def _(target: Target) -> None:
    """The leads are those that published versions refuse."""
    validator = await _request_validator(target, "lead.submit")
    for name, row in OF_LEADS.items():
        if requirements()[name].applies_to(*target.variant) and not validator.is_valid(defective(target, row)):
            await expect_refused(target, row)


@check("leads-valid.requests-accepted")
async def _(target: Target) -> None:
    """The leads have the valid values that other checks send."""
    validator = await _request_validator(target, "lead.submit")
    for group in sorted({row.group for row in VALID.values()}):
        exchange, _ = await send_valid(target, group)
        sent = at(exchange.request_json, "params.message.parts") or at(exchange.request_json, "message.parts")
        # A dealer may bound the size of a lead below that of its schema.
        judged = not is_answered(exchange) and exchange.status != 413
        broken = judged and refusal_of(exchange).code in VALIDATION_CODES
        accepted = validator.is_valid(sent[0]["data"])
        expect(not (broken and accepted), "A lead that fits the schema is refused for its form.", exchange)
