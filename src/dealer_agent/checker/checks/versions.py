"""A2A's headers: the version of the protocol, and the extensions that a request names."""

from dealer_agent.checker.check import Failed, Skipped, check, expect
from dealer_agent.checker.exchange import Exchange, Headers
from dealer_agent.checker.target import Refusal, Target

VERSION, EXTENSIONS = "A2A-Version", "A2A-Extensions"
UNKNOWN_VERSION = "99.0"
UNKNOWN_EXTENSION = "https://extension.example/never-published/v7"


def headers(target: Target, *, version: str = "1.0", extensions: str | None = None) -> Headers:
    """The headers of a request. An empty value leaves a header out, also where the revision requires it."""
    found = [("Content-Type", "application/json"), ("Accept", "application/json"), (VERSION, version)]
    if extensions is not None:
        found.append((EXTENSIONS, extensions))
    if target.revision.needs_version_header:
        # `Target.request` adds what is absent, and removes what is empty.
        return tuple(found)
    return tuple(each for each in found if each[1])


async def _send(target: Target, sent: Headers) -> Exchange:
    """The exchange of a request that every agent can answer, with these headers."""
    for skill_id in ("dealer.information", "inventory.facets", "inventory.search"):
        if skill_id in target.card.skills:
            return await target.send(target.payload(skill_id), sent)
    raise Skipped("The card offers no skill that needs no input.")


async def _is_answered(target: Target, sent: Headers) -> None:
    target.reply_message(await _send(target, sent))


async def _refusal_of_version(target: Target) -> Refusal:
    """The error of an unknown version. Skips the check if the request is answered: another check fails for that."""
    exchange = await _send(target, headers(target, version=UNKNOWN_VERSION))
    try:
        return target.refusal(exchange)
    except Failed as answered:
        raise Skipped(answered.sentence) from None


@check("versions.absent")
async def no_version_is_answered(target: Target) -> None:
    """Sends no version."""
    await _is_answered(target, headers(target, version=""))


@check("versions.later-minor")
async def later_minor_versions_are_answered(target: Target) -> None:
    """Names a version that does not exist yet."""
    await _is_answered(target, headers(target, version="1.7"))


@check("versions.unknown")
async def unknown_versions_are_refused(target: Target) -> None:
    """Names a version that will not exist soon."""
    target.refusal(await _send(target, headers(target, version=UNKNOWN_VERSION)))


@check("versions.unknown-status")
async def the_refusal_has_400(target: Target) -> None:
    """Looks at the refusal of an unknown version."""
    error = await _refusal_of_version(target)
    expect(error.status == 400, f"The status is {error.status}, not 400.", error.exchange)


@check("versions.unknown-number")
async def the_refusal_has_its_number(target: Target) -> None:
    """Looks at the refusal of an unknown version."""
    error = await _refusal_of_version(target)
    expect(error.number == -32009, f"`error.code` is {error.number!r}, not -32009.", error.exchange)


@check("versions.unknown-reason")
async def the_refusal_has_the_reason_of_a2a(target: Target) -> None:
    """Looks at the refusal of an unknown version."""
    error = await _refusal_of_version(target)
    reason = error.info.get("reason")
    expect(reason == "VERSION_NOT_SUPPORTED", f"`reason` is {reason!r}, not VERSION_NOT_SUPPORTED.", error.exchange)


@check("versions.legacy")
async def legacy_versions_are_refused(target: Target) -> None:
    """Names the version of the legacy form."""
    target.refusal(await _send(target, headers(target, version="0.3")))


@check("versions.query")
async def the_version_may_be_a_query_parameter(target: Target) -> None:
    """Names an unknown version in the query."""
    target.refusal(await _send_with_query(target, UNKNOWN_VERSION))


@check("versions.query-current")
async def version_1_0_may_be_a_query_parameter(target: Target) -> None:
    """Names the current version in the query."""
    target.reply_message(await _send_with_query(target, "1.0"))


async def _send_with_query(target: Target, version: str) -> Exchange:
    if "dealer.information" not in target.card.skills:
        raise Skipped("The card does not offer dealer.information.")
    content = target.body(target.message(target.payload("dealer.information")))
    url = f"{target.interface.endpoint}?{VERSION}={version}"
    return await target.request("POST", url, content, headers(target, version=""))


def _named(exchange: Exchange) -> list[str]:
    """The URIs in the header of a response."""
    return [uri.strip() for value in exchange.all_headers(EXTENSIONS) for uri in value.split(",")]


@check("versions.extension-unknown-echo")
async def unknown_extensions_are_not_named(target: Target) -> None:
    """Looks at the reply to an unknown extension."""
    exchange = await _send(target, headers(target, extensions=UNKNOWN_EXTENSION))
    expect(UNKNOWN_EXTENSION not in _named(exchange), "The reply names an extension that it cannot know.", exchange)


@check("versions.absent-next")
async def the_next_version_needs_the_version(target: Target) -> None:
    """Sends no version."""
    error = target.refusal(await _send(target, headers(target, version="")))
    expect(error.number == -32009, f"`error.code` is {error.number!r}, not -32009.", error.exchange)


@check("versions.extension-absent-next")
async def the_next_version_needs_its_extension(target: Target) -> None:
    """Names no extension."""
    error = target.refusal(await _send(target, headers(target, extensions="")))
    expect(error.number == -32008, f"`error.code` is {error.number!r}, not -32008.", error.exchange)
