"""READ FIRST: checks a request to a skill: all checks, and their order (docs/protocol.md#order-of-checks).

A guard is one function. It checks one thing, and raises ProtocolError to refuse the request. `HEAD_GUARDS`,
`BODY_GUARDS` and `REQUEST_GUARDS` at the end of this module are the order. Between them, a request over ASGI waits for
its body, and then for its turn in the queue of the process. The fast path waits for nothing and calls
`pass_all_guards`. Consent and business rules come last: they are checked in the transaction that stores a lead
(`lead_intake`).

If machines share their rate limits, a guard only notes what it counts. `pass_guards` then waits for the shared store.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass, field
from datetime import UTC, datetime
from time import perf_counter, time
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote_plus

from starlette.types import Scope

from dealer_agent.callers import ANONYMOUS, Caller, Policy, signed
from dealer_agent.callers.access_token import TokenRefused
from dealer_agent.callers.policy import ALLOWED, LEADS_A_DAY
from dealer_agent.http_signatures import signature_base
from dealer_agent.http_signatures.errors import SignatureRefused
from dealer_agent.http_signatures.web_bot_auth import VerifiedRequest, check_body, check_coverage
from dealer_agent.protocol.envelope import LEAD, Request
from dealer_agent.protocol.errors import AuthRequired, Forbidden, ProtocolError, UnsupportedSkill, VersionNotSupported
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.protocol.offers import OFFERS_EXTENSION
from dealer_agent.protocol.problems import Problem, validation_error
from dealer_agent.protocol.skill import Skill
from dealer_agent.protocol.task_list import TaskPage
from dealer_agent.protocol.version_errors import extension_not_named
from dealer_agent.protocol.version_payloads import version_error
from dealer_agent.protocol.vocabulary import Vocabulary, bare_media_type
from dealer_agent.server.bindings import Binding
from dealer_agent.server.body import JSON, cost_of, not_a_lead, too_large, wrong_media_type
from dealer_agent.server.client_address import client_address
from dealer_agent.server.error_responses import NOT_VALID_HERE
from dealer_agent.server.limits import ADDRESS_RULE, KNOWN_CLIENT
from dealer_agent.server.log import LONGEST_CALLER, RequestLine
from dealer_agent.server.named_extensions import named_extensions
from dealer_agent.server.nonces import FileNonces, StoredNonces, key_of
from dealer_agent.server.service import BAD_TOKENS_RULE, MALFORMED_LEADS_RULE, Service
from dealer_agent.server.signers import find_signer, replayed
from dealer_agent.server.tokens import PREFIX, bearer_token

if TYPE_CHECKING:
    # Only with the extra `traces`.
    from dealer_agent.server.traces import Span

A2A_JSON = "application/a2a+json"
_SUPPORTED_VERSION = re.compile(r"1(\.[0-9]+)+", re.ASCII)
# The first parameter of this name counts. parse_qs would take 20 ms for a long query.
_VERSION_IN_QUERY = re.compile(rb"(?:^|&)A2A-Version=([^&]*)")


class Count(NamedTuple):
    """One count of a request against a rate: the rule, the client and the cost. Only if `refuses`, it may refuse the
    request.
    """

    rule: str
    client: str
    cost: int
    refuses: bool


class _GuardDefaults:
    """What holds for a request until a guard finds out something else. It is not stored for each of them."""

    call_id: bytes = b"null"
    media_type: str = JSON
    decoded: tuple[bytes, Request | ProtocolError | TaskPage] | None = None
    uncounted: tuple[Count, ...] = ()
    span: "Span | None" = None
    caller: Caller = ANONYMOUS
    policy: Policy = ALLOWED
    counts_apart: bool = False
    signature: VerifiedRequest | None = None
    unchecked_nonce: bytes | None = None


@dataclass(eq=False)
class IncomingRequest(_GuardDefaults):
    """A request to a binding: what arrived, and what the guards have found out.

    `headers` have lower-case names. `fields` has the last header of each name. The ULID in `line` is the id of the
    response, of its error and of its log line. `counts_apart`: the rates count the caller, and not its IP address.
    `uncounted` and `unchecked_nonce` wait for what machines share. `span` is open if traces are on and `is_traced` is
    set. `path` is as it was sent. Only `/mcp` has another `method`. `signature` is that of the caller, if it signed.
    """

    binding: Binding
    service: Service
    headers: list[tuple[bytes, bytes]]
    fields: Mapping[bytes, bytes]
    peer: str | None
    path: bytes = b""
    query: bytes = b""
    method: str = "POST"
    is_traced: InitVar[bool] = True
    started: float = field(init=False)
    line: RequestLine = field(init=False)
    vocabulary: Vocabulary = field(init=False)
    address: str = field(init=False)
    body: bytes = field(init=False)
    cost: int = field(init=False)
    is_lead: bool = field(init=False)
    request: Request = field(init=False)

    def __post_init__(self, is_traced: bool) -> None:
        """Begins the log line and the span of the request, and finds the client's address."""
        self.started = self.service.used_at = perf_counter()
        self.line = RequestLine(new_ulid(), self.binding.name)
        self.vocabulary = self.service.vocabularies.default
        if is_traced and self.service.traces is not None:
            parent = self.fields.get(b"traceparent")
            self.span = self.service.traces.begin_request(self.binding.name, self.service.dealer_id, parent)
        self.address = client_address(self.peer, self.headers, self.service.settings.service.trusted_networks)

    @property
    def scope(self) -> Scope:
        """What an ASGI scope has of the client."""
        return {"client": None if self.peer is None else (self.peer, 0), "headers": self.headers}

    @property
    def signed_head(self) -> signature_base.SignableRequest:
        """What a signature of the request may cover. It is always sent to this service over TLS, but for tests."""
        authority = self.fields.get(b"host", b"").decode("latin-1").lower()
        scheme = "https" if self.service.settings.service.public_url.startswith("https") else "http"
        return signature_base.SignableRequest(
            self.method, authority, self.path.decode("latin-1"), self.query.decode("latin-1"), self.headers, scheme
        )

    @property
    def client(self) -> str:
        """The client that the rate of a skill counts: a known caller, or the IP address of one that anybody can be."""
        return f"{KNOWN_CLIENT}{self.caller.identity}" if self.counts_apart else self.address

    def count(self, rule: str, client: str, cost: int = 1, *, refuses: bool = True) -> None:
        """Counts the request against a rule (429), or notes it for the shared store."""
        if self.service.shared_limits is not None:
            self.uncounted += (Count(rule, client, cost, refuses),)
            return
        wait = self.service.limits_for(self.policy, rule).acquire(rule, client, cost)
        if wait is not None and refuses:
            raise self.service.process.too_many(rule, wait)


Guard = Callable[[IncomingRequest], None]


def check_declared_size(incoming: IncomingRequest) -> None:
    """Refuses a body whose declared size is over the limit of all skills (413)."""
    length = incoming.fields.get(b"content-length")
    size = int(length[:20]) if length is not None and length.isdigit() else 0
    limit = incoming.service.settings.service.largest_body_bytes
    if size > limit:
        _count_refused(incoming)
        raise too_large(f"must have at most {limit} bytes")
    incoming.cost = cost_of(size)


def check_media_type(incoming: IncomingRequest) -> None:
    """Refuses a media type other than JSON (415). The response has the media type of the request."""
    content_type = incoming.fields.get(b"content-type", b"")
    if content_type == b"application/json":
        return
    media_type = bare_media_type(content_type.decode("latin-1"))
    if media_type not in (JSON, A2A_JSON):
        _count_refused(incoming)
        raise wrong_media_type(f"must be {JSON} or {A2A_JSON}")
    incoming.media_type = media_type


def count_address(incoming: IncomingRequest) -> None:
    """Counts the request against the rate of its IP address (429)."""
    incoming.count(ADDRESS_RULE, incoming.address, incoming.cost)


def check_token(incoming: IncomingRequest) -> None:
    """Finds the caller. Refuses a wrong token (401).

    Requests with wrong tokens have a rate limit of their own for each IP address (429). So they do not use up the rate
    of other buyers with the same IP address.

    A token that begins with `dat_` is the dealer's own. No JSON Web Token begins so: its first bytes are an object.
    """
    service, authorization = incoming.service, incoming.fields.get(b"authorization")
    token = None if authorization is None else bearer_token(authorization.decode("latin-1"))
    if token is None:
        return
    words = NOT_VALID_HERE
    if service.settings.auth.issuers and not token.startswith(f"{PREFIX}_"):
        try:
            caller = service.access_tokens.caller_of(token, time())
        except TokenRefused as refused:
            caller, words = None, str(refused)
    else:
        caller = service.tokens.owner(token)
    if caller is None:
        incoming.count(BAD_TOKENS_RULE, incoming.address)
        raise AuthRequired.of_token(words)
    incoming.caller = caller


def check_signature(incoming: IncomingRequest) -> None:
    """Finds the caller by its signature (docs/protocol.md#signed-requests). Refuses a wrong one (401).

    Without its keys, a caller is anonymous, and they are fetched. A caller with a token too is that of the token.
    """
    if b"signature-input" not in incoming.fields:
        return
    try:
        verified = find_signer(incoming.service, incoming.signed_head, incoming.address)
        incoming.signature = verified
        if verified is None:
            return
        key = key_of(verified)
        nonces = incoming.service.process.nonces
        if isinstance(nonces, FileNonces):
            if key is not None and not nonces.remember(key):
                raise replayed()
        else:
            incoming.unchecked_nonce = key
    except SignatureRefused as refused:
        raise refuse_signature(incoming, refused) from None
    if not incoming.caller.is_known:
        incoming.caller = signed(verified.origin)


def refuse_signature(incoming: IncomingRequest, refused: SignatureRefused) -> AuthRequired:
    """Counts a wrong signature as a wrong token (429). Returns the error to raise, with a word for programs."""
    incoming.count(BAD_TOKENS_RULE, incoming.address)
    return AuthRequired(str(refused), {"reason": refused.reason})


def check_policy(incoming: IncomingRequest) -> None:
    """Finds the policy of the caller. Refuses a blocked one (403), and an anonymous one that may use no skill (401)."""
    service, caller = incoming.service, incoming.caller
    if not caller.is_known:
        if service.is_closed:
            raise AuthRequired("Send a token: Authorization: Bearer <ACCESS_TOKEN>.")
        incoming.policy = service.anonymous_policy
        return
    incoming.line.caller = caller.identity[:LONGEST_CALLER]
    incoming.policy, agent, _ = service.policies.source_of(caller.identity, caller.kind)
    # Anybody can have any number of origins: an origin counts apart once the dealer has said something about it.
    incoming.counts_apart = caller.kind != "signed" or agent == caller.identity
    if incoming.policy.is_blocked:
        raise Forbidden("This dealer has blocked this agent.")


def count_body(incoming: IncomingRequest) -> None:
    """Counts the size of a body whose request has no `Content-Length`, once it has been read (429)."""
    cost = cost_of(len(incoming.body)) - incoming.cost
    if cost > 0:
        incoming.count(ADDRESS_RULE, incoming.address, cost)


def check_digest(incoming: IncomingRequest) -> None:
    """Refuses a body that is not the one that the caller has signed (401).

    A request that `/mcp` makes has no headers of a signature: the signed body is that of the request to `/mcp`.
    """
    if incoming.signature is not None and b"signature-input" in incoming.fields:
        try:
            check_body(incoming.signature, incoming.body)
        except SignatureRefused as refused:
            raise refuse_signature(incoming, refused) from None


def check_size(incoming: IncomingRequest) -> None:
    """Notes whether the body is a lead, and refuses any other body above the limit of reading skills (413)."""
    settings, body = incoming.service.settings.service, incoming.body
    is_large = len(body) > settings.body_limit_bytes
    incoming.is_lead = (is_large or LEAD in body) and incoming.binding.names_a_lead(body)
    if is_large and not incoming.is_lead:
        raise not_a_lead(settings.body_limit_bytes, settings.lead_body_limit_kib * 1024)


def decode(incoming: IncomingRequest) -> None:
    """Decodes JSON, envelope and payload, unless the fast path has done so. From here on an error has the call's id."""
    if incoming.decoded is None:
        service = incoming.service
        incoming.decoded = incoming.binding.decode(
            incoming.body, service.vocabularies, service.settings.service.lenient_configuration
        )
    incoming.call_id, result = incoming.decoded
    incoming.vocabulary = result.vocabulary or incoming.vocabulary


def check_version(incoming: IncomingRequest) -> None:
    """Refuses versions of A2A other than 1.x, in the header or the query. A request may leave the version out."""
    sent = incoming.fields.get(b"a2a-version")
    if sent == b"1.0":
        return
    version = None if sent is None else sent.decode("latin-1")
    if sent is None and (parameter := _VERSION_IN_QUERY.search(incoming.query)):
        version = unquote_plus(parameter[1].decode("latin-1"))
    if version is not None and not _SUPPORTED_VERSION.fullmatch(version.strip()):
        raise _unsupported_version()


def check_activation(incoming: IncomingRequest) -> None:
    """Refuses a request to a published version without the headers that this version requires."""
    version = incoming.binding.version
    if version is None or not version.needs_headers:
        return
    if b"a2a-version" not in incoming.fields and not _VERSION_IN_QUERY.search(incoming.query):
        raise _unsupported_version()
    if version.extension_uri not in named_extensions(incoming.headers):
        raise extension_not_named(version)


def _unsupported_version() -> VersionNotSupported:
    return VersionNotSupported("This agent speaks A2A 1.0: send A2A-Version: 1.0.", {"supported": ["1.0"]})


def check_envelope(incoming: IncomingRequest) -> None:
    """Refuses a message with defects outside its payload. Raises TaskPage, the finished response, for ListTasks."""
    assert incoming.decoded is not None
    result = incoming.decoded[1]
    if isinstance(result, ProtocolError | TaskPage):
        raise result
    incoming.request, incoming.line.skill = result, result.skill.id


def check_tenant(incoming: IncomingRequest) -> None:
    """Refuses a tenant that is not the dealer at this host and path (docs/protocol.md#tenant)."""
    tenant, expected = incoming.request.tenant, incoming.service.tenant
    if tenant and expected is not None and tenant != expected:
        received = (tenant,) if isinstance(tenant, str) else None
        words = f"must be {expected!r}, the dealer at this address, or absent"
        raise validation_error([Problem(("tenant",), words, "const", received)], "envelope")


def check_skill(incoming: IncomingRequest) -> None:
    """Refuses a skill that the dealer has switched off."""
    skill_id = incoming.request.skill.id
    if skill_id not in incoming.service.settings.skills:
        details = {"in": "payload", "instancePath": "/type"}
        raise UnsupportedSkill(f"This dealer does not offer {skill_id}.", details)


def check_skill_caller(incoming: IncomingRequest) -> None:
    """Refuses an anonymous caller of a skill that is closed to such callers (401), and a known one without right (403).

    A signature must cover all of a request that acts for its caller (401).
    """
    skill = incoming.request.skill
    if skill.acts_for_caller and incoming.signature is not None:
        try:
            check_coverage(incoming.signature)
        except SignatureRefused as refused:
            raise refuse_signature(incoming, refused) from None
    refusal = skill_refusal(incoming, skill)
    if refusal is not None:
        raise refusal


def skill_refusal(incoming: IncomingRequest, skill: Skill) -> AuthRequired | None:
    """Why the caller may not use a skill. None if it may.

    A known caller needs the scope of the skill, if its token has scopes, and a policy that allows the skill.
    """
    caller = incoming.caller
    if not caller.is_known:
        if skill.id not in incoming.service.closed_skills:
            return None
        words = f"{skill.id} asks for a token: Authorization: Bearer <ACCESS_TOKEN>."
        return AuthRequired.of_skill(words, skill.scope)
    if caller.scopes is not None and skill.scope not in caller.scopes:
        return Forbidden.of_scope(f"{skill.id} needs a token with the scope {skill.scope}.", skill.scope)
    if not incoming.policy.allows(skill.id):
        return Forbidden(f"This dealer does not allow {skill.id} to this agent: ask the dealer.")
    return None


def count_skill(incoming: IncomingRequest) -> None:
    """Counts the request against the rate of its skill, and a lead also against the leads of its day (429)."""
    incoming.count(incoming.request.skill.id, incoming.client)
    if incoming.request.skill.is_lead and incoming.policy.leads_a_day is not None:
        incoming.count(LEADS_A_DAY, incoming.client)


def count_invalid_lead(incoming: IncomingRequest) -> None:
    """Counts a lead with an invalid payload against its own rate (429)."""
    if incoming.request.problems and incoming.request.skill.is_lead:
        count_malformed_lead(incoming)


def check_payload(incoming: IncomingRequest) -> None:
    """Refuses a payload that its schema does not allow."""
    request = incoming.request
    if request.problems:
        problems = list(request.problems)
        error = validation_error(problems, "payload") if request.version is None else version_error(problems)
        if request.skill.is_lead:
            incoming.service.dealer.lead_intake.note_refused(error.code, datetime.now(UTC))
        raise error


def names_offers(incoming: IncomingRequest) -> bool:
    """Whether the request names the offers extension, and the dealer has it. Published versions do not have it."""
    has_it = incoming.service.dealer.desk is not None and incoming.binding.version is None
    return has_it and b"a2a-extensions" in incoming.fields and OFFERS_EXTENSION in named_extensions(incoming.headers)


CALLER_GUARDS: tuple[Guard, ...] = (check_token, check_signature, check_policy)
"""They decide the caller from the headers, also those of a request to `/mcp`."""
HEAD_GUARDS: tuple[Guard, ...] = (check_declared_size, check_media_type, count_address, *CALLER_GUARDS)
BODY_GUARDS: tuple[Guard, ...] = (count_body, check_digest, check_size)
REQUEST_GUARDS: tuple[Guard, ...] = (
    decode,
    check_version,
    check_activation,
    check_envelope,
    check_tenant,
    check_skill,
    check_skill_caller,
    count_skill,
    count_invalid_lead,
    check_payload,
)


async def pass_guards(guards: tuple[Guard, ...], incoming: IncomingRequest) -> None:
    """Applies the guards in order. Raises ProtocolError."""
    for guard in guards:
        try:
            guard(incoming)
        finally:
            # A request that the guard refuses counts too, and its rate comes first.
            if incoming.uncounted:
                await share_counts(incoming)
        if incoming.unchecked_nonce is not None:
            await check_stored_nonce(incoming)


async def check_stored_nonce(incoming: IncomingRequest) -> None:
    """Refuses a nonce that any machine has seen (401). Raises StorageError if the database cannot tell."""
    nonces, signature, key = incoming.service.process.nonces, incoming.signature, incoming.unchecked_nonce
    incoming.unchecked_nonce = None
    assert isinstance(nonces, StoredNonces)
    assert signature is not None
    assert key is not None
    if not await nonces.remember(key, signature.accepted_until):
        raise refuse_signature(incoming, replayed())


async def share_counts(incoming: IncomingRequest) -> None:
    """Counts in the shared store what the request has noted. Raises RateLimited."""
    service, counts = incoming.service, incoming.uncounted
    incoming.uncounted = ()
    for rule, client, cost, refuses in counts:
        wait = await service.shared_limits_for(incoming.policy, rule).acquire(rule, client, cost)
        if wait is not None and refuses:
            raise service.process.too_many(rule, wait)


def pass_all_guards(incoming: IncomingRequest) -> None:
    """Applies all guards to a request that the fast path has decoded. Raises ProtocolError.

    Only its two rates can refuse a usual request of this kind. They are counted together, under one lock.
    """
    fields, skill_id = incoming.fields, incoming.request.skill.id
    if (
        b"authorization" in fields
        or b"signature-input" in fields
        or fields.get(b"a2a-version") != b"1.0"
        or fields.get(b"content-type") != b"application/json"
        or skill_id not in incoming.service.open_skills
    ):
        for guard in (*HEAD_GUARDS, *BODY_GUARDS, *REQUEST_GUARDS):
            guard(incoming)
        return
    refused = incoming.service.limits.acquire_in_order((ADDRESS_RULE, skill_id), incoming.address)
    if refused is None or refused.rule != ADDRESS_RULE:
        # A response uses nothing from the body until the rate of the IP address is checked.
        decode(incoming)
        incoming.line.skill = skill_id
    if refused is not None:
        raise incoming.service.process.too_many(*refused)


def count_malformed_lead(incoming: IncomingRequest) -> None:
    """Counts a lead with a defective payload or consent against its own rate, not that of its skill (429)."""
    incoming.count(incoming.request.skill.id, incoming.client, -1)
    if incoming.policy.leads_a_day is not None:
        incoming.count(LEADS_A_DAY, incoming.client, -1)
    incoming.count(MALFORMED_LEADS_RULE, incoming.client)


def _count_refused(incoming: IncomingRequest) -> None:
    """Counts a request that is refused before its rate is checked: every request counts."""
    incoming.count(ADDRESS_RULE, incoming.address, refuses=False)
