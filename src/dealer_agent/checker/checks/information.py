"""dealer.information: the dealer and its rooftops."""

from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dealer_agent.checker import forms
from dealer_agent.checker.check import CheckFunction, Skipped, check, expect
from dealer_agent.checker.forms import Form
from dealer_agent.checker.target import Target

_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_ADDRESS = ("address_line_1", "address_line_2", "city", "state", "zip", "country")


def _named(form: Form) -> Form:
    """An array of {name, value}, whose values have a form."""
    return forms.array_of(
        lambda each: isinstance(each, dict) and form(each.get("value")) and forms.text(each.get("name", ""))
    )


def _geo(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and all(isinstance(value.get(name), (int, float)) for name in ("latitude", "longitude"))
        and abs(value["latitude"]) <= 90
        and abs(value["longitude"]) <= 180
    )


def _address(value: Any) -> bool:
    return isinstance(value, dict) and all(forms.text(value[name]) for name in _ADDRESS if value.get(name) is not None)


def _phone(value: Any) -> bool:
    return isinstance(value, str) and sum(each.isdigit() for each in value) >= 3


def _zone(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(ZoneInfo(value))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False


ROOFTOP_MEMBERS: Mapping[str, tuple[Form, str]] = {
    "legal_name": (forms.text, "a string"),
    "website": (forms.url, "an absolute URL"),
    "notes": (forms.text, "a string"),
    "geo": (_geo, "{latitude, longitude} in degrees"),
    "emails": (_named(forms.e_mail), "an array of {name, value} with e-mail addresses"),
    "phones": (_named(_phone), "an array of {name, value} with phone numbers"),
    "address": (_address, "an object of strings"),
    "timezone": (_zone, "a name in the IANA time zone database"),
    "capabilities": (forms.array_of(forms.text), "an array of strings"),
    "fees": (forms.array_of(forms.fee), "an array of {name, amount} in whole dollars"),
}
"""The members of a rooftop that one predicate can judge. `name` and `schedules` have checks of their own."""


async def _rooftops(target: Target) -> list[dict[str, Any]]:
    found = (await target.ask("dealer.information")).get("rooftops")
    rooftops = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    if not rooftops:
        raise Skipped("The reply has no rooftops.")
    return rooftops


def _member(name: str) -> CheckFunction:
    async def run(target: Target) -> None:
        form, words = ROOFTOP_MEMBERS[name]
        values = [each[name] for each in await _rooftops(target) if each.get(name) is not None]
        if not values:
            raise Skipped(f"No rooftop has {name}.")
        for value in values:
            expect(form(value), f"{name} is {value!r:.300}, and not {words}.", target)

    return run


for _name in ROOFTOP_MEMBERS:
    check(f"information.{_name.replace('_', '-')}")(_member(_name))


@check("information.name")
async def dealer_name(target: Target) -> None:
    """The dealer has a name."""
    name = (await target.ask("dealer.information")).get("name")
    expect(forms.name(name), f"name is {name!r:.200}.", target)


@check("information.welcome-message")
async def welcome_message(target: Target) -> None:
    """The welcome is a string."""
    message = (await target.ask("dealer.information")).get("welcome_message")
    if message is None:
        raise Skipped("The reply has no welcome_message.")
    expect(isinstance(message, str), f"welcome_message is {message!r:.200}.", target)


@check("information.rooftops")
async def rooftops(target: Target) -> None:
    """There is at least one rooftop."""
    found = (await target.ask("dealer.information")).get("rooftops")
    good = isinstance(found, list) and found and all(isinstance(each, dict) for each in found)
    expect(good, "rooftops is no array of at least one object.", target)


@check("information.rooftop-name")
async def rooftop_name(target: Target) -> None:
    """Each rooftop has a name."""
    for each in await _rooftops(target):
        expect(forms.name(each.get("name")), f"The name of a rooftop is {each.get('name')!r:.200}.", target)


@check("information.rooftop-names-differ")
async def rooftop_names_differ(target: Target) -> None:
    """Names of rooftops tell them apart."""
    names = [str(each.get("name")) for each in await _rooftops(target)]
    expect(len(set(names)) == len(names), "Two rooftops have one name.", target)


async def _schedules(target: Target) -> list[Any]:
    found = [each["schedules"] for each in await _rooftops(target) if each.get("schedules") is not None]
    if not found:
        raise Skipped("No rooftop has schedules.")
    return found


async def _weeks(target: Target) -> list[dict[str, Any]]:
    schedules = [entry for each in await _schedules(target) if isinstance(each, list) for entry in each]
    weeks = [each["value"] for each in schedules if isinstance(each, dict) and isinstance(each.get("value"), dict)]
    if not weeks:
        raise Skipped("No schedule has a week.")
    return weeks


@check("information.schedules")
async def schedules(target: Target) -> None:
    """A schedule has a name and a week."""
    form = _named(lambda week: isinstance(week, dict))
    for each in await _schedules(target):
        expect(form(each), "schedules is no array of {name, value} with a week each.", target)


@check("information.days")
async def days(target: Target) -> None:
    """A week has days."""
    for week in await _weeks(target):
        more = week.keys() - set(_DAYS)
        expect(not more, f"A week has the unknown day {min(more, default='')}.", target)


@check("information.hours")
async def hours(target: Target) -> None:
    """A day has opening hours, or null when closed."""
    for week in await _weeks(target):
        for day, value in week.items():
            good = isinstance(value, dict) and forms.clock(value.get("open")) and forms.clock(value.get("close"))
            expect(good or value is None or day not in _DAYS, f"The hours of {day} are {value!r:.200}.", target)


@check("information.no-null")
async def no_null(target: Target) -> None:
    """An unknown member is absent."""
    data = await target.ask("dealer.information")
    for node in (data, *await _rooftops(target)):
        null = next((name for name, value in node.items() if value is None), None)
        expect(null is None, f"{null} is null.", target)


@check("information.known-members")
async def known_members(target: Target) -> None:
    """The dealer has no members but those of the protocol."""
    more = (await target.ask("dealer.information")).keys() - {"name", "welcome_message", "rooftops"}
    expect(not more, f"The reply has the unknown member {min(more, default='')}.", target)


@check("information.known-rooftop-members")
async def known_rooftop_members(target: Target) -> None:
    """A rooftop has no members but those of the protocol."""
    for each in await _rooftops(target):
        more = each.keys() - ROOFTOP_MEMBERS.keys() - {"name", "schedules"}
        expect(not more, f"A rooftop has the unknown member {min(more, default='')}.", target)


@check("information.fees-unknown")
async def fees_unknown(target: Target) -> None:
    """Versions before 1.3 do not know fees."""
    for each in await _rooftops(target):
        expect("fees" not in each, f"{target.revision.name} does not know fees, and a rooftop has them.", target)
