"""dealer.information: the dealer and its rooftops."""

from collections.abc import Callable, Mapping
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dealer_agent.checker import forms
from dealer_agent.checker.check import check, check_each
from dealer_agent.checker.exchange import dicts
from dealer_agent.checker.fields import by_id
from dealer_agent.checker.forms import Form
from dealer_agent.checker.outcome import Judgement, Skipped, conclude, expect
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
    "schedules": (_named(lambda week: isinstance(week, dict)), "an array of {name, value} with a week each"),
}
"""The members of a rooftop, but `name`."""


async def _dealer(target: Target) -> dict[str, Any]:
    return await target.ask("dealer.information")


async def _rooftops(target: Target) -> list[dict[str, Any]]:
    rooftops = dicts((await _dealer(target)).get("rooftops"))
    if not rooftops:
        raise Skipped("The response has no rooftops.")
    return rooftops


async def _values(target: Target, name: str) -> list[Any]:
    """The values of a member of rooftops. Skips the check if no rooftop has it."""
    found = [each[name] for each in await _rooftops(target) if each.get(name) is not None]
    if not found:
        raise Skipped(f"No rooftop has {name}.")
    return found


@check_each(by_id("information", ROOFTOP_MEMBERS))
async def _(target: Target, name: str) -> None:
    form, words = ROOFTOP_MEMBERS[name]
    for value in await _values(target, name):
        expect(form(value), f"{name} is {value!r:.300}, and not {words}.")


def _has_rooftops(data: dict[str, Any]) -> bool | str:
    found = data.get("rooftops")
    good = isinstance(found, list) and found != [] and all(isinstance(each, dict) for each in found)
    return good or "rooftops is no array of at least one object."


def _has_welcome(data: dict[str, Any]) -> bool | str:
    message = data.get("welcome_message")
    if message is None:
        raise Skipped("The response has no welcome_message.")
    return isinstance(message, str) or f"welcome_message is {message!r:.200}."


def _knows(*names: str) -> Callable[[dict[str, Any]], bool | str]:
    return lambda node: node.keys() <= {*names} or f"The member {min(node.keys() - {*names})} is unknown."


@check_each(
    {
        "information.name": lambda data: forms.name(data.get("name")) or f"name is {data.get('name')!r:.200}.",
        "information.welcome-message": _has_welcome,
        "information.rooftops": _has_rooftops,
        "information.known-members": _knows("name", "welcome_message", "rooftops"),
    }
)
async def _(target: Target, judgement: Judgement) -> None:
    conclude(judgement(await _dealer(target)))


@check_each(
    {
        "information.rooftop-name": lambda each: (
            forms.name(each.get("name")) or f"The name of a rooftop is {each.get('name')!r:.200}."
        ),
        "information.known-rooftop-members": _knows("name", *ROOFTOP_MEMBERS),
        "information.fees-unknown": lambda each: "fees" not in each or "A rooftop has fees, which are unknown here.",
    }
)
async def _(target: Target, judgement: Judgement) -> None:
    for each in await _rooftops(target):
        conclude(judgement(each))


@check("information.rooftop-names-differ")
async def _(target: Target) -> None:
    names = [str(each.get("name")) for each in await _rooftops(target)]
    expect(len(set(names)) == len(names), "Two rooftops have one name.")


async def _weeks(target: Target) -> list[dict[str, Any]]:
    entries = [entry for each in await _values(target, "schedules") for entry in dicts(each)]
    weeks = [each["value"] for each in entries if isinstance(each.get("value"), dict)]
    if not weeks:
        raise Skipped("No schedule has a week.")
    return weeks


@check("information.days")
async def _(target: Target) -> None:
    for week in await _weeks(target):
        more = week.keys() - set(_DAYS)
        expect(not more, f"A week has the unknown day {min(more, default='')}.")


@check("information.hours")
async def _(target: Target) -> None:
    for week in await _weeks(target):
        for day, value in week.items():
            good = isinstance(value, dict) and forms.clock(value.get("open")) and forms.clock(value.get("close"))
            expect(good or value is None or day not in _DAYS, f"The hours of {day} are {value!r:.200}.")


@check("information.no-null")
async def _(target: Target) -> None:
    for node in (await _dealer(target), *await _rooftops(target)):
        null = next((name for name, value in node.items() if value is None), None)
        expect(null is None, f"{null} is null.")
