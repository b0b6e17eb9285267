"""Which error code, status and number answers which mistake, and what a validation error lists."""

from typing import Any

from dealer_agent.checker.check import Skipped, check, expect
from dealer_agent.checker.checks.errors import (
    UNKNOWN_TYPE,
    UNKNOWN_VIN,
    WRONG_POINTER,
    WRONG_TYPE,
    WRONG_VALUE,
    refused_or_skipped,
)
from dealer_agent.checker.exchange import Exchange
from dealer_agent.checker.target import Refusal, Target

UNKNOWN_MEMBER: dict[str, Any] = {"filters": {"price_maximum": 30_000}}
MISSING_MEMBER: dict[str, Any] = {"sort": {"field": "price"}}
SEVERAL: dict[str, Any] = {"filters": {"year_max": "old"}, "pagination": {"skip": -1}, "sort": {"order": "asc"}}
SEVERAL_POINTERS = ["/filters/year_max", "/pagination/skip", "/sort/field"]

NOT_JSON = b'{"message": '


def _search(target: Target, members: dict[str, Any]) -> dict[str, Any]:
    return target.payload("inventory.search", **members)


def _expect_code(error: Refusal, *codes: str) -> None:
    expect(error.code in codes, f"The code is {error.code or 'absent'}, not {' or '.join(codes)}.", error.exchange)


def _expect_status(error: Refusal, status: int) -> None:
    expect(error.status == status, f"The status is {error.status}, not {status}.", error.exchange)


def _expect_number(error: Refusal, number: int) -> None:
    expect(error.number == number, f"`error.code` is {error.number!r}, not {number}.", error.exchange)


@check("errors.unknown-member")
async def unknown_members_are_refused(target: Target) -> None:
    """Sends a filter that does not exist."""
    _expect_code(await target.refuse(_search(target, UNKNOWN_MEMBER)), "SCHEMA_VALIDATION_FAILED")


@check("errors.wrong-type")
async def wrong_types_are_refused(target: Target) -> None:
    """Sends a text for a number."""
    _expect_code(await target.refuse(_search(target, WRONG_TYPE)), "SCHEMA_VALIDATION_FAILED")


@check("errors.missing-member")
async def absent_members_have_a_code(target: Target) -> None:
    """Sends a sort without its order."""
    _expect_code(await target.refuse(_search(target, MISSING_MEMBER)), "MISSING_REQUIRED_FIELD")


@check("errors.missing-and-wrong")
async def other_defects_decide_the_code(target: Target) -> None:
    """Sends a request that lacks a member and has wrong ones."""
    _expect_code(await target.refuse(_search(target, SEVERAL)), "SCHEMA_VALIDATION_FAILED")


@check("errors.unknown-skill")
async def unknown_types_are_unsupported(target: Target) -> None:
    """Sends a type that names no skill."""
    _expect_code(await target.refuse(UNKNOWN_TYPE), "UNSUPPORTED_SKILL")


@check("errors.unknown-vehicle")
async def unknown_vins_are_not_found(target: Target) -> None:
    """Asks for a VIN that no vehicle has."""
    _expect_code(await target.refuse(target.payload("inventory.vehicle", vin=UNKNOWN_VIN)), "VEHICLE_NOT_FOUND")


@check("errors.unknown-member-status")
async def validation_has_422(target: Target) -> None:
    """Looks at the error for an unknown filter."""
    _expect_status(await refused_or_skipped(target, _search(target, UNKNOWN_MEMBER)), 422)


@check("errors.missing-member-status")
async def absence_has_422(target: Target) -> None:
    """Looks at the error for an absent member."""
    _expect_status(await refused_or_skipped(target, _search(target, MISSING_MEMBER)), 422)


@check("errors.unknown-skill-status")
async def unsupported_has_404(target: Target) -> None:
    """Looks at the error for an unknown type."""
    _expect_status(await refused_or_skipped(target, UNKNOWN_TYPE), 404)


@check("errors.unknown-vehicle-status")
async def not_found_has_404(target: Target) -> None:
    """Looks at the error for an unknown VIN."""
    _expect_status(await refused_or_skipped(target, target.payload("inventory.vehicle", vin=UNKNOWN_VIN)), 404)


@check("errors.pointer")
async def details_have_the_pointer(target: Target) -> None:
    """Looks at the error of a wrong filter."""
    error = await refused_or_skipped(target, _search(target, WRONG_TYPE))
    found = error.details.get("instancePath")
    expect(found == WRONG_POINTER, f"`details.instancePath` is {found!r}, not {WRONG_POINTER}.", error.exchange)


@check("errors.received")
async def details_have_the_value(target: Target) -> None:
    """Looks at the error of a wrong filter."""
    error = await refused_or_skipped(target, _search(target, WRONG_TYPE))
    found = error.details.get("received")
    expect(found == WRONG_VALUE, f"`details.received` is {found!r}, not {WRONG_VALUE!r}.", error.exchange)


async def _listed(target: Target) -> tuple[Refusal, list[str]]:
    """The error of a request with three problems, and the pointers that it lists."""
    error = await refused_or_skipped(target, _search(target, SEVERAL))
    return error, [pointer for pointer, _ in error.problems(target.revision)]


async def _lists_all(target: Target) -> None:
    error, pointers = await _listed(target)
    missing = [each for each in SEVERAL_POINTERS if each not in pointers and each.rpartition("/")[0] not in pointers]
    expect(not missing, f"`details.errors` does not list {', '.join(missing)}.", error.exchange)


@check("errors.all-problems")
async def all_problems_are_listed(target: Target) -> None:
    """Sends a request with three problems."""
    await _lists_all(target)


@check("errors.all-problems-published")
async def all_problems_are_listed_in_the_published_form(target: Target) -> None:
    """Sends a request with three problems."""
    await _lists_all(target)


@check("errors.problems-in-order")
async def problems_are_sorted(target: Target) -> None:
    """Looks at the pointers of three problems."""
    error, pointers = await _listed(target)
    if len(pointers) < 2:
        raise Skipped("The error lists fewer than two problems.")
    expect(pointers == sorted(pointers), "The problems are not in the order of their pointers.", error.exchange)


@check("errors.keyword")
async def problems_name_the_keyword(target: Target) -> None:
    """Looks at the entries of three problems."""
    error, _ = await _listed(target)
    entries = [each for each in error.details.get("errors", []) if isinstance(each, dict)]
    if not entries:
        raise Skipped("The error lists no problems.")
    keywords = {str(each.get("keyword") or "") for each in entries}
    expect(all(each.isalpha() for each in keywords), "A problem has no JSON Schema keyword.", error.exchange)


@check("errors.suggestion")
async def unknown_members_are_suggested(target: Target) -> None:
    """Looks for the known filter in the error for `price_maximum`."""
    error = await refused_or_skipped(target, _search(target, UNKNOWN_MEMBER))
    expect(
        b"price_max" in error.exchange.body.replace(b"price_maximum", b""), "price_max is not named.", error.exchange
    )


async def _not_json(target: Target) -> Exchange:
    return await target.post(NOT_JSON)


@check("errors.not-json-envelope")
async def a_body_that_is_not_json_gets_the_envelope(target: Target) -> None:
    """Looks at the error for half of an object."""
    exchange = await _not_json(target)
    error = target.refusal(exchange)
    expect(error.info and error.payload, "The error has no ErrorInfo or no error payload.", exchange)


@check("errors.rpc-invalid-params")
async def validation_has_its_number(target: Target) -> None:
    """Looks at the error of an unknown filter."""
    _expect_number(await refused_or_skipped(target, _search(target, UNKNOWN_MEMBER)), -32602)


@check("errors.rpc-missing-member")
async def absence_has_its_number(target: Target) -> None:
    """Looks at the error for an absent member."""
    _expect_number(await refused_or_skipped(target, _search(target, MISSING_MEMBER)), -32602)


@check("errors.rpc-unknown-vehicle")
async def not_found_has_its_number(target: Target) -> None:
    """Looks at the error for an unknown VIN."""
    _expect_number(await refused_or_skipped(target, target.payload("inventory.vehicle", vin=UNKNOWN_VIN)), -32000)


@check("errors.rpc-unknown-skill-a2a")
async def unsupported_has_the_number_of_a2a(target: Target) -> None:
    """Looks at the error for an unknown type."""
    _expect_number(await refused_or_skipped(target, UNKNOWN_TYPE), -32004)


@check("errors.rpc-unknown-skill")
async def unsupported_has_the_number_of_autoagent(target: Target) -> None:
    """Looks at the error for an unknown type."""
    _expect_number(await refused_or_skipped(target, UNKNOWN_TYPE), -32601)


@check("errors.rpc-unknown-skill-next")
async def unsupported_has_the_number_of_the_next_version(target: Target) -> None:
    """Looks at the error for an unknown type."""
    _expect_number(await refused_or_skipped(target, UNKNOWN_TYPE), -32004)
