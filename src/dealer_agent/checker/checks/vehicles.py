"""inventory.vehicle: one vehicle by VIN, stock number or id."""

from typing import Any

from dealer_agent.checker import forms
from dealer_agent.checker.check import CheckFunction, Failed, Skipped, check, expect
from dealer_agent.checker.searches import Listing, expect_refused, identified, key_of
from dealer_agent.checker.target import Target

_SKILL = "inventory.vehicle"
_UNKNOWN = {"vin": "5UXZZZ00X00Z00000", "stock": "QZXVWK-0", "vehicle_id": "qzxvwk-0"}
_NOT_COMPARED = ("updated_at", "changed_at", *_UNKNOWN)
"""Members that may change between two requests, and those that other checks compare."""


async def _one(target: Target, member: str) -> Listing:
    """A listing with a member whose value no other listing has, an available one if there is one."""
    listings = await identified(target, member)
    values = [each[member] for each in listings]
    own = [each for each in listings if values.count(each[member]) == 1]
    for each in (*(each for each in own if each.get("status") == "available"), *own):
        return each
    raise Skipped(f"No listing has a {member} of its own.")


def _by(member: str) -> CheckFunction:
    async def run(target: Target) -> None:
        listing = await _one(target, member)
        found = await target.ask(_SKILL, **{member: listing[member]})
        expect(found.get(member) == listing[member], f"The reply has {member} {found.get(member)!r}.", target)

    return run


def _unknown(member: str) -> CheckFunction:
    async def run(target: Target) -> None:
        refusal = await target.refuse(target.payload(_SKILL, **{member: _UNKNOWN[member]}))
        ok = refusal.code == "VEHICLE_NOT_FOUND"
        expect(
            ok, f"An unknown {member} is {refusal.code or refusal.number}, and not VEHICLE_NOT_FOUND.", refusal.exchange
        )

    return run


for _member in _UNKNOWN:
    check(f"vehicle.by-{_member.replace('_', '-')}")(_by(_member))
    if _member != "vin":
        # `errors.unknown-vehicle` is the check of an unknown VIN.
        check(f"vehicle.unknown-{_member.replace('_', '-')}")(_unknown(_member))


@check("vehicle.same-listing")
async def same_listing(target: Target) -> None:
    """The detail has what the search says."""
    listing = await _one(target, "vin")
    found = await target.ask(_SKILL, vin=listing["vin"])
    for name, value in listing.items():
        if name not in _NOT_COMPARED and name in found:
            expect(
                found[name] == value, f"{name} is {value!r} in the search and {found[name]!r} in the detail.", target
            )


@check("vehicle.complete")
async def complete(target: Target) -> None:
    """The detail lacks nothing that the search has."""
    listing = await _one(target, "vin")
    found = await target.ask(_SKILL, vin=listing["vin"])
    less = listing.keys() - found.keys()
    expect(not less, f"The detail lacks {min(less, default='')}, which the search has.", target)


def _with_status(status: str) -> CheckFunction:
    async def run(target: Target) -> None:
        for each in await identified(target, "vin"):
            if each.get("status") == status:
                await target.ask(_SKILL, vin=each["vin"])
                return
        raise Skipped(f"No listing has the status {status}.")

    return run


for _status in ("pending", "intransit"):
    check(f"vehicle.{_status}")(_with_status(_status))


@check("vehicle.vin-case")
async def vin_case(target: Target) -> None:
    """A VIN in lower case finds the vehicle."""
    listing = await _one(target, "vin")
    found = await target.ask(_SKILL, vin=listing["vin"].lower())
    expect(found.get("vin") == listing["vin"], f"The reply has the VIN {found.get('vin')!r}.", target)


@check("vehicle.no-identifier")
async def no_identifier(target: Target) -> None:
    """Without an identifier, the request is refused."""
    await expect_refused(target, _SKILL)


@check("vehicle.no-identifier-code")
async def no_identifier_code(target: Target) -> None:
    """The code says that something is missing."""
    exchange = await target.send(target.payload(_SKILL))
    try:
        refusal = target.refusal(exchange)
    except Failed:
        raise Skipped("The request is not refused.") from None
    ok = refusal.code in ("MISSING_REQUIRED_FIELD", "SCHEMA_VALIDATION_FAILED")
    expect(ok, f"A request without an identifier is {refusal.code or refusal.number}.", refusal.exchange)


@check("vehicle.vin-first")
async def vin_first(target: Target) -> None:
    """The VIN decides before the stock number."""
    first = await _one(target, "vin")
    for other in await identified(target, "stock"):
        if key_of(other) != key_of(first) and other["stock"] != first.get("stock"):
            found = await target.ask(_SKILL, vin=first["vin"], stock=other["stock"])
            expect(found.get("vin") == first["vin"], "The stock number decides, and not the VIN.", target)
            return
    raise Skipped("No two listings have stock numbers.")


@check("vehicle.next-identifier")
async def next_identifier(target: Target) -> None:
    """A stock number that matches decides if the VIN matches nothing."""
    listing = await _one(target, "stock")
    found = await target.ask(_SKILL, vin=_UNKNOWN["vin"], stock=listing["stock"])
    expect(found.get("stock") == listing["stock"], f"The reply has the stock number {found.get('stock')!r}.", target)


async def _with_zip(target: Target, vin: str) -> Listing:
    """The reply to a request with a ZIP code. `vehicle.zip` fails if it is refused."""
    try:
        return await target.ask(_SKILL, vin=vin, zip="37203")
    except Failed as failure:
        raise Skipped(f"There is no reply with a ZIP code: {failure}") from None


@check("vehicle.zip")
async def with_zip(target: Target) -> None:
    """A ZIP code is accepted."""
    listing = await _one(target, "vin")
    await target.ask(_SKILL, vin=listing["vin"], zip="37203")


@check("vehicle.zip-echo")
async def zip_echo(target: Target) -> None:
    """The reply repeats the ZIP code."""
    listing = await _one(target, "vin")
    found = await _with_zip(target, listing["vin"])
    expect(found.get("zip") == "37203", f"The reply has zip {found.get('zip')!r}.", target)


@check("vehicle.zip-same-price")
async def zip_same_price(target: Target) -> None:
    """The advertised price does not depend on the ZIP code."""
    for each in await target.material.having("price"):
        if forms.vin(each.get("vin")):
            found = await _with_zip(target, each["vin"])
            expect(
                found.get("price") == each["price"], f"With a ZIP code, the price is {found.get('price')!r}.", target
            )
            return
    raise Skipped("No listing with a VIN has a price.")


@check("vehicle.no-zip")
async def no_zip(target: Target) -> None:
    """Without a ZIP code, there is no price for an area."""
    listing = await _one(target, "vin")
    found = await target.ask(_SKILL, vin=listing["vin"])
    expect(found.keys().isdisjoint({"zip", "offered_price"}), "A reply without zip has zip or offered_price.", target)


@check("vehicle.offered-price")
async def offered_price(target: Target) -> None:
    """A price for an area is a number of dollars."""
    for condition in ("new", "used", "cpo"):
        for each in await identified(target, "vin"):
            if each.get("condition") == condition and each.get("price"):
                offered: Any = (await _with_zip(target, each["vin"])).get("offered_price")
                if offered is not None:
                    good = isinstance(offered, int) and not isinstance(offered, bool) and offered >= 0
                    expect(good, f"offered_price is {offered!r}.", target)
                    return
                break
    raise Skipped("The dealer has no price for the area of the check.")


@check("vehicle.zip-unknown")
async def zip_unknown(target: Target) -> None:
    """Later versions do not know zip."""
    listing = await _one(target, "vin")
    await expect_refused(target, _SKILL, vin=listing["vin"], zip="37203")


@check("vehicle.vin-pattern")
async def vin_pattern(target: Target) -> None:
    """A VIN that is too short is refused."""
    await expect_refused(target, _SKILL, vin="1HGCV1F30NA12345")
