"""What a signature covers: the signature base (RFC 9421, section 2.5). Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, unquote_plus

from dealer_agent.http_signatures.errors import SignatureRefused
from dealer_agent.http_signatures.fields import Fields, Headers
from dealer_agent.http_signatures.structured_fields import write_member, write_parameters

MAX_COMPONENTS = 32
MAX_BASE_BYTES = 32 * 1024
MAX_QUERY_PARAMETERS = 100

Component = tuple[str, Mapping[str, Any]]
"""A covered component: its name, and its parameters."""

_DEFAULT_PORTS = {"https": ":443", "http": ":80"}


class SignableRequest(NamedTuple):
    """A request. `path` and `query` are as they were sent, percent-encoded; the query has no question mark."""

    method: str
    authority: str
    path: str
    query: str
    headers: Headers
    scheme: str = "https"


class Response(NamedTuple):
    """A response, and the request that it answers."""

    status: int
    headers: Headers
    request: SignableRequest


def signature_base(
    components: Sequence[Component], parameters: Mapping[str, Any], message: SignableRequest | Response, fields: Fields
) -> bytes:
    """The text that is signed. `fields` are those of the message. Raises SignatureRefused."""
    if len(components) > MAX_COMPONENTS:
        raise SignatureRefused("too_large", f"The signature covers more than {MAX_COMPONENTS} components: cover fewer.")
    lines: dict[str, str] = {}
    for component in components:
        name, of = component
        identifier = f'"{name}"{write_parameters(of)}' if of else f'"{name}"'
        if identifier in lines:
            raise SignatureRefused("malformed", f"The signature covers {identifier} twice: name each component once.")
        lines[identifier] = _component_value(name, of, message, fields)
    covered = " ".join(lines)
    text = "\n".join(f"{identifier}: {value}" for identifier, value in lines.items())
    text += f'{chr(10) if text else ""}"@signature-params": ({covered}){write_parameters(parameters)}'
    if len(text) > MAX_BASE_BYTES:
        raise SignatureRefused(
            "too_large", f"What the signature covers has more than {MAX_BASE_BYTES} bytes: cover less."
        )
    if not text.isascii() or text.count("\n") != len(lines):
        raise SignatureRefused(
            "malformed", "A component that the signature covers is not printable ASCII: do not cover it."
        )
    return text.encode()


def _component_value(name: str, of: Mapping[str, Any], message: SignableRequest | Response, fields: Fields) -> str:
    """The value of a component. Raises SignatureRefused."""
    if of.get("req") is True and isinstance(message, Response):
        rest = {parameter: value for parameter, value in of.items() if parameter != "req"}
        return _component_value(name, rest, message.request, Fields(message.request.headers))
    if name.startswith("@"):
        return _derived_component_value(name, of, message)
    if not name or name != name.lower():
        raise SignatureRefused(
            "malformed", "A component of the signature has a name that is not in lower case: correct it."
        )
    value = fields.value(name)
    if value is None:
        raise SignatureRefused(
            "wrong_signature", f'The signature covers the header "{name}", which the message does not have: send it.'
        )
    if not of:
        return value
    key = of.get("key")
    if len(of) > 1 or not isinstance(key, str):
        raise _unsupported(name, of)
    member = fields.dictionary(name).get(key)
    if member is None:
        raise SignatureRefused(
            "wrong_signature", f'The signature covers a member of "{name}" that is not there: send it.'
        )
    return write_member(member)


def _derived_component_value(name: str, of: Mapping[str, Any], message: SignableRequest | Response) -> str:
    """The value of a derived component (RFC 9421, section 2.2). Raises SignatureRefused if it is not supported."""
    if isinstance(message, Response):
        if name == "@status" and not of:
            return str(message.status)
        raise _unsupported(name, of)
    if name == "@query-param":
        return _query_parameter(of, message.query)
    query = f"?{message.query}"
    match name if not of else "":
        case "@method":
            return message.method
        case "@authority":
            return _authority(message)
        case "@path":
            return message.path or "/"
        case "@query":
            return query
        case "@scheme":
            return message.scheme
        case "@request-target":
            return (message.path or "/") + (query if message.query else "")
        case "@target-uri":
            return f"{message.scheme}://{_authority(message)}{message.path or '/'}{query if message.query else ''}"
    raise _unsupported(name, of)


def _authority(request: SignableRequest) -> str:
    return request.authority.lower().removesuffix(_DEFAULT_PORTS.get(request.scheme, "no port"))


def _query_parameter(of: Mapping[str, Any], query: str) -> str:
    """The value of one query parameter, encoded as RFC 9421 has it.

    It must be there exactly once, so that the signature covers what the application reads. Raises SignatureRefused.
    """
    name = of.get("name")
    if len(of) > 1 or not isinstance(name, str):
        raise _unsupported("@query-param", of)
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=MAX_QUERY_PARAMETERS)
    except ValueError:
        raise SignatureRefused(
            "too_large", f"The query has more than {MAX_QUERY_PARAMETERS} parameters: cover @query."
        ) from None
    values = [value for key, value in pairs if key == unquote_plus(name)]
    if len(values) != 1:
        raise SignatureRefused(
            "wrong_signature", f"The query must have the covered parameter {name!a:.100} exactly once: cover @query."
        )
    return quote(values[0], safe="*").replace("~", "%7E")


def _unsupported(name: str, of: Mapping[str, Any]) -> SignatureRefused:
    return SignatureRefused(
        "unsupported",
        f'The signature covers "{name}"{write_parameters(of)}, which is not supported: cover it another way.',
    )
