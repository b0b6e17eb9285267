"""The members of listings: their forms, and what they mean."""

from collections.abc import Mapping
from typing import Any

from dealer_agent.checker import forms
from dealer_agent.checker.check import CheckFunction, Failed, Skipped, check, expect
from dealer_agent.checker.forms import Form
from dealer_agent.checker.searches import Listing, key_of, number_of, search
from dealer_agent.checker.target import Target

MEMBERS: Mapping[str, tuple[Form, str]] = {
    "vehicle_id": (forms.name, "a string that is not empty"),
    "status": (forms.one_of("available", "intransit", "pending"), "available, intransit or pending"),
    "rooftop": (forms.name, "a string that is not empty"),
    "updated_at": (forms.moment, "a timestamp with an offset"),
    "changed_at": (forms.moment, "a timestamp with an offset"),
    "dealer_id": (forms.text, "a string"),
    "vehicle_type": (forms.one_of("car", "motorcycle", "trailer", "rv", "other"), "a type of the protocol"),
    "condition": (forms.one_of("new", "used", "cpo"), "new, used or cpo"),
    "vin": (forms.vin, "a VIN"),
    "stock": (forms.text, "a string"),
    "year": (forms.year, "a year from 1900 to 2100"),
    "make": (forms.text, "a string"),
    "model": (forms.text, "a string"),
    "trim": (forms.text, "a string"),
    "price": (forms.whole, "whole dollars"),
    "list_price": (forms.whole, "whole dollars"),
    "msrp": (forms.whole, "whole dollars"),
    "fees": (forms.array_of(forms.fee), "an array of {name, amount}"),
    "mileage": (forms.whole, "whole miles"),
    "body": (forms.text, "a string"),
    "transmission": (forms.text, "a string"),
    "driveline": (forms.text, "a string"),
    "engine": (forms.text, "a string"),
    "fuel": (forms.text, "a string"),
    "charge_port": (forms.text, "a string"),
    "displacement_cc": (forms.whole, "a whole number"),
    "city_mpg": (forms.whole, "a whole number"),
    "highway_mpg": (forms.whole, "a whole number"),
    "electric_range_mi": (forms.number, "a number that is not negative"),
    "battery_kwh": (forms.number, "a number that is not negative"),
    "motor_power_hp": (forms.number, "a number that is not negative"),
    "dc_fast_charge": (forms.truth, "true or false"),
    "exterior_color": (forms.text, "a string"),
    "interior_color": (forms.text, "a string"),
    "features": (forms.array_of(forms.text), "an array of strings"),
    "photos": (forms.array_of(forms.url), "an array of absolute URLs"),
    "vdp_url": (forms.url, "an absolute URL"),
    "description": (forms.text, "a string"),
    "notes": (forms.text, "a string"),
    "other_attributes": (forms.scalars, "an object of strings, numbers and booleans"),
    "inventory_date": (forms.day, "a date"),
}
"""The members of a listing, with the form of each."""


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
        expect(twice is None, f"Two listings have the {member} {twice}.", target)

    return run


async def _failed(target: Target, listing: Listing, sentence: str) -> Failed:
    """The failure for a listing. Its exchange is a small one that shows the listing, if there is one."""
    if isinstance(listing.get("vin"), str) and forms.vin(listing["vin"]):
        await search(target, filters={"vin": listing["vin"]})
    return Failed(f"{key_of(listing)[:100]}: {sentence}", target.latest)


for _member in MEMBERS:
    check(f"listing.{_member.replace('_', '-')}")(_form(_member))
for _member in ("vehicle_id", "status", "rooftop", "updated_at"):
    check(f"listing.has-{_member.replace('_', '-')}")(_present(_member))
for _member in ("vehicle_id", "vin"):
    check(f"listing.one-{_member.replace('_', '-')}")(_once(_member))


@check("listing.no-null")
async def no_null(target: Target) -> None:
    """An unknown member is absent."""
    for each in await target.material.some_listings():
        for member in MEMBERS:
            if member in each and each[member] is None:
                raise await _failed(target, each, f"{member} is null.")


@check("listing.rooftop-known")
async def rooftop_known(target: Target) -> None:
    """The rooftop is one of the dealer's."""
    rooftops = (await target.material.information()).get("rooftops")
    names = {each.get("name") for each in rooftops if isinstance(each, dict)} if isinstance(rooftops, list) else set()
    if not names:
        raise Skipped("dealer.information has no rooftops.")
    for each in await target.material.having("rooftop"):
        if isinstance(each["rooftop"], str) and each["rooftop"] not in names:
            raise await _failed(target, each, f"{each['rooftop']} is no rooftop of dealer.information.")


@check("listing.fees-inside-price")
async def fees_inside_price(target: Target) -> None:
    """The price includes the fees."""
    for each in await target.material.having("fees"):
        price, fees = number_of(each, "price"), _sum(each["fees"])
        if price is not None and fees > price:
            raise await _failed(target, each, f"The fees of {fees} dollars are more than the price of {price}.")


@check("listing.fee-names")
async def fee_names(target: Target) -> None:
    """A charge is listed once."""
    for each in await target.material.having("fees"):
        fees = each["fees"] if isinstance(each["fees"], list) else []
        names = [fee.get("name") for fee in fees if isinstance(fee, dict)]
        if len(set(map(str, names))) < len(names):
            raise await _failed(target, each, "Two fees of a listing have one name.")


def _sum(fees: Any) -> int:
    amounts: list[Any] = [fee.get("amount") for fee in fees if isinstance(fee, dict)] if isinstance(fees, list) else []
    return sum(int(amount) for amount in amounts if forms.whole(amount))
