"""Verifies the signature of a request, with the profile of Web Bot Auth (docs/protocol.md#signed-requests). Pure.

`verify_request` needs only the head of a request. `check_body` and `check_coverage` follow when the body is there. So a
caller is known before a body is read.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from dealer_agent.http_signatures.content_digest import check_digest
from dealer_agent.http_signatures.errors import SignatureRefused
from dealer_agent.http_signatures.fields import Fields, parse_text
from dealer_agent.http_signatures.keys import PublicKey
from dealer_agent.http_signatures.origin import parse_origin
from dealer_agent.http_signatures.signature_base import Component, SignableRequest, signature_base

TAG = "web-bot-auth"
GRACE_SECONDS = 60.0
"""How far the clocks of two machines may differ."""
MAX_AGE_SECONDS = 300.0
"""A signature is accepted so long after `created`, if it does not expire before: replays are remembered so long."""
MAX_LIFE_SECONDS = 24 * 3600
"""The longest time from `created` to `expires` (the drafts recommend no more)."""
MAX_SIGNATURES = 8
MAX_PARAMETERS = 16
MAX_NONCE_LENGTH = 128
LEARN_KEYS_SECONDS = 60.0
"""A key that a directory does not have is wrong if the directory was fetched in this time. Before, it may be new."""

_THUMBPRINT = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)


class VerifiedRequest(NamedTuple):
    """A request that an agent has signed.

    `origin`: where the agent publishes its keys. `thumbprint`: that of the key. `accepted_until`: seconds since 1970;
    a nonce must be remembered so long. `content_digest`: the header, if the signature covers it. `covers_target`: it
    covers method and path.
    """

    origin: str
    thumbprint: str
    nonce: str | None
    accepted_until: float
    content_digest: str | None
    covers_target: bool


class UnknownKeys(NamedTuple):
    """A signature that cannot be verified yet: the keys of the origin, or this new key, must be fetched first."""

    origin: str


class KnownKeySet(Protocol):
    """The keys that an origin has published."""

    @property
    def keys(self) -> Mapping[str, PublicKey]:
        """The keys by thumbprint."""

    @property
    def fetched_at(self) -> float:
        """When they were fetched, in seconds since 1970."""


class _LabelledSignature(NamedTuple):
    label: str
    components: list[Component]
    parameters: Mapping[str, Any]
    signature: bytes


def verify_request(
    request: SignableRequest, now: float, find_keys: Callable[[str], KnownKeySet | None]
) -> VerifiedRequest | UnknownKeys | None:
    """The signer of a request. `now` is in seconds since 1970; `find_keys` finds the keys of an origin.

    Returns None for a request that has no signature with the tag of Web Bot Auth, or one that names no key directory.
    Raises SignatureRefused. Only the first such signature counts.
    """
    fields = Fields(request.headers)
    found = _find_signature(fields)
    origin = None if found is None else _find_origin(fields, found)
    if found is None or origin is None:
        return None
    covered = {name for name, parameters in found.components if not parameters}
    if not covered & {"@authority", "@target-uri"}:
        raise SignatureRefused(
            "not_covered", "The signature covers neither @authority nor @target-uri: cover @authority."
        )
    accepted_until = _check_times(found.parameters, now)
    keyid = _text(found.parameters, "keyid")
    if keyid is None or not _THUMBPRINT.fullmatch(keyid):
        raise SignatureRefused(
            "missing_parameter", "`keyid` is not the SHA-256 thumbprint of a JWK (RFC 7638): send it."
        )
    nonce = _text(found.parameters, "nonce")
    if nonce is not None and not 1 <= len(nonce) <= MAX_NONCE_LENGTH:
        raise SignatureRefused("too_large", f"`nonce` is empty or too long: send 1 to {MAX_NONCE_LENGTH} characters.")
    key_set = find_keys(origin)
    if key_set is None:
        return UnknownKeys(origin)
    key = key_set.keys.get(keyid)
    if key is None and key_set.fetched_at + LEARN_KEYS_SECONDS < now:
        return UnknownKeys(origin)
    if key is None or not key.is_valid_at(now):
        raise SignatureRefused(
            "unknown_key", f"The key directory of {origin} has no valid key `keyid`: publish it there."
        )
    check_algorithm(key, found.parameters)
    if not key.verifies(found.signature, signature_base(found.components, found.parameters, request, fields)):
        raise SignatureRefused(
            "wrong_signature",
            "The signature is not that of this request: sign exactly what is sent (RFC 9421, section 2.5).",
        )
    digest = fields.value("content-digest") if "content-digest" in covered else None
    covers_target = "@method" in covered and bool(covered & {"@path", "@target-uri", "@request-target"})
    return VerifiedRequest(origin, keyid, nonce, accepted_until, digest, covers_target)


def check_body(verified: VerifiedRequest, body: bytes) -> None:
    """Raises SignatureRefused if the signature covers a digest that is not that of the body."""
    if verified.content_digest is not None:
        check_digest(verified.content_digest, body)


def check_coverage(verified: VerifiedRequest) -> None:
    """Raises SignatureRefused if the signature does not cover a whole request, such as a lead. Call `check_body` too.

    The drafts only require that the authority is covered. An attacker who sees such a signature can send another lead
    with it. So for a lead it must cover method, path and the digest of the body, and have a nonce.
    """
    if verified.content_digest is None:
        raise SignatureRefused(
            "not_covered", "For this skill, the signature must cover content-digest (RFC 9530): add it."
        )
    if not verified.covers_target:
        raise SignatureRefused("not_covered", "For this skill, the signature must cover @method and @path: add them.")
    if verified.nonce is None:
        raise SignatureRefused(
            "missing_parameter", "For this skill, the signature must have the parameter `nonce`: add it."
        )


def check_algorithm(key: PublicKey, parameters: Mapping[str, Any]) -> None:
    """Raises SignatureRefused if the parameter `alg` is not the algorithm of the key."""
    if parameters.get("alg", key.algorithm) != key.algorithm:
        raise SignatureRefused(
            "wrong_algorithm", f"`alg` is not the algorithm of the key, {key.algorithm}: correct or omit it."
        )


def signatures_with_tag(fields: Fields, tag: str, limit: int) -> list[_LabelledSignature]:
    """The signatures of a message with a tag. Raises SignatureRefused, also if it has more than `limit` of any tag."""
    inputs = fields.dictionary("signature-input")
    if len(inputs) > limit:
        raise SignatureRefused("too_large", f"The message has more than {limit} signatures: send fewer.")
    found = []
    for label, (components, parameters) in inputs.items():
        if parameters.get("tag") != tag or type(parameters["tag"]) is not str:
            continue
        if not isinstance(components, list):
            raise _not_strings()
        longest = len(parameters)
        for name, of in components:
            if type(name) is not str:
                raise _not_strings()
            longest = max(longest, len(of)) if of else longest
        if longest > MAX_PARAMETERS:
            raise SignatureRefused("too_large", f"The signature has more than {MAX_PARAMETERS} parameters: send fewer.")
        signature = fields.dictionary("signature").get(label, (None, {}))[0]
        if not isinstance(signature, bytes):
            raise SignatureRefused(
                "malformed", f"The header signature has no bytes with the label `{label}`: add them."
            )
        found.append(_LabelledSignature(label, components, parameters, signature))
    return found


def _not_strings() -> SignatureRefused:
    return SignatureRefused("malformed", "A member of signature-input is not a list of strings: correct it.")


def _find_signature(fields: Fields) -> _LabelledSignature | None:
    """The first signature with the tag of Web Bot Auth. Raises SignatureRefused."""
    if TAG not in (fields.value("signature-input") or ""):
        return None  # Of another profile, in whatever form.
    return next(iter(signatures_with_tag(fields, TAG, MAX_SIGNATURES)), None)


def _find_origin(fields: Fields, found: _LabelledSignature) -> str | None:
    """The origin of the key directory of a signature: of the member of signature-agent that it covers.

    None without the header, and for members of other types than `directory`, which the drafts say to ignore. Raises
    SignatureRefused.
    """
    value = fields.value("signature-agent")
    if value is None:
        return None
    covered = [parameters.get("key") for name, parameters in found.components if name == "signature-agent"]
    if value.startswith('"'):
        if None not in covered:
            raise _agent_not_covered('"signature-agent"')
        return parse_origin(parse_text("signature-agent", value))
    members = fields.dictionary("signature-agent")
    # The current draft covers a member. Older signers cover the whole field.
    names = [*members] if covered == [None] else [name for name in covered if isinstance(name, str)]
    if not names:
        raise _agent_not_covered(f'"signature-agent";key="{found.label}"')
    name = found.label if found.label in names else names[0]
    if name not in members or (name != found.label and len(names) > 1):
        raise _agent_not_covered(f'"signature-agent";key="{found.label}"')
    agent, parameters = members[name]
    if type(agent) is not str:
        raise SignatureRefused(
            "malformed", "A member of signature-agent is not a string: send the https origin in quotes."
        )
    return parse_origin(agent) if str(parameters.get("type", "directory")) == "directory" else None


def _agent_not_covered(component: str) -> SignatureRefused:
    return SignatureRefused("not_covered", f"The signature must cover {component}: add it.")


def _check_times(parameters: Mapping[str, Any], now: float) -> float:
    """Until when the signature is accepted. Raises SignatureRefused."""
    created, expires = parameters.get("created"), parameters.get("expires")
    if type(created) is not int or type(expires) is not int:
        raise SignatureRefused(
            "missing_parameter", "The signature must have `created` and `expires` in seconds: add them."
        )
    if expires - created > MAX_LIFE_SECONDS:
        raise SignatureRefused(
            "too_long", "The signature is valid for more than 24 hours: sign each request when it is sent."
        )
    if now < created - GRACE_SECONDS:
        raise SignatureRefused("too_early", "`created` is in the future: check the clock of the machine that signs.")
    until = min(expires, created + MAX_AGE_SECONDS) + GRACE_SECONDS
    if expires <= created or now > until:
        raise SignatureRefused(
            "expired",
            f"The signature has expired, or is older than {MAX_AGE_SECONDS:.0f} seconds: sign the request again.",
        )
    return until


def _text(parameters: Mapping[str, Any], name: str) -> str | None:
    value = parameters.get(name)
    if value is not None and type(value) is not str:
        raise SignatureRefused("malformed", f"The parameter `{name}` of the signature is not a string: correct it.")
    return value
