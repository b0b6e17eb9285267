"""Checks tokens: who needs one, what a refusal looks like, and whether the card says the truth about both."""

import re
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from dealer_agent.checker import forms
from dealer_agent.checker.card import FetchedCard
from dealer_agent.checker.check import check, each_of, judge_each
from dealer_agent.checker.checks.cards import card_of, profile_extensions
from dealer_agent.checker.checks.lead_defects import lead
from dealer_agent.checker.exchange import Exchange, at, dicts
from dealer_agent.checker.outcome import Skipped, expect, expect_status, has, header, skip_unless, status
from dealer_agent.checker.reply import code
from dealer_agent.checker.searches import identified
from dealer_agent.checker.target import JSON_HEADERS, READING_SKILLS, Request, Target
from dealer_agent.protocol.well_known import PROTECTED_RESOURCE_PATH

WRONG_TOKEN = "not-a-token-0123456789"  # noqa: S105 - it is wrong on purpose.
UNAUTHORIZED = 401
LEAST = 12
"""Characters of a token that is looked for."""
_METADATA = re.compile(r'\bresource_metadata="([^"]+)"', re.IGNORECASE)


def _schemes_of(card: FetchedCard, skill_id: str | None = None) -> list[str]:
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
    skip_unless(exchange.is_refusal, "The agent answers without a token.")
    return exchange


@check("authentication.before-payload")
async def _(target: Target) -> None:
    """Two requests without a token, one with a valid and one with a wrong payload, both get 401."""
    skill_id = await _guarded_skill(target)
    if (await _without_token(target, skill_id)).status != UNAUTHORIZED:
        raise Skipped("A request without a token does not get HTTP 401.")
    expect_status(await _without_token(target, skill_id, no_such_member=1), UNAUTHORIZED)


async def _of_strangers(target: Target, skill_id: str, **members: Any) -> list[Exchange]:
    """The exchanges of a request without a token and with a wrong one. None if the card requires no token for it."""
    if not _declares_token(target, skill_id):
        return []
    wrong = ("Authorization", f"Bearer {WRONG_TOKEN}")
    return [await _without_token(target, skill_id, *headers, **members) for headers in ((), (wrong,))]


async def _strangers_read(target: Target) -> list[Exchange]:
    exchanges = [each for skill_id in target.reading_skills() for each in await _of_strangers(target, skill_id)]
    if "inventory.vehicle" in target.card.skills:
        with suppress(Skipped):
            vin = (await identified(target, "vin"))[0]["vin"]
            exchanges += await _of_strangers(target, "inventory.vehicle", vin=vin)
    return skip_unless(exchanges, "The card requires no token.")


async def _strangers_submit(target: Target) -> list[Exchange]:
    members = {name: value for name, value in lead(target, person="stranger").items() if name != "type"}
    return skip_unless(await _of_strangers(target, "lead.submit", **members), "The card requires no token for leads.")


async def _with_authorization(target: Target, authorization: str, skill_id: str | None = None) -> Exchange:
    """The exchange of a request with this header, of a skill that needs a token if none is named."""
    return await _without_token(target, skill_id or await _guarded_skill(target), ("Authorization", authorization))


async def _wrong_tokens(target: Target) -> list[Exchange]:
    """The exchanges with wrong tokens: one of nobody, and the token of the run with and without a last character."""
    await _refused_without(target)
    near = [f"{target.token}x", target.token[:-1], target.token.swapcase()] if target.token else []
    return [await _with_authorization(target, f"Bearer {each}") for each in (WRONG_TOKEN, *near)]


async def _unauthorized(target: Target) -> list[Exchange]:
    """All refusals of the run for a token, after one."""
    return [await _refused_without(target), *(each for each in target.posted if each.status == UNAUTHORIZED)]


def _sending(authorization: str) -> Request:
    """A request with this header, of a skill that needs a token and is refused without one."""

    async def send(target: Target) -> Exchange:
        await _refused_without(target)
        return await _with_authorization(target, authorization)

    return send


judge_each(
    {
        "authentication.missing": (_refused_without, status(UNAUTHORIZED)),
        "authentication.every-skill": (_strangers_read, status(UNAUTHORIZED)),
        "authentication.lead": (_strangers_submit, status(UNAUTHORIZED)),
        "authentication.wrong-scheme": (_sending("Basic Y2hlY2tlcjpjaGVja2Vy"), status(UNAUTHORIZED)),
        "authentication.wrong-token": (_wrong_tokens, status(UNAUTHORIZED)),
    }
)
each_of(
    _unauthorized,
    {
        "authentication.missing-code": code("AUTH_REQUIRED"),
        "authentication.challenge": header("WWW-Authenticate", lambda value: "bearer" in value.lower()),
    },
    last=True,
)


@check("authentication.wrong-token-open")
async def _(target: Target) -> None:
    """A wrong token is sent to the first reading skill that answers without one.

    Skips the check if each needs a token.
    """
    for skill_id in (each for each in READING_SKILLS if each in target.card.skills):
        if (await _without_token(target, skill_id)).status != UNAUTHORIZED:
            expect_status(await _with_authorization(target, f"Bearer {WRONG_TOKEN}", skill_id), UNAUTHORIZED)
            return
    raise Skipped("No reading skill answers without a token.")


@check("authentication.token-not-repeated", last=True)
async def _(target: Target) -> None:
    await _with_authorization(target, f"Bearer {WRONG_TOKEN}", target.reading_skills()[0])
    for exchange in target.posted:
        token = next((value for name, value in exchange.sent if name == "authorization"), "").removeprefix("Bearer ")
        text = exchange.body.decode("utf-8", "replace") + "".join(value for _, value in exchange.headers)
        expect(len(token) < LEAST or token not in text, "The response repeats the token of the request.", exchange)


@check("authentication.token-accepted", last=True)
async def _(target: Target) -> None:
    """A request of a skill is refused, and another one is answered after it: so the token has not expired.

    A request with a signature may be refused for the signature.
    """
    skip_unless(target.token, "The run has no token. Give one with --token.")
    answered: set[str] = set()
    for each in reversed(target.posted):
        skill = str(at(target.asked(each), "type"))
        has_token = ("authorization", f"Bearer {target.token}") in each.sent
        if has_token and skill != "None" and "signature-input" not in dict(each.sent):
            expect(each.status != UNAUTHORIZED or skill not in answered, "The token is refused at times.", each)
            answered |= set() if each.is_refusal else {skill}


@check("authentication.scheme-case")
async def _(target: Target) -> None:
    skip_unless(target.token, "The run has no token. Give one with --token.")
    exchange = await _with_authorization(target, f"bearer {target.token}")
    expect(not exchange.is_refusal, "The scheme in lower case is refused.", exchange)


# Where tokens come from


async def _challenged(target: Target) -> Exchange:
    """The refusal of a wrong token. Skips the check if it names no metadata."""
    exchange = await _with_authorization(target, f"Bearer {WRONG_TOKEN}", target.reading_skills()[0])
    skip_unless(_metadata_url(exchange), "No WWW-Authenticate names `resource_metadata`.")
    return exchange


def _metadata_url(exchange: Exchange) -> str | None:
    match = _METADATA.search(exchange.header("WWW-Authenticate") or "")
    return match and match[1]


async def _metadata(target: Target) -> Exchange:
    """The metadata that a refusal names. Skips the check if it is on another host: nothing else is asked."""
    url = _metadata_url(await _challenged(target))
    assert url is not None
    skip_unless(target.card.is_at_home(url), "The metadata is on another host than the card.")
    return await target.fetch(url)


async def _read_metadata(target: Target) -> dict[str, Any]:
    """The metadata. Skips the check without it: another check fails for that."""
    metadata = (await _metadata(target)).json
    return skip_unless(metadata if isinstance(metadata, dict) else None, "The metadata cannot be read.")


judge_each(
    {
        "authentication.invalid-token": (
            _challenged,
            header("WWW-Authenticate", lambda value: 'error="invalid_token"' in value),
        ),
        "authentication.metadata": (
            _metadata,
            status(200),
            lambda exchange: isinstance(exchange.json, dict) or "The metadata is not a JSON object.",
        ),
    }
)


@check("authentication.metadata-resource")
async def _(target: Target) -> None:
    """`resource` decides where the metadata must be (RFC 9728), and the endpoint of the agent must be below it."""
    url = _metadata_url(await _challenged(target)) or ""
    resource = (await _read_metadata(target)).get("resource")
    expect(forms.url(resource), f"`resource` is {resource!r}, not an absolute URL.")
    parts = urlsplit(str(resource).rstrip("/"))
    expected = parts._replace(path=PROTECTED_RESOURCE_PATH + parts.path).geturl()
    expect(url.rstrip("/") == expected, f"The metadata of {resource} must be at {expected}, and is at {url}.")
    covers = f"{target.interface.endpoint}/".startswith(f"{parts.geturl()}/")
    expect(covers, f"`resource` is {resource}, and {target.interface.endpoint} is not below it.")


@check("authentication.metadata-issuers")
async def _(target: Target) -> None:
    """Each issuer is an https URL without query and fragment (RFC 8414)."""
    servers = skip_unless((await _read_metadata(target)).get("authorization_servers"), "The metadata names no issuer.")
    for each in servers if isinstance(servers, list) else [servers]:
        good = forms.url(each) and str(each).startswith("https://") and not set(str(each)) & {"?", "#"}
        expect(good, f"`authorization_servers` has {each!r}.")


# What the card says


def _repeats_auth_type(card: FetchedCard) -> bool | str:
    expected = skip_unless(card.content.get("auth_type"), "The card has no `auth_type`.")
    types = [each["params"].get("auth_type") for each in profile_extensions(card)]
    return all(each == expected for each in types) or f"The params of the extensions have auth_type {types}."


def _defines_schemes(card: FetchedCard) -> bool | str:
    names = set(skip_unless(_schemes_of(card), "The card has no security requirement."))
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
    """The skills that refuse a request without a token are looked up on the card."""
    skills = target.reading_skills()
    guarded = [each for each in skills if (await _without_token(target, each)).status == UNAUTHORIZED]
    skip_unless(guarded, "No skill needs a token.")
    for skill_id in guarded:
        expect(_declares_token(target, skill_id), f"{skill_id} needs a token, and the card does not say so.")


@check("cards.security-declared-leads")
async def _(target: Target) -> None:
    # An agent that asks for a token does so before it looks at the lead, which has nothing.
    exchange = await _without_token(target, "lead.submit")
    skip_unless(exchange.status == UNAUTHORIZED, "A lead needs no token.")
    expect(_declares_token(target, "lead.submit"), "lead.submit needs a token, and the card does not say so.")


@check("cards.security-true")
async def _(target: Target) -> None:
    declared = [each for each in target.reading_skills() if _schemes_of(target.card, each)]
    await _expect_guarded(target, skip_unless(declared, "The card has no security requirement."))
