"""The checks of a request to a skill, in their order (docs/protocol.md#order-of-checks).

A guard is one function. It checks one thing, and raises ProtocolError to refuse the request. `HEAD_GUARDS`,
`BODY_GUARDS` and `REQUEST_GUARDS` at the end of this module are the order. Between them, a request over ASGI waits for
its body, and then for its turn in the queue of the process. The fast path waits for nothing and calls
`pass_all_guards`. Consent and business rules come last: they are checked in the transaction that stores a lead
(`lead_intake`).

If machines share their rate limits, a guard only notes what it counts. `pass_guards` then waits for the shared store.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote_plus

from dealer_agent.protocol.envelope import LEAD, Request
from dealer_agent.protocol.errors import AuthRequired, ProtocolError, UnsupportedSkill, VersionNotSupported
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.protocol.problems import Problem, validation_error
from dealer_agent.protocol.task_list import TaskPage
from dealer_agent.protocol.version_errors import extension_not_named
from dealer_agent.protocol.version_payloads import version_error
from dealer_agent.protocol.vocabulary import Vocabulary, bare_media_type
from dealer_agent.server.bindings import Binding
from dealer_agent.server.body import JSON, not_a_lead, too_large, wrong_media_type
from dealer_agent.server.client_address import client_address
from dealer_agent.server.error_responses import NOT_VALID_HERE
from dealer_agent.server.limits import ADDRESS_RULE, TOKEN_CLIENT
from dealer_agent.server.log import RequestLine
from dealer_agent.server.service import BAD_TOKENS_RULE, MALFORMED_LEADS_RULE, Service
from dealer_agent.server.tokens import bearer_token

if TYPE_CHECKING:
    # Only with the extra `traces`.
    from dealer_agent.server.traces import Span

COUNTED_BYTES = 8 * 1024
"""A request counts against the rate of its IP address once for each 8 KiB of its body, and at least once."""

A2A_JSON = "application/a2a+json"
MOST_EXTENSIONS = 100
"""How many of the extensions that a request names are read."""
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


@dataclass(slots=True, eq=False)
class IncomingRequest:
    """A POST to a binding: what arrived, and what the guards have found out.

    `headers` have lower-case names. `fields` has the last header of each name. The ULID in `line` is the id of the
    response, of its error and of its log line. `uncounted` waits for the shared store. `span` is open if traces are on.
    """

    binding: Binding
    service: Service
    headers: list[tuple[bytes, bytes]]
    fields: Mapping[bytes, bytes]
    peer: str | None
    query: bytes = b""
    call_id: bytes = b"null"
    media_type: str = JSON
    decoded: tuple[bytes, Request | ProtocolError | TaskPage] | None = None
    uncounted: tuple[Count, ...] = ()
    span: "Span | None" = None
    started: float = field(init=False)
    line: RequestLine = field(init=False)
    vocabulary: Vocabulary = field(init=False)
    address: str = field(init=False)
    token_id: str | None = field(default=None, init=False)
    body: bytes = field(init=False)
    cost: int = field(init=False)
    is_lead: bool = field(init=False)
    request: Request = field(init=False)

    def __post_init__(self) -> None:
        """Begins the log line and the span of the request, and finds the client's address."""
        self.started = self.service.used_at = perf_counter()
        self.line = RequestLine(new_ulid(), self.binding.name)
        self.vocabulary = self.service.vocabularies.default
        if self.service.traces is not None:
            parent = self.fields.get(b"traceparent")
            self.span = self.service.traces.begin_request(self.binding.name, self.service.dealer_id, parent)
        self.address = client_address(self.peer, self.headers, self.service.settings.service.trusted_networks)

    @property
    def client(self) -> str:
        """The client that the rate of a skill counts: its token, or its IP address if it sent no token."""
        return f"{TOKEN_CLIENT}{self.token_id}" if self.token_id else self.address

    def count(self, rule: str, client: str, cost: int = 1, *, refuses: bool = True) -> None:
        """Counts the request against a rule (429), or notes it for the shared store."""
        if self.service.shared_limits is not None:
            self.uncounted += (Count(rule, client, cost, refuses),)
            return
        wait = self.service.limits.acquire(rule, client, cost)
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
    incoming.cost = _cost_of(size)


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
    """Refuses an unknown token, and a request without a token if every skill requires one (401).

    Requests with unknown tokens have a rate limit of their own for each IP address (429). So they do not use up the
    rate of other buyers with the same IP address.
    """
    service, authorization = incoming.service, incoming.fields.get(b"authorization")
    token = None if authorization is None else bearer_token(authorization.decode("latin-1"))
    incoming.token_id = None if token is None else service.tokens.owner(token)
    if token is None and service.settings.every_skill_needs_token:
        raise AuthRequired("Send a token: Authorization: Bearer <ACCESS_TOKEN>.")
    if token is not None and incoming.token_id is None:
        incoming.count(BAD_TOKENS_RULE, incoming.address)
        raise AuthRequired(NOT_VALID_HERE)


def count_body(incoming: IncomingRequest) -> None:
    """Counts the size of a body whose request has no `Content-Length`, once it has been read (429)."""
    cost = _cost_of(len(incoming.body)) - incoming.cost
    if cost > 0:
        incoming.count(ADDRESS_RULE, incoming.address, cost)


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
    if version.extension_uri not in named_extensions(incoming):
        raise extension_not_named(version)


def named_extensions(incoming: IncomingRequest) -> list[str]:
    """The extensions in the headers `A2A-Extensions`, at most MOST_EXTENSIONS."""
    lines = (value.decode("latin-1") for name, value in incoming.headers if name == b"a2a-extensions")
    named = (uri.strip() for line in lines for uri in line.split(",", MOST_EXTENSIONS))
    return list(islice(named, MOST_EXTENSIONS))


def _unsupported_version() -> VersionNotSupported:
    return VersionNotSupported("This agent speaks A2A 1.0: send A2A-Version: 1.0.", {"supported": ["1.0"]})


def check_envelope(incoming: IncomingRequest) -> None:
    """Refuses a body that is not JSON, and a message with defects outside its payload. Raises TaskPage as well."""
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
    if skill_id not in incoming.service.settings.service.skills:
        details = {"in": "payload", "instancePath": "/type"}
        raise UnsupportedSkill(f"This dealer does not offer {skill_id}.", details)


def check_skill_token(incoming: IncomingRequest) -> None:
    """Refuses a request without a token if its skill requires one (401)."""
    skill_id = incoming.request.skill.id
    if incoming.token_id is None and skill_id in incoming.service.settings.token_skills:
        raise AuthRequired(f"{skill_id} asks for a token: Authorization: Bearer <ACCESS_TOKEN>.")


def count_skill(incoming: IncomingRequest) -> None:
    """Counts the request against the rate of its skill (429)."""
    incoming.count(incoming.request.skill.id, incoming.client)


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


HEAD_GUARDS: tuple[Guard, ...] = (check_declared_size, check_media_type, count_address, check_token)
BODY_GUARDS: tuple[Guard, ...] = (count_body, check_size)
REQUEST_GUARDS: tuple[Guard, ...] = (
    decode,
    check_version,
    check_activation,
    check_envelope,
    check_tenant,
    check_skill,
    check_skill_token,
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


async def share_counts(incoming: IncomingRequest) -> None:
    """Counts in the shared store what the request has noted. Raises RateLimited."""
    shared, counts = incoming.service.shared_limits, incoming.uncounted
    if shared is None:
        return
    incoming.uncounted = ()
    for rule, client, cost, refuses in counts:
        wait = await shared.acquire(rule, client, cost)
        if wait is not None and refuses:
            raise incoming.service.process.too_many(rule, wait)


def pass_all_guards(incoming: IncomingRequest) -> None:
    """Applies all guards to a request that the fast path has decoded. Raises ProtocolError.

    Only its two rates can refuse a usual request of this kind. They are counted together, under one lock.
    """
    fields, settings, skill_id = incoming.fields, incoming.service.settings, incoming.request.skill.id
    if (
        b"authorization" in fields
        or settings.token_skills
        or fields.get(b"a2a-version") != b"1.0"
        or fields.get(b"content-type") != b"application/json"
        or skill_id not in settings.service.skills
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
    incoming.count(MALFORMED_LEADS_RULE, incoming.client)


def _count_refused(incoming: IncomingRequest) -> None:
    """Counts a request that is refused before its rate is checked: every request counts."""
    incoming.count(ADDRESS_RULE, incoming.address, refuses=False)


def _cost_of(size: int) -> int:
    return max(1, -(-size // COUNTED_BYTES))
