"""Checks dealer.information: what the agent says about the dealer and its rooftops."""

from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dealer_agent.checker import forms
from dealer_agent.checker.check import check, check_each, judge_each
from dealer_agent.checker.checks.lead_defects import VALIDATION_CODES
from dealer_agent.checker.exchange import at, dicts
from dealer_agent.checker.fields import id_of
from dealer_agent.checker.forms import Form
from dealer_agent.checker.outcome import Judgement, conclude, expect, has, skip_unless
from dealer_agent.checker.reply import data_of, is_answered, refusal_of
from dealer_agent.checker.target import READING_SKILLS, Target

_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_ADDRESS = ("address_line_1", "address_line_2", "city", "state", "zip", "country")


def _named(form: Form) -> Form:
    """An array of {name, value}, whose values have a form."""
    return forms.array_of(
        lambda each: isinstance(each, dict) and form(each.get("value")) and forms.text(each.get("name", ""))
    )


def _is_geo(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and all(isinstance(value.get(name), (int, float)) for name in ("latitude", "longitude"))
        and abs(value["latitude"]) <= 90
        and abs(value["longitude"]) <= 180
    )


def _address(value: Any) -> bool:
    return isinstance(value, dict) and all(forms.text(value[name]) for name in _ADDRESS if value.get(name) is not None)


def _is_phone(value: Any) -> bool:
    return isinstance(value, str) and sum(each.isdigit() for each in value) >= 3


def _is_zone(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(ZoneInfo(value))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False


ROOFTOP_MEMBERS: Mapping[str, tuple[Form, str]] = {
    "legal_name": (forms.text, "a string"),
    "website": (forms.url, "an absolute URL"),
    "notes": (forms.text, "a string"),
    "geo": (_is_geo, "{latitude, longitude} in degrees"),
    "emails": (_named(forms.e_mail), "an array of {name, value} with e-mail addresses"),
    "phones": (_named(_is_phone), "an array of {name, value} with phone numbers"),
    "address": (_address, "an object of strings"),
    "timezone": (_is_zone, "a name in the IANA time zone database"),
    "capabilities": (forms.array_of(forms.text), "an array of strings"),
    "fees": (forms.array_of(forms.fee), "an array of {name, amount} in whole dollars"),
    "schedules": (_named(lambda week: isinstance(week, dict)), "an array of {name, value} with a week each"),
}
"""The members of a rooftop, but `name`."""


@check("information.type-only")
async def _(target: Target) -> None:
    """If the agent answers no skill, it refuses the message and not the payload: other checks fail for that."""
    exchange = await target.send(target.payload("dealer.information"))
    if isinstance(at(exchange.json, "error"), dict) and refusal_of(exchange).code in VALIDATION_CODES:
        others = [each for each in READING_SKILLS if each in target.card.skills and each != "dealer.information"]
        answers = [is_answered(await target.send(target.payload(each))) for each in others]
        skip_unless(any(answers), "The agent answers no other skill.")
        data_of(exchange)


async def _dealer(target: Target) -> list[dict[str, Any]]:
    return [await target.ask("dealer.information")]


async def _rooftops(target: Target) -> list[dict[str, Any]]:
    [dealer] = await _dealer(target)
    return skip_unless(dicts(dealer.get("rooftops")), "The response has no rooftops.")


async def _all(target: Target) -> list[dict[str, Any]]:
    return [*await _dealer(target), *await _rooftops(target)]


async def _weeks(target: Target) -> list[dict[str, Any]]:
    entries = [entry for each in await _rooftops(target) for entry in dicts(each.get("schedules"))]
    return skip_unless(
        [each["value"] for each in entries if isinstance(each.get("value"), dict)], "No schedule has a week."
    )


def _has_only_members(*names: str) -> Judgement:
    return lambda node: node.keys() <= {*names} or f"The member {min(node.keys() - {*names})} is unknown."


def _has_no_null(node: dict[str, Any]) -> bool | str:
    null = [name for name, value in node.items() if value is None]
    return not null or f"{null[0]} is null."


def _has_hours(week: dict[str, Any]) -> bool | str:
    for day, value in week.items():
        good = isinstance(value, dict) and forms.clock(value.get("open")) and forms.clock(value.get("close"))
        if not good and value is not None and day in _DAYS:
            return f"The hours of {day} are {value!r:.200}."
    return True


def _has_welcome(data: dict[str, Any]) -> bool | str:
    skip_unless(data.get("welcome_message") is not None, "The response has no welcome_message.")
    return has("welcome_message", forms.text)(data)


judge_each(
    {
        "information.name": (_dealer, has("name", forms.name)),
        "information.welcome-message": (_dealer, _has_welcome),
        "information.rooftops": (
            _dealer,
            has("rooftops", lambda found: bool(found) and forms.array_of(forms.an_object)(found)),
        ),
        "information.known-members": (_dealer, _has_only_members("name", "welcome_message", "rooftops")),
        "information.rooftop-name": (_rooftops, has("name", forms.name)),
        "information.known-rooftop-members": (_rooftops, _has_only_members("name", *ROOFTOP_MEMBERS)),
        "information.fees-unknown": (
            _rooftops,
            lambda each: "fees" not in each or "A rooftop has fees, which this version does not know.",
        ),
        "information.no-null": (_all, _has_no_null),
        "information.days": (_weeks, _has_only_members(*_DAYS)),
        "information.hours": (_weeks, _has_hours),
    }
)


@check_each({f"information.{id_of(name)}": (name, *form) for name, form in ROOFTOP_MEMBERS.items()})
async def _(target: Target, name: str, form: Form, words: str) -> None:
    rooftops = [each for each in await _rooftops(target) if each.get(name) is not None]
    for each in skip_unless(rooftops, f"No rooftop has {name}."):
        conclude(has(name, form, f"not {words}")(each))


@check("information.rooftop-names-differ")
async def _(target: Target) -> None:
    names = [str(each.get("name")) for each in await _rooftops(target)]
    expect(len(set(names)) == len(names), "Two rooftops have one name.")
