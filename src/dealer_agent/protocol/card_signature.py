"""Makes the bytes that the signature of an agent card covers (docs/protocol.md#card-signatures). Pure."""

import json
import re
from typing import Any

import rfc8785

_ALWAYS_PRESENT = frozenset({"supportedInterfaces", "defaultInputModes", "defaultOutputModes", "skills", "tags"})
"""The lists that A2A requires: they are on a card even if they are empty."""
_NOT_IN_A2A = frozenset({"auth_type", "signatures"})
"""Members at the top of a card that no signature covers: the first is not in A2A, and the other has the signatures."""


def signed_texts(card: dict[str, Any]) -> list[bytes]:
    """The texts that are signed for a card, in UTF-8: JSON by RFC 8785. `card` is in camelCase or in snake_case.

    - The first one is what the official SDKs verify: they drop every empty value.
    - A2A 1.0, section 8.4.1, keeps empty lists that it requires, and security schemes without scopes.
    - The Python SDK before 1.2 escapes characters that are not ASCII.

    Texts that are the same for a card are there once.
    """
    known = _in_camel_case({name: value for name, value in card.items() if name not in _NOT_IN_A2A})
    of_sdks = _without_empty(known)
    escaped = json.dumps(of_sdks, separators=(",", ":"), sort_keys=True).encode()
    return list(dict.fromkeys((rfc8785.dumps(of_sdks), rfc8785.dumps(_without_defaults(known)), escaped)))


def _in_camel_case(node: Any) -> Any:
    """The card with the names of protobuf's JSON, without `required` that is false: the form that is signed."""
    if isinstance(node, dict):
        return {
            re.sub("_([a-z])", lambda match: match[1].upper(), name): item if name == "params" else _in_camel_case(item)
            for name, item in node.items()
            # The only plain boolean of a card: absent means false. `streaming` and its like know three states.
            if not (name == "required" and item is False)
        }
    return [*map(_in_camel_case, node)] if isinstance(node, list | tuple) else node


def _without_empty(node: Any) -> Any:
    """A value without members and entries that are empty."""
    if isinstance(node, dict):
        return {name: kept for name, item in node.items() if not _is_empty(kept := _without_empty(item))}
    if isinstance(node, list | tuple):
        return [kept for item in node if not _is_empty(kept := _without_empty(item))]
    return node


def _without_defaults(node: Any) -> Any:
    """A card without the empty lists that protobuf leaves out."""
    if isinstance(node, dict):
        return {
            name: item if name == "params" else _without_defaults(item)
            for name, item in node.items()
            if item != [] or name in _ALWAYS_PRESENT
        }
    return [*map(_without_defaults, node)] if isinstance(node, list) else node


def _is_empty(value: Any) -> bool:
    return value in ("", [], {}, None)
