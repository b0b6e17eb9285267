"""Tokens: who needs one, what a refusal looks like, and whether the card says the truth about both."""

from typing import Any

from dealer_agent.checker import forms
from dealer_agent.checker.card import Card
from dealer_agent.checker.check import check, each_of, judge_each
from dealer_agent.checker.checks.cards import card_of, profile_extensions
from dealer_agent.checker.exchange import Exchange, dicts
from dealer_agent.checker.outcome import Skipped, expect, expect_status, has, header, need, status
from dealer_agent.checker.reply import code
from dealer_agent.checker.target import JSON_HEADERS, READING_SKILLS, Request, Target

WRONG_TOKEN = "not-a-token-0123456789"  # noqa: S105 - it is wrong on purpose.
UNAUTHORIZED = 401


def _schemes_of(card: Card, skill_id: str | None = None) -> list[str]:
    """The schemes that the card requires of all skills, and of this one (None: of each), in either form of A2A."""
    skills = dicts(card.camel.get("skills"))
    holders = [card.camel, *(each for each in skills if skill_id in (None, each.get("id")))]
    names: list[str] = []
    for each in (each for holder in holders for each in dicts(holder.get("securityRequirements"))):
        schemes = each.get("schemes", each)
        names += list(schemes) if isinstance(schemes, dict) else []
    return names


def _declares_token(target: Target, skill_id: str) -> bool:
    return target.card.needs_token or bool(_schemes_of(target.card, skill_id))


async def _without_token(target: Target, skill_id: str, *headers: tuple[str, str], **members: Any) -> Exchange:
    """The exchange of a request without the token of the run, with further headers."""
    return await target.send(target.payload(skill_id, **members), (*JSON_HEADERS, *headers), without_token=True)


async def _guarded_skill(target: Target) -> str:
    """A reading skill that needs a token, as the card or the agent says. Skips the check if there is none."""
    for skill_id in (each for each in READING_SKILLS if each in target.card.skills):
        if _declares_token(target, skill_id) or (await _without_token(target, skill_id)).status == UNAUTHORIZED:
            return skill_id
    raise Skipped("No reading skill needs a token.")


async def _refused_without(target: Target) -> Exchange:
    exchange = await _without_token(target, await _guarded_skill(target))
    need(exchange.is_refusal, "The agent answers without a token.")
    return exchange


@check("authentication.before-payload")
async def _(target: Target) -> None:
    skill_id = await _guarded_skill(target)
    if (await _without_token(target, skill_id)).status != UNAUTHORIZED:
        raise Skipped("A request without a token does not get HTTP 401.")
    expect_status(await _without_token(target, skill_id, no_such_member=1), UNAUTHORIZED)


async def _with(target: Target, authorization: str, skill_id: str | None = None) -> Exchange:
    """The exchange of a request with this header, of a skill that needs a token if none is named."""
    return await _without_token(target, skill_id or await _guarded_skill(target), ("Authorization", authorization))


def _sending(authorization: str) -> Request:
    """A request with this header, of a skill that needs a token and is refused without one."""

    async def send(target: Target) -> Exchange:
        await _refused_without(target)
        return await _with(target, authorization)

    return send


judge_each(
    {
        "authentication.missing": (_refused_without, status(UNAUTHORIZED)),
        "authentication.missing-code": (_refused_without, code("AUTH_REQUIRED")),
        "authentication.challenge": (
            _refused_without,
            header("WWW-Authenticate", lambda value: "bearer" in value.lower()),
        ),
        "authentication.wrong-scheme": (_sending("Basic Y2hlY2tlcjpjaGVja2Vy"), status(UNAUTHORIZED)),
        "authentication.wrong-token": (_sending(f"Bearer {WRONG_TOKEN}"), status(UNAUTHORIZED)),
    }
)


@check("authentication.wrong-token-open")
async def _(target: Target) -> None:
    for skill_id in (each for each in READING_SKILLS if each in target.card.skills):
        if (await _without_token(target, skill_id)).status != UNAUTHORIZED:
            expect_status(await _with(target, f"Bearer {WRONG_TOKEN}", skill_id), UNAUTHORIZED)
            return
    raise Skipped("No reading skill answers without a token.")


@check("authentication.token-not-repeated")
async def _(target: Target) -> None:
    exchange = await _with(target, f"Bearer {WRONG_TOKEN}", target.reading_skills()[0])
    text = exchange.body.decode("utf-8", "replace") + "".join(value for _, value in exchange.headers)
    expect(WRONG_TOKEN not in text, "The response repeats the token of the request.", exchange)


@check("authentication.scheme-case")
async def _(target: Target) -> None:
    need(target.token, "The run has no token. Give one with --token.")
    exchange = await _with(target, f"bearer {target.token}")
    expect(not exchange.is_refusal, "The scheme in lower case is refused.", exchange)


# What the card says


def _repeats_auth_type(card: Card) -> bool | str:
    expected = need(card.content.get("auth_type"), "The card has no `auth_type`.")
    found = [each["params"].get("auth_type") for each in profile_extensions(card)]
    return all(each == expected for each in found) or f"The params of the extensions have auth_type {found}."


def _defines_schemes(card: Card) -> bool | str:
    names = set(need(_schemes_of(card), "The card has no security requirement."))
    schemes = card.camel.get("securitySchemes")
    missing = names - set(schemes if isinstance(schemes, dict) else {})
    return not missing or f"The card does not define the scheme {', '.join(sorted(missing))}."


each_of(
    card_of,
    {
        "cards.auth-type": lambda card: has("auth_type", forms.name)(card.content),
        "cards.auth-type-params": _repeats_auth_type,
        "cards.security-schemes": _defines_schemes,
    },
)


async def _expect_guarded(target: Target, skills: list[str]) -> None:
    """Raises Failed if one of these skills answers without a token."""
    for skill_id in skills:
        exchange = await _without_token(target, skill_id)
        expect(exchange.is_refusal, f"{skill_id} answers without the token that the card requires.", exchange)


@check("cards.auth-type-bearer")
async def _(target: Target) -> None:
    if target.card.content.get("auth_type") != "bearer":
        raise Skipped("`auth_type` is not bearer.")
    await _expect_guarded(target, target.reading_skills())


@check("cards.auth-type-none")
async def _(target: Target) -> None:
    if target.card.content.get("auth_type") in ("bearer", None):
        raise Skipped("`auth_type` is bearer, or absent.")
    exchanges = [await _without_token(target, skill_id) for skill_id in target.reading_skills()]
    expect(any(each.status != UNAUTHORIZED for each in exchanges), "Every skill needs a token.", exchanges[0])


@check("cards.security-declared")
async def _(target: Target) -> None:
    skills = target.reading_skills()
    guarded = [each for each in skills if (await _without_token(target, each)).status == UNAUTHORIZED]
    need(guarded, "No skill needs a token.")
    for skill_id in guarded:
        expect(_declares_token(target, skill_id), f"{skill_id} needs a token, and the card does not say so.")


@check("cards.security-true")
async def _(target: Target) -> None:
    declared = [each for each in target.reading_skills() if _schemes_of(target.card, each)]
    await _expect_guarded(target, need(declared, "The card has no security requirement."))
