"""Checks that both interfaces of a card, and both revisions, answer alike: it asks one what the run asked the other."""

from dataclasses import replace
from typing import Any

from dealer_agent.checker.card import FetchedCard
from dealer_agent.checker.check import check
from dealer_agent.checker.checks.cards import fetched_cards
from dealer_agent.checker.exchange import Exchange, at, dicts
from dealer_agent.checker.fields import SORTS
from dealer_agent.checker.oracle import RULES, VOLATILE, Answered, differ, is_valid, sort_values
from dealer_agent.checker.outcome import Failed, conclude, expect, skip_unless
from dealer_agent.checker.reply import data_of, is_answered, refusal_of
from dealer_agent.checker.searches import ReadPage, key_of, shown
from dealer_agent.checker.target import LEAD, Target, TargetStock, other_interface
from dealer_agent.protocol.skill import EXTENSION_SKILLS, SKILL_BY_ID

MOST_ASKED = 100
"""How many requests of a card are repeated at another interface."""
_ALWAYS_NEW = {LEAD, *(skill.request_type for skill in EXTENSION_SKILLS)}


def _requests(target: Target) -> list[dict[str, Any]]:
    """At most MOST_ASKED payloads of this run, one of each shape.

    Leads and the skills of the extension are left out: their answers, such as quotes and cursors, are new each time.
    """
    bodies = {each.request_body: target.asked(each) for each in target.posted}
    asked = [each for each in bodies.values() if isinstance(at(each, "type"), str) and each["type"] not in _ALWAYS_NEW]
    # The first request of each shape. The valid ones with one filter or a sort come first: defects are often in these.
    shapes = {_shape(each): each for each in reversed(asked)}
    ordered = sorted(shapes.values(), key=lambda each: (_parts(each), _is_wrong(each), len(str(each))))
    return ordered[:MOST_ASKED]


def _is_wrong(payload: dict[str, Any]) -> bool:
    """Whether it is a search that must be refused. Most dealers refuse it at both interfaces."""
    members = {name: value for name, value in payload.items() if name != "type"}
    return payload["type"] == "inventory.search.request" and not is_valid(members)


def _parts(payload: dict[str, Any]) -> int:
    """How many filters and sorts a request has."""
    filters = payload.get("filters")
    return (len(filters) if isinstance(filters, dict) else 0) + ("sort" in payload)


def _shape(payload: dict[str, Any]) -> str:
    """The members of a payload and of its objects, with the types of their values, and the sort.

    The page counts only where it is all that is asked for.
    """

    def shape(node: Any) -> Any:
        if not isinstance(node, dict):
            return type(node).__name__ if " " not in str(node) else "words"
        return {name: each if name in ("field", "order") else shape(each) for name, each in sorted(node.items())}

    asked = {name: each for name, each in payload.items() if name != "pagination" or not _parts(payload)}
    return f"{payload['type']} {shape(asked)}"


def _difference(one: Exchange, other: Exchange, payload: Any) -> str | None:
    """How two answers to one request differ; None if they do not. An order without a sort may be any."""
    if not (is_answered(one) and is_answered(other)):
        if is_answered(one) or is_answered(other):
            return "is answered by one interface and refused by the other"
        try:
            codes = refusal_of(one).code, refusal_of(other).code
        except Failed:
            return None
        return None if codes[0] == codes[1] or "" in codes else f"gets {codes[0]} and {codes[1]}"
    first, second = data_of(one), data_of(other)
    if "vehicles" not in first:
        return "gets different data" if differ(first, second) else None
    if first.get("total") != second.get("total"):
        return f"has the totals {first.get('total')} and {second.get('total')}"
    pages = [dicts(each.get("vehicles")) for each in (first, second)]
    known, others = ({key_of(each): each for each in page} for page in pages)
    changed = next((key for key in known.keys() & others.keys() if differ(known[key], others[key])), None)
    if changed is not None:
        return f"returns {changed} with different values"
    field = at(payload, "sort.field")
    whole = len(pages[0]) == first.get("total") and known.keys() != others.keys()
    if whole or (
        field in SORTS and field not in VOLATILE and sort_values(pages[0], field) != sort_values(pages[1], field)
    ):
        return "returns different vehicles"
    return None


@check("bindings.same-listings")
async def _(target: Target) -> None:
    """The listings of both interfaces are compared."""
    twin = replace(other_interface(target), stock=TargetStock())
    known, others = [{key_of(each): each for each in await one.listings()} for one in (target, twin)]
    if target.stock.is_complete and twin.stock.is_complete:
        missing = min(known.keys() ^ others.keys(), default=None)
        expect(missing is None, f"Only one of {target.binding} and {twin.binding} lists {missing}.", twin.latest)
    for key in known.keys() & others.keys():
        same = not differ(known[key], others[key])
        expect(same, f"{key} has different values: {target.binding} and {twin.binding}.", twin.latest)


@check("bindings.same-vocabularies")
async def _(target: Target) -> None:
    """What the first vocabulary of the card gets is compared with what another one gets."""
    vendor = next(iter(target.card.vendors), target.vendor)
    first = replace(target, vendor=vendor, stock=TargetStock(), exchanges=[])
    skip_unless(
        target.vendor != first.vendor, "Other vocabularies are compared with this one, which is the first of the card."
    )
    await first.some_listings()
    vehicles = await replace(target, stock=TargetStock()).listings()
    conclude(RULES["search.same-values"](Answered({}, ReadPage({}, len(vehicles), vehicles), first.stock)))
    for skill_id in {"dealer.information", "inventory.facets"} & target.card.skills:
        same = not differ(await first.ask(skill_id), await target.ask(skill_id))
        expect(same, f"{skill_id} answers {first.vendor} and {target.vendor} with different data.")


@check("bindings.same-answers", last=True)
async def _(target: Target) -> None:
    """The same requests go to both interfaces of the card, and their answers are compared."""
    twin = other_interface(target)
    await _expect_same(target, twin, f"{target.binding} and {twin.binding}")


@check("bindings.same-revisions", last=True)
async def _(target: Target) -> None:
    """The same requests go to the interfaces of other revisions, and their answers are compared."""
    for twin in await _of_other_revisions(target):
        await _expect_same(target, twin, f"{target.revision.name} and {twin.revision.name}")


async def _expect_same(target: Target, twin: Target, names: str) -> None:
    """Raises Failed if the twin answers a request of a skill of its card in another way."""
    for payload in _requests(target):
        if payload["type"].removesuffix(".request") in (SKILL_BY_ID.keys() - twin.card.skills):
            continue
        one, other = await target.send(payload), await twin.send(payload)
        wrong = _difference(one, other, payload)
        expect(wrong is None, f"The request {shown(payload)} {wrong}: {names}.", other)


async def _of_other_revisions(target: Target) -> list[Target]:
    """An interface of each card of the dealer for another revision, if it has a URL of its own.

    Another dealer has another name. The published versions differ in more than the specification says.
    """
    twins = []
    for exchange in await fetched_cards(target):
        card = FetchedCard(exchange.url, exchange.json if isinstance(exchange.json, dict) else {}, exchange)
        is_same_dealer = card.content.get("name") == target.card.content.get("name")
        is_other = card.revision.name != target.revision.name and not card.revision.is_published
        interfaces = [each for each in card.interfaces if each not in target.card.interfaces]
        interfaces.sort(key=lambda each: each.binding != target.binding)
        if is_same_dealer and is_other and target.vendor in (card.vendors or [target.vendor]):
            twins += [replace(target, card=card, interface=each, exchanges=[]) for each in interfaces[:1]]
    return skip_unless(twins, "No other revision of the dealer has interfaces of its own.")
