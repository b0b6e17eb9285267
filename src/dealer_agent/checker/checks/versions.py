"""A2A's headers: the version of the protocol, and the extensions that a request names."""

from dealer_agent.checker.check import CheckFunction, check, each_of
from dealer_agent.checker.exchange import Exchange, Headers
from dealer_agent.checker.outcome import expect, skip_if_failed
from dealer_agent.checker.target import Refusal, Target

VERSION, EXTENSIONS = "A2A-Version", "A2A-Extensions"
UNKNOWN_VERSION = "99.0"
UNKNOWN_EXTENSION = "https://extension.example/never-published/v7"


async def _send(target: Target, version: str = "1.0", extensions: str | None = None) -> Exchange:
    """The exchange of a request that every agent can answer. An empty value leaves a header out."""
    found = [("Content-Type", "application/json"), ("Accept", "application/json"), (VERSION, version)]
    if extensions is not None:
        found.append((EXTENSIONS, extensions))
    # `Target.request` adds what the revision requires and is absent, and removes what is empty.
    sent: Headers = found if target.revision.needs_version_header else [each for each in found if each[1]]
    return await target.send(target.payload(target.reading_skills()[0]), sent)


async def _send_with_query(target: Target, version: str) -> Exchange:
    content = target.body(target.message(target.payload("dealer.information")))
    sent: Headers = [("Content-Type", "application/json"), ("Accept", "application/json"), (VERSION, "")]
    if not target.revision.needs_version_header:
        sent = sent[:2]
    return await target.request("POST", f"{target.interface.endpoint}?{VERSION}={version}", content, sent)


def _answered(version: str) -> CheckFunction:
    async def run(target: Target) -> None:
        target.reply_message(await _send(target, version))

    return run


def _refused(version: str) -> CheckFunction:
    async def run(target: Target) -> None:
        target.refusal(await _send(target, version))

    return run


def _refused_with(number: int, version: str = "1.0", extensions: str | None = None) -> CheckFunction:
    async def run(target: Target) -> None:
        error = target.refusal(await _send(target, version, extensions))
        expect(error.number == number, f"`error.code` is {error.number!r}, not {number}.", error.exchange)

    return run


check("versions.absent")(_answered(""))
check("versions.later-minor")(_answered("1.7"))
check("versions.unknown")(_refused(UNKNOWN_VERSION))
check("versions.legacy")(_refused("0.3"))
check("versions.absent-next")(_refused_with(-32009, version=""))
check("versions.extension-absent-next")(_refused_with(-32008, extensions=""))


async def _refusal_of_version(target: Target) -> list[tuple[Refusal, Exchange]]:
    """The error of an unknown version. Skips the check if the request is answered: another check fails for that."""
    with skip_if_failed():
        error = target.refusal(await _send(target, UNKNOWN_VERSION))
    return [(error, error.exchange)]


each_of(
    _refusal_of_version,
    {
        "versions.unknown-status": lambda error: error.status == 400 or f"The status is {error.status}, not 400.",
        "versions.unknown-number": lambda error: (
            error.number == -32009 or f"`error.code` is {error.number!r}, not -32009."
        ),
        "versions.unknown-reason": lambda error: (
            error.info.get("reason") == "VERSION_NOT_SUPPORTED"
            or f"`reason` is {error.info.get('reason')!r}, not VERSION_NOT_SUPPORTED."
        ),
    },
)


@check("versions.query")
async def _(target: Target) -> None:
    target.refusal(await _send_with_query(target, UNKNOWN_VERSION))


@check("versions.query-current")
async def _(target: Target) -> None:
    target.reply_message(await _send_with_query(target, "1.0"))


@check("versions.extension-unknown-echo")
async def _(target: Target) -> None:
    exchange = await _send(target, extensions=UNKNOWN_EXTENSION)
    named = [uri.strip() for value in exchange.all_headers(EXTENSIONS) for uri in value.split(",")]
    expect(UNKNOWN_EXTENSION not in named, "The reply names an extension that it cannot know.", exchange)
