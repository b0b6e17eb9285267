"""inventory.vehicle: one vehicle by VIN, stock number or id."""

from typing import Any

from dealer_agent.checker import forms
from dealer_agent.checker.check import CheckFunction, check, expect_refused
from dealer_agent.checker.fields import id_of
from dealer_agent.checker.outcome import Skipped, expect, skip_if_failed
from dealer_agent.checker.searches import identified, key_of
from dealer_agent.checker.target import Listing, Target

_SKILL = "inventory.vehicle"
_UNKNOWN = {"vin": "5UXZZZ00X00Z00000", "stock": "QZXVWK-0", "vehicle_id": "qzxvwk-0"}
_NOT_COMPARED = ("updated_at", "changed_at", "description", "notes", *_UNKNOWN)
"""Members that may change between two requests or be shorter in a search, and those that other checks compare."""
_ZIP = "37203"


async def _one(target: Target, member: str) -> Listing:
    """A listing with a member whose value no other listing has, an available one if there is one."""
    listings = await identified(target, member)
    values = [each[member] for each in listings]
    own = [each for each in listings if values.count(each[member]) == 1]
    if not own:
        raise Skipped(f"No listing has a {member} of its own.")
    return next((each for each in own if each.get("status") == "available"), own[0])


async def _listing_and_detail(target: Target) -> tuple[Listing, Listing]:
    listing = await _one(target, "vin")
    return listing, await target.ask(_SKILL, vin=listing["vin"])


def _by(member: str) -> CheckFunction:
    async def run(target: Target) -> None:
        listing = await _one(target, member)
        found = await target.ask(_SKILL, **{member: listing[member]})
        expect(found.get(member) == listing[member], f"The reply has {member} {found.get(member)!r}.")

    return run


def _unknown(member: str) -> CheckFunction:
    async def run(target: Target) -> None:
        refusal = await target.refuse(target.payload(_SKILL, **{member: _UNKNOWN[member]}))
        found = refusal.code or refusal.number
        expect(found == "VEHICLE_NOT_FOUND", f"An unknown {member} is {found}, and not VEHICLE_NOT_FOUND.")

    return run


for _member in _UNKNOWN:
    check(f"vehicle.by-{id_of(_member)}")(_by(_member))
    if _member != "vin":
        # `errors.unknown-vehicle` is the check of an unknown VIN.
        check(f"vehicle.unknown-{id_of(_member)}")(_unknown(_member))


@check("vehicle.same-listing")
async def _(target: Target) -> None:
    listing, found = await _listing_and_detail(target)
    for name, value in listing.items():
        if name in found and name not in _NOT_COMPARED and not isinstance(value, (list, dict)):
            expect(found[name] == value, f"{name} is {value!r} in the search and {found[name]!r} in the detail.")


@check("vehicle.complete")
async def _(target: Target) -> None:
    listing, found = await _listing_and_detail(target)
    less = listing.keys() - found.keys()
    expect(not less, f"The detail lacks {min(less, default='')}, which the search has.")


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
async def _(target: Target) -> None:
    listing = await _one(target, "vin")
    found = await target.ask(_SKILL, vin=listing["vin"].lower())
    expect(found.get("vin") == listing["vin"], f"The reply has the VIN {found.get('vin')!r}.")


@check("vehicle.no-identifier-code")
async def _(target: Target) -> None:
    refusal = await target.refused(target.payload(_SKILL))
    ok = refusal.code in ("MISSING_REQUIRED_FIELD", "SCHEMA_VALIDATION_FAILED")
    expect(ok, f"A request without an identifier is {refusal.code or refusal.number}.")


@check("vehicle.vin-first")
async def _(target: Target) -> None:
    first = await _one(target, "vin")
    for other in await identified(target, "stock"):
        if key_of(other) != key_of(first) and other["stock"] != first.get("stock"):
            found = await target.ask(_SKILL, vin=first["vin"], stock=other["stock"])
            expect(found.get("vin") == first["vin"], "The stock number decides, and not the VIN.")
            return
    raise Skipped("No two listings have stock numbers.")


@check("vehicle.next-identifier")
async def _(target: Target) -> None:
    listing = await _one(target, "stock")
    found = await target.ask(_SKILL, vin=_UNKNOWN["vin"], stock=listing["stock"])
    expect(found.get("stock") == listing["stock"], f"The reply has the stock number {found.get('stock')!r}.")


async def _with_zip(target: Target, vin: str) -> Listing:
    """The reply to a request with a ZIP code. `vehicle.zip` fails if it is refused."""
    with skip_if_failed("There is no reply with a ZIP code: "):
        return await target.ask(_SKILL, vin=vin, zip=_ZIP)


@check("vehicle.zip")
async def _(target: Target) -> None:
    await target.ask(_SKILL, vin=(await _one(target, "vin"))["vin"], zip=_ZIP)


@check("vehicle.zip-echo")
async def _(target: Target) -> None:
    found = await _with_zip(target, (await _one(target, "vin"))["vin"])
    expect(found.get("zip") == _ZIP, f"The reply has zip {found.get('zip')!r}.")


@check("vehicle.zip-same-price")
async def _(target: Target) -> None:
    for each in await target.material.having("price"):
        if forms.vin(each.get("vin")):
            price = (await _with_zip(target, each["vin"])).get("price")
            expect(price == each["price"], f"With a ZIP code, the price is {price!r}.")
            return
    raise Skipped("No listing with a VIN has a price.")


@check("vehicle.no-zip")
async def _(target: Target) -> None:
    _, found = await _listing_and_detail(target)
    expect(found.keys().isdisjoint({"zip", "offered_price"}), "A reply without zip has zip or offered_price.")


@check("vehicle.offered-price")
async def _(target: Target) -> None:
    listings = await identified(target, "vin")
    for condition in ("new", "used", "cpo"):
        priced = (each for each in listings if each.get("condition") == condition and each.get("price"))
        if each := next(priced, None):
            offered: Any = (await _with_zip(target, each["vin"])).get("offered_price")
            if offered is not None:
                good = isinstance(offered, int) and not isinstance(offered, bool) and offered >= 0
                expect(good, f"offered_price is {offered!r}.")
                return
    raise Skipped("The dealer has no price for the area of the check.")


@check("vehicle.zip-unknown")
async def _(target: Target) -> None:
    await expect_refused(target, _SKILL, vin=(await _one(target, "vin"))["vin"], zip=_ZIP)
