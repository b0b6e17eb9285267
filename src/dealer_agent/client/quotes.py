"""Verifies the signature of a quote (docs/protocol.md#offer-signature). It needs the extra `signatures`."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any

import msgspec

from dealer_agent.client.errors import InvalidRequest, QuoteNotVerified
from dealer_agent.protocol.offers import QUOTE_TYPE

ALGORITHMS = ("ES256",)
LONGEST_QUOTE = 1024 * 1024
"""The most bytes of a document with a quote."""


def quote_in(document: Any) -> dict[str, Any]:
    """The quote in a document: the quote itself, or a response or a JSON-RPC result that has it.

    Raises QuoteNotVerified.
    """
    for _ in range(8):
        match document:
            case {"quote_id": str(), "signature": str()}:
                return dict(document)
            case {"result": dict(inner)} | {"message": dict(inner)} | {"data": dict(inner)}:
                document = inner
            case {"parts": [*parts]}:
                document = next((part for part in parts if isinstance(part, dict) and "data" in part), None)
            case _:
                break
    raise QuoteNotVerified("The document has no quote with a signature.")


def header_of(quote: Mapping[str, Any]) -> dict[str, Any]:
    """The header of a quote's signature: its `kid` and the address of its keys, `jku`. Raises QuoteNotVerified."""
    jwt, _ = _packages()
    try:
        header: dict[str, Any] = jwt.get_unverified_header(str(quote.get("signature", "")))
    except jwt.PyJWTError as error:
        raise QuoteNotVerified(f"The signature of the quote cannot be read, so do not use it: {error}") from None
    return header


def verify_quote(quote: Mapping[str, Any], keys: Mapping[str, Any]) -> str:
    """Checks that one of the dealer's `keys` (a JSON Web Key Set) has signed exactly this quote. Returns its `kid`.

    It shows that the dealer has given this quote. It says nothing about whether the quote is still valid.
    Raises QuoteNotVerified, and InvalidRequest without the packages of the extra.
    """
    jwt, rfc8785 = _packages()
    header = header_of(quote)
    if header.get("typ") != QUOTE_TYPE:
        raise QuoteNotVerified(f"The signature is not one of a quote, so do not use it: its typ is not {QUOTE_TYPE}.")
    try:
        found = next((key for key in jwt.PyJWKSet.from_dict(dict(keys)).keys if key.key_id == header.get("kid")), None)
    except (AttributeError, TypeError, ValueError, jwt.PyJWTError) as error:
        raise QuoteNotVerified(f"The keys cannot be read: {str(error)[:200]}") from None
    if found is None:
        raise QuoteNotVerified(
            f"No key of the dealer has the id {str(header.get('kid'))[:200]!r}, which the signature names. Fetch the "
            "dealer's keys again; if the id is still absent, do not use the quote."
        )
    try:
        signed = jwt.PyJWS().decode(str(quote["signature"]), found, algorithms=list(ALGORITHMS))
        content = rfc8785.dumps({name: value for name, value in quote.items() if name != "signature"})
    except (jwt.PyJWTError, rfc8785.CanonicalizationError, RecursionError) as error:
        raise QuoteNotVerified(
            f"The signature of the quote is not valid, so do not use it: {str(error)[:200]}"
        ) from None
    if signed != content or not _is_canonical(str(quote["signature"])):
        raise QuoteNotVerified("The quote is not the one that was signed: do not use it, and ask for another one.")
    return str(found.key_id)


def _packages() -> tuple[Any, Any]:
    """The modules of the extra. The client library works without it."""
    try:
        import jwt
        import rfc8785
    except ModuleNotFoundError:
        raise InvalidRequest("verify_quote needs more packages: pip install 'dealer-agent[signatures]'") from None
    return jwt, rfc8785


def _is_canonical(jws: str) -> bool:
    """Whether the last part is the only text of its bytes: the last character of Base64 has bits that say nothing."""
    _, _, signature = jws.rpartition(".")
    return urlsafe_b64encode(urlsafe_b64decode(signature + "==")).decode().rstrip("=") == signature


def read_quote(text: bytes) -> dict[str, Any]:
    """The quote in a file. Raises QuoteNotVerified."""
    if len(text) > LONGEST_QUOTE:
        raise QuoteNotVerified(f"The document has more than {LONGEST_QUOTE} bytes.")
    try:
        return quote_in(msgspec.json.decode(text))
    except (ValueError, RecursionError) as error:
        raise QuoteNotVerified(f"The document is not JSON: {str(error)[:200]}") from None
