"""Tokens: who gets an answer without one, and what a refusal looks like."""

from typing import Any

from dealer_agent.checker.check import Skipped, check, expect
from dealer_agent.checker.exchange import Exchange, Headers
from dealer_agent.checker.target import JSON_HEADERS, Target

READING_SKILLS = ("dealer.information", "inventory.facets", "inventory.search")
"""Skills that answer a request without any input."""
WRONG_TOKEN = "not-a-token-0123456789"  # noqa: S105 - it is wrong on purpose.
UNAUTHORIZED = 401


def names_of(requirements: Any) -> list[str]:
    """The schemes that security requirements of a card name, in the form of A2A v1.0 or the older one."""
    names = []
    for each in requirements if isinstance(requirements, list) else []:
        schemes = each.get("schemes", each) if isinstance(each, dict) else {}
        names += list(schemes) if isinstance(schemes, dict) else []
    return names


def declares_token(target: Target, skill_id: str) -> bool:
    """Whether the card says that a skill needs a token."""
    card = target.card
    skills = card.member("skills")
    entries = [each for each in skills if isinstance(each, dict)] if isinstance(skills, list) else []
    own = [card.member("securityRequirements", each) for each in entries if each.get("id") == skill_id]
    return card.needs_token or any(names_of(each) for each in own)


async def without_token(target: Target, skill_id: str, *headers: tuple[str, str], **members: Any) -> Exchange:
    """The exchange of a request without the token of the run, with further headers."""
    sent: Headers = (*JSON_HEADERS, *headers)
    return await target.send(target.payload(skill_id, **members), sent, without_token=True)


def is_refused(exchange: Exchange) -> bool:
    """Whether a request got an error of any kind."""
    return exchange.status >= 400 or (isinstance(exchange.json, dict) and "error" in exchange.json)


async def guarded_skill(target: Target) -> str:
    """A reading skill that needs a token, as the card or the agent says. Skips the check if there is none."""
    offered = [each for each in READING_SKILLS if each in target.card.skills]
    for skill_id in offered:
        if declares_token(target, skill_id) or (await without_token(target, skill_id)).status == UNAUTHORIZED:
            return skill_id
    raise Skipped("No reading skill needs a token.")


async def _refused_without(target: Target) -> Exchange:
    exchange = await without_token(target, await guarded_skill(target))
    if not is_refused(exchange):
        raise Skipped("The agent answers without a token.")
    return exchange


@check("authentication.missing")
async def missing_tokens_have_401(target: Target) -> None:
    """Sends no token."""
    exchange = await _refused_without(target)
    expect(exchange.status == UNAUTHORIZED, f"The status is {exchange.status}, not 401.", exchange)


@check("authentication.missing-code")
async def missing_tokens_have_a_code(target: Target) -> None:
    """Sends no token."""
    error = target.refusal(await _refused_without(target))
    expect(error.code == "AUTH_REQUIRED", f"The code is {error.code or 'absent'}, not AUTH_REQUIRED.", error.exchange)


@check("authentication.challenge")
async def refusals_name_the_scheme(target: Target) -> None:
    """Sends no token."""
    exchange = await _refused_without(target)
    challenge = exchange.header("www-authenticate") or ""
    expect("bearer" in challenge.lower(), "The response has no header WWW-Authenticate with Bearer.", exchange)


@check("authentication.before-payload")
async def the_token_is_checked_before_the_payload(target: Target) -> None:
    """Sends a wrong payload without a token."""
    skill_id = await guarded_skill(target)
    if (await without_token(target, skill_id)).status != UNAUTHORIZED:
        raise Skipped("A request without a token does not get HTTP 401.")
    exchange = await without_token(target, skill_id, no_such_member=1)
    expect(exchange.status == UNAUTHORIZED, f"A wrong payload gets HTTP {exchange.status}, not 401.", exchange)


@check("authentication.wrong-scheme")
async def other_schemes_are_refused(target: Target) -> None:
    """Sends a name and a password."""
    await _refused_without(target)
    skill_id = await guarded_skill(target)
    exchange = await without_token(target, skill_id, ("Authorization", "Basic Y2hlY2tlcjpjaGVja2Vy"))
    expect(exchange.status == UNAUTHORIZED, f"Basic authentication gets HTTP {exchange.status}, not 401.", exchange)


async def _with_wrong_token(target: Target, skill_id: str) -> Exchange:
    return await without_token(target, skill_id, ("Authorization", f"Bearer {WRONG_TOKEN}"))


@check("authentication.wrong-token")
async def wrong_tokens_are_refused(target: Target) -> None:
    """Sends a token that does not exist."""
    await _refused_without(target)
    exchange = await _with_wrong_token(target, await guarded_skill(target))
    expect(exchange.status == UNAUTHORIZED, f"A wrong token gets HTTP {exchange.status}, not 401.", exchange)


@check("authentication.wrong-token-open")
async def wrong_tokens_are_refused_everywhere(target: Target) -> None:
    """Sends a token that does not exist for a skill that needs none."""
    for skill_id in READING_SKILLS:
        if skill_id not in target.card.skills or (await without_token(target, skill_id)).status == UNAUTHORIZED:
            continue
        exchange = await _with_wrong_token(target, skill_id)
        expect(exchange.status == UNAUTHORIZED, f"A wrong token gets HTTP {exchange.status}, not 401.", exchange)
        return
    raise Skipped("No reading skill answers without a token.")


@check("authentication.token-not-repeated")
async def tokens_are_not_repeated(target: Target) -> None:
    """Looks for a wrong token in the response."""
    offered = [each for each in READING_SKILLS if each in target.card.skills]
    if not offered:
        raise Skipped("The card offers no skill that needs no input.")
    exchange = await _with_wrong_token(target, offered[0])
    text = exchange.body.decode("utf-8", "replace") + "".join(value for _, value in exchange.headers)
    expect(WRONG_TOKEN not in text, "The response repeats the token of the request.", exchange)


def _own_token(target: Target) -> str:
    if not target.token:
        raise Skipped("The run has no token. Give one with --token.")
    return target.token


@check("authentication.scheme-case")
async def the_case_of_the_scheme_does_not_matter(target: Target) -> None:
    """Sends the token of the run as `bearer`."""
    token = _own_token(target)
    exchange = await without_token(target, await guarded_skill(target), ("Authorization", f"bearer {token}"))
    expect(not is_refused(exchange), "The scheme in lower case is refused.", exchange)
