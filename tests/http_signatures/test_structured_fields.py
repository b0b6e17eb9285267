"""Structured fields (RFC 9651), compared with the library `http_sf`."""

import random
from typing import Any

import http_sf
import pytest
from tests.soak import soak_count, soak_seed

from dealer_agent.http_signatures.structured_fields import read_dictionary, read_text, write_member

pytestmark = pytest.mark.outside_protocol("structured fields")
SEEDS = (
    'sig1=("@method" "signature-agent";key="sig1" "@authority";req);created=1735689600;keyid="a-_Z";alg="x";tag="t"',
    "sig1=:RdNFx5Bj6au3YgAMQL/RzmUlZE8QZLIaXGRpw985hWnwPfMxT228NMk6ehRS1PSl4e8PhbNZACSanGdhEwYCCg==:, b=:AA==:;x",
    'a="https://agent.example";type=jwks_uri, b, c=?0;d=?1, e=-12, *f=tok/en:*, g="q\\"u\\\\o"',
    "a=() ,\tb=( 1 2 );x;y=?0",
    "",
)


def _plain(value: Any) -> Any:
    """Tokens, which both have as a type of their own, with the name of the type; and other values with theirs."""
    if isinstance(value, dict):
        return [(name, _plain(member)) for name, member in value.items()]
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if type(value).__name__ == "Token":
        return "token", str(value)
    return type(value).__name__, value


def _of_library(text: str) -> Any:
    """What the library reads. None for what we refuse: a name twice, decimals, dates and display strings."""

    def refuse(name: str, context: str) -> None:
        raise ValueError(name, context)

    try:
        found = http_sf.parse(text.encode("latin-1"), tltype="dictionary", on_duplicate_key=refuse)
    except ValueError:
        return None
    kinds = str(_plain(found))
    return None if any(kind in kinds for kind in ("'Decimal'", "'datetime'", "'DisplayString'")) else _plain(found)


def _of_ours(text: str) -> Any:
    try:
        return _plain(read_dictionary(text))
    except ValueError:
        return None


@pytest.mark.parametrize("text", SEEDS)
def test_a_dictionary_is_what_the_library_reads_and_writes(text: str) -> None:
    assert _of_ours(text) == _of_library(text) is not None
    for name, member in read_dictionary(text).items():
        of_library: Any = http_sf.parse(f"{name}={write_member(member)}".encode(), tltype="dictionary")
        assert _plain({name: member}) == _plain(of_library)


def test_changed_dictionaries_are_what_the_library_reads() -> None:
    chance = random.Random(soak_seed())
    read = 0
    for _ in range(soak_count("SOAK_SIGNATURES", 5000)):
        text = chance.choice(SEEDS)
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(text) + 1)
            text = (
                text[:at]
                + chance.choice(["", *'aZ09"";=:()  ,,?*-_./\\\t@%\x7f\xff'])
                + text[at + chance.randrange(2) :]
            )
        expected = _of_library(text)
        assert _of_ours(text) == expected, text
        read += expected is not None
    assert read > 500


@pytest.mark.parametrize(
    "text", ["a=1.5", "a=@1", 'a=%"x"', "a=1234567890123456", "a=1, a=2", "a;b;b", "a,", "a b", "A=1"]
)
def test_what_signatures_do_not_use_is_refused(text: str) -> None:
    assert _of_ours(text) is None


def test_a_string_is_read() -> None:
    assert read_text(' "https://agent.example";x ') == "https://agent.example"
    for text in ("token", '"a" b', '"a', ""):
        with pytest.raises(ValueError, match=r"not a string|no value"):
            read_text(text)
