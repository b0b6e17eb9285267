"""The members of listings: their forms, and what they mean."""

from typing import Any

from dealer_agent.checker import forms
from dealer_agent.checker.check import CheckFunction, check
from dealer_agent.checker.exchange import dicts
from dealer_agent.checker.fields import MEMBERS, id_of
from dealer_agent.checker.outcome import Failed, Skipped, expect
from dealer_agent.checker.searches import key_of, number_of, search
from dealer_agent.checker.target import Listing, Target


def _form(member: str) -> CheckFunction:
    async def run(target: Target) -> None:
        form, words = MEMBERS[member]
        for each in await target.material.having(member):
            if not form(each[member]):
                raise await _failed(target, each, f"{member} is {each[member]!r:.200}, and not {words}.")

    return run


def _present(member: str) -> CheckFunction:
    async def run(target: Target) -> None:
        for each in await target.material.some_listings():
            if member not in each:
                raise await _failed(target, each, f"A listing has no {member}.")

    return run


def _once(member: str) -> CheckFunction:
    async def run(target: Target) -> None:
        values = [each[member] for each in await target.material.having(member) if isinstance(each[member], str)]
        twice = next((value for value in set(values) if values.count(value) > 1), None)
        expect(twice is None, f"Two listings have the {member} {twice}.")

    return run


async def _failed(target: Target, listing: Listing, sentence: str) -> Failed:
    """The failure for a listing. Its exchange is a small one that shows the listing, if there is one."""
    if isinstance(listing.get("vin"), str) and forms.vin(listing["vin"]):
        await search(target, filters={"vin": listing["vin"]})
    return Failed(f"{key_of(listing)[:100]}: {sentence}")


for _member in MEMBERS:
    check(f"listing.{id_of(_member)}")(_form(_member))
for _member in ("vehicle_id", "status", "rooftop", "updated_at"):
    check(f"listing.has-{id_of(_member)}")(_present(_member))
for _member in ("vehicle_id", "vin"):
    check(f"listing.one-{id_of(_member)}")(_once(_member))


@check("listing.no-null")
async def _(target: Target) -> None:
    for each in await target.material.some_listings():
        for member in MEMBERS:
            if member in each and each[member] is None:
                raise await _failed(target, each, f"{member} is null.")


@check("listing.rooftop-known")
async def _(target: Target) -> None:
    names = {each.get("name") for each in dicts((await target.material.information()).get("rooftops"))}
    if not names:
        raise Skipped("dealer.information has no rooftops.")
    for each in await target.material.having("rooftop"):
        if isinstance(each["rooftop"], str) and each["rooftop"] not in names:
            raise await _failed(target, each, f"{each['rooftop']} is no rooftop of dealer.information.")


@check("listing.fees-inside-price")
async def _(target: Target) -> None:
    for each in await target.material.having("fees"):
        price, fees = number_of(each, "price"), _sum(each["fees"])
        if price is not None and fees > price:
            raise await _failed(target, each, f"The fees of {fees} dollars are more than the price of {price}.")


@check("listing.fee-names")
async def _(target: Target) -> None:
    for each in await target.material.having("fees"):
        names = [str(fee.get("name")) for fee in dicts(each["fees"])]
        if len(set(names)) < len(names):
            raise await _failed(target, each, "Two fees of a listing have one name.")


def _sum(fees: Any) -> int:
    return sum(int(fee["amount"]) for fee in dicts(fees) if forms.whole(fee.get("amount")))
