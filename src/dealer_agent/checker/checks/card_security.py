"""What a card says about tokens, and whether it is true."""

from dealer_agent.checker.check import Skipped, check, expect
from dealer_agent.checker.checks.authentication import (
    READING_SKILLS,
    UNAUTHORIZED,
    declares_token,
    is_refused,
    names_of,
    without_token,
)
from dealer_agent.checker.checks.cards import objects, profile_extensions
from dealer_agent.checker.target import Target


def _offered(target: Target) -> list[str]:
    found = [each for each in READING_SKILLS if each in target.card.skills]
    if not found:
        raise Skipped("The card offers no skill that needs no input.")
    return found


@check("cards.auth-type")
async def auth_type_is_declared(target: Target) -> None:
    """Looks at the card."""
    found = target.card.content.get("auth_type")
    expect(isinstance(found, str) and found, "The card has no `auth_type`.", target.card.exchange)


@check("cards.auth-type-params")
async def auth_type_is_repeated(target: Target) -> None:
    """Looks at the extensions."""
    expected = target.card.content.get("auth_type")
    if expected is None:
        raise Skipped("The card has no `auth_type`.")
    for each in profile_extensions(target.card):
        found = each["params"].get("auth_type")
        expect(found == expected, f"The params of {each['uri']} have auth_type {found!r}.", target.card.exchange)


@check("cards.auth-type-bearer")
async def bearer_is_required(target: Target) -> None:
    """Sends requests without a token."""
    if target.card.content.get("auth_type") != "bearer":
        raise Skipped("`auth_type` is not bearer.")
    for skill_id in _offered(target):
        exchange = await without_token(target, skill_id)
        expect(is_refused(exchange), f"{skill_id} answers without a token.", exchange)


@check("cards.auth-type-none")
async def no_token_is_needed(target: Target) -> None:
    """Sends requests without a token."""
    if target.card.content.get("auth_type") in ("bearer", None):
        raise Skipped("`auth_type` is bearer, or absent.")
    exchanges = [await without_token(target, skill_id) for skill_id in _offered(target)]
    expect(any(each.status != UNAUTHORIZED for each in exchanges), "Every skill needs a token.", exchanges[0])


@check("cards.security-declared")
async def needed_tokens_are_declared(target: Target) -> None:
    """Sends requests without a token."""
    guarded = [each for each in _offered(target) if (await without_token(target, each)).status == UNAUTHORIZED]
    if not guarded:
        raise Skipped("No skill needs a token.")
    for skill_id in guarded:
        expect(declares_token(target, skill_id), f"{skill_id} needs a token, and the card does not say so.", target)


@check("cards.security-true")
async def declared_tokens_are_needed(target: Target) -> None:
    """Sends requests without a token for skills with a security requirement."""
    declared = [each for each in _offered(target) if _has_requirement(target, each)]
    if not declared:
        raise Skipped("The card has no security requirement.")
    for skill_id in declared:
        exchange = await without_token(target, skill_id)
        expect(is_refused(exchange), f"{skill_id} answers without the token that the card requires.", exchange)


def _has_requirement(target: Target, skill_id: str) -> bool:
    card = target.card
    own = [each for each in objects(card.member("skills")) if each.get("id") == skill_id]
    return bool(
        names_of(card.member("securityRequirements"))
        or any(names_of(card.member("securityRequirements", each)) for each in own)
    )


@check("cards.security-schemes")
async def required_schemes_are_defined(target: Target) -> None:
    """Compares requirements with schemes."""
    card = target.card
    names = names_of(card.member("securityRequirements"))
    for each in objects(card.member("skills")):
        names += names_of(card.member("securityRequirements", each))
    if not names:
        raise Skipped("The card has no security requirement.")
    schemes = card.member("securitySchemes")
    missing = set(names) - set(schemes if isinstance(schemes, dict) else {})
    expect(not missing, f"The card does not define the scheme {', '.join(sorted(missing))}.", card.exchange)
