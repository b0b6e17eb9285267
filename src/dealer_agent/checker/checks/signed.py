"""Checks how the agent treats signed requests: what it refuses, and that it answers others.

Nothing on a card says that an agent verifies signatures. It shows that by refusing one that is wrong in a way that
needs no keys. Whether it knows the keys of the run (`--sign`) shows in the same way.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from weakref import WeakSet

import httpx

from dealer_agent.checker.check import check, check_each
from dealer_agent.checker.checks.lead_defects import lead
from dealer_agent.checker.exchange import Exchange
from dealer_agent.checker.outcome import Failed, Skipped, conclude, expect, skip_unless
from dealer_agent.checker.reply import is_answered
from dealer_agent.checker.target import JSON_HEADERS, Target
from dealer_agent.checker.wire import TargetConnection
from dealer_agent.client.signing import Signer

STRANGER = "https://agent.invalid"
"""The origin of an agent whose keys nobody can fetch (RFC 2606)."""
UNAUTHORIZED = 401
TRIES = 10
PAUSE_SECONDS = 0.5
"""An agent may fetch the keys of the run in the background: it is asked so often, with this pause."""

_FIELDS = ("signature-agent", "content-digest", "signature-input", "signature")
Signed = dict[str, str]
Probe = Callable[[Target], Awaitable[Exchange]]


@cache
def _stranger() -> Signer:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from dealer_agent.http_signatures.keys import private_key_of

    return Signer(private_key_of(Ed25519PrivateKey.generate()), STRANGER)


def _signed(target: Target, signer: Signer, content: bytes, shift: float = 0.0) -> Signed:
    """The fields of the signature of a message. `shift`: how many seconds after now it is made."""
    request = httpx.Request("POST", target.interface.endpoint, content=content)
    signer.sign(request, shift=shift)
    return {name: request.headers[name] for name in _FIELDS if name in request.headers}


def _content(target: Target) -> bytes:
    return target.body(target.message(target.payload(target.reading_skills()[0])))


async def _post(target: Target, content: bytes, fields: Mapping[str, str]) -> Exchange:
    return await target.post(content, (*JSON_HEADERS, *fields.items()), fresh=True)


def _signer(target: Target) -> Signer:
    """The signer of the run. Skips the check without one."""
    return skip_unless(target.signer, "The run has no key. Give one with --sign, whose directory the agent can fetch.")


# Signatures that are wrong without a look at keys


async def _expired(target: Target) -> Exchange:
    content = _content(target)
    return await _post(target, content, _signed(target, _stranger(), content, -3600))


async def _early(target: Target) -> Exchange:
    content = _content(target)
    return await _post(target, content, _signed(target, _stranger(), content, 3600))


async def _without_authority(target: Target) -> Exchange:
    content = _content(target)
    fields = _signed(target, _stranger(), content)
    covered = fields["signature-input"].replace('"@authority" ', "")
    return await _post(target, content, fields | {"signature-input": covered})


async def _malformed(target: Target) -> Exchange:
    content = _content(target)
    fields = _signed(target, _stranger(), content)
    return await _post(target, content, fields | {"signature-input": fields["signature-input"].replace("(", "((")})


# Signatures of the run


async def _wrong(target: Target) -> Exchange:
    content, signer = _content(target), _signer(target)
    return await _post(
        target, content, _signed(target, signer, content) | {"signature": _signed(target, signer, content)["signature"]}
    )


async def _replayed(target: Target) -> Exchange:
    content = _content(target)
    fields = _signed(target, _signer(target), content)
    await _post(target, content, fields)
    return await _post(target, content, fields)


async def _other_body(target: Target) -> Exchange:
    content = _content(target)
    return await _post(target, content, _signed(target, _signer(target), content + b" "))


async def _lead_of_other_body(target: Target) -> Exchange:
    content = target.body(target.message(lead(target, person="signed")))
    return await _post(target, content, _signed(target, _signer(target), content + b" "))


async def _lead_without_digest(target: Target) -> Exchange:
    content = target.body(target.message(lead(target, person="signed")))
    return await _post(target, content, _signed(target, _signer(target), b""))


# By requirement, the request with a wrong signature that an agent can refuse without the keys of the signer.
WITHOUT_KEYS: dict[str, Probe] = {
    "signed.malformed": _malformed,
    "signed.expired": _expired,
    "signed.early": _early,
    "signed.authority": _without_authority,
}
# By requirement, the request with a wrong signature that an agent can refuse only with the keys.
WITH_KEYS: dict[str, Probe] = {
    "signed.wrong": _wrong,
    "signed.replayed": _replayed,
    "signed.body": _other_body,
}
# As WITH_KEYS, for requests with a lead.
OF_LEADS: dict[str, Probe] = {
    "signed.lead-body": _lead_of_other_body,
    "signed.lead-digest": _lead_without_digest,
}


_gave_up: WeakSet[TargetConnection] = WeakSet()
"""The runs in which the agent did not learn the keys: the next check does not wait."""


async def _require_answer(target: Target) -> None:
    """Skips the check if the agent refuses the request without a signature: then no refusal shows anything."""
    exchange = await target.post(_content(target), without_token=not target.token)
    skip_unless(is_answered(exchange), "The agent refuses the request without a signature. It may need --token.")


async def _refuses_another(target: Target, other_probes: list[Probe]) -> bool:
    """Whether the agent refuses another wrong signature."""
    for each in other_probes:
        if (await each(target)).status == UNAUTHORIZED:
            return True
    return False


async def _expect_refusal(target: Target, probe: Probe, other_probes: list[Probe], tries: int, reason: str) -> None:
    """Raises Failed if the agent refuses another probe, and not this one. Skips the check if it refuses none.

    Tries up to `tries` times, because the agent may fetch the keys of the signer in the background.
    """
    await _require_answer(target)
    for number in range(1 if target.wire in _gave_up else tries):
        if number:
            await asyncio.sleep(PAUSE_SECONDS)
        if (await probe(target)).status == UNAUTHORIZED:
            return
        if await _refuses_another(target, other_probes):
            # The agent may have fetched the keys after the first request.
            exchange = await probe(target)
            if exchange.status == UNAUTHORIZED:
                return
            raise Failed(f"The status is {exchange.status}, not {UNAUTHORIZED}.", exchange)
    if tries > 1:
        _gave_up.add(target.wire)
    raise Skipped(reason)


@check_each({each: each for each in WITHOUT_KEYS})
async def _(target: Target, name: str) -> None:
    """The signature is wrong in one way.

    If the agent also accepts all others, it does not look at signatures, and the check is skipped.
    """
    others = [probe for each, probe in WITHOUT_KEYS.items() if each != name]
    await _expect_refusal(target, WITHOUT_KEYS[name], others, 1, "The agent does not look at signatures of requests.")


@check_each({each: each for each in (*WITH_KEYS, *OF_LEADS)})
async def _(target: Target, name: str) -> None:
    """The signature is wrong in a way that an agent sees only with the keys of the signer.

    It may have to fetch these first.
    """
    probe = (WITH_KEYS | OF_LEADS)[name]
    others = [other for each, other in WITH_KEYS.items() if each != name]
    origin = _signer(target).origin
    reason = (
        f"The agent does not know the keys of {origin}: no wrong signature is refused. Test them with "
        f"dealer-agent keys directory --check {origin}."
    )
    if name in OF_LEADS:
        # No lead is sent before the agent knows the keys: it would store it.
        await _expect_refusal(target, _wrong, others, TRIES, reason)
        exchange = await probe(target)
        expect(exchange.status == UNAUTHORIZED, f"The status is {exchange.status}, not {UNAUTHORIZED}.", exchange)
        return
    await _expect_refusal(target, probe, others, TRIES, reason)


@check("signed.failure")
async def _(target: Target) -> None:
    exchange = await _malformed(target)
    conclude(exchange.status < 500 or f"The status is {exchange.status}.", exchange)


@check("signed.stranger")
async def _(target: Target) -> None:
    """An agent that refuses the request may look at signatures or not. Only the former is wrong here."""
    await _require_answer(target)
    content = _content(target)
    exchange = await _post(target, content, _signed(target, _stranger(), content))
    if not is_answered(exchange):
        skip_unless(
            await _refuses_another(target, [*WITHOUT_KEYS.values()]),
            "The agent does not look at signatures of requests.",
        )
        raise Failed(f"The request is refused with HTTP {exchange.status}.", exchange)


@check("signed.answered")
async def _(target: Target) -> None:
    """The same request is sent without a signature before. If it is refused, the check is skipped."""
    signer, content = _signer(target), _content(target)
    await _require_answer(target)
    exchange = await _post(target, content, _signed(target, signer, content))
    expect(is_answered(exchange), f"The signed request is refused with HTTP {exchange.status}.", exchange)
