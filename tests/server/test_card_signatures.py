"""The signatures of the cards, verified with both official SDKs (docs/protocol.md#card-signatures)."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from jwt import PyJWK
from jwt.api_jws import PyJWS
from tests.server.conftest import OpenDealership
from tests.server.dealership import LISTENS_AT, NO_LIMITS, Dealership, run_dealership, set_up
from tests.server.test_cards import ALL, CARDS, MODES
from tests.server.verifying import KEYS_PATH, Card, Read, are_valid_in_javascript, is_valid_in_python, read
from tests.soak import SOAK

from dealer_agent.protocol.card import card_1_0_0
from dealer_agent.protocol.published_versions import PUBLISHED_VERSIONS

VERSION_CARDS = tuple(version.card_path for version in PUBLISHED_VERSIONS.values())
ODD_NAME = 'Zoë\'s "Kraftwagen" \U0001f697 <b>&amp; Söhne</b> \\ \u2028 \u0301'


def change_name(card: Card) -> None:
    card["name"] = "Another Dealer"


def change_address(card: Card) -> None:
    interfaces = card.get("supportedInterfaces") or card["supported_interfaces"]
    interfaces[0]["url"] = "https://evil.example/rpc"


def change_interface_order(card: Card) -> None:
    (card.get("supportedInterfaces") or card["supported_interfaces"]).reverse()


def add_interface(card: Card) -> None:
    interfaces = card.get("supportedInterfaces") or card["supported_interfaces"]
    interfaces.append(interfaces[0] | {"tenant": "another"})


def remove_skill(card: Card) -> None:
    card["skills"].pop()


def change_schema(card: Card) -> None:
    card["capabilities"]["extensions"][0]["params"]["skills"]["lead.submit"]["request_schema"] += "x"


def change_whether_an_extension_is_required(card: Card) -> None:
    extension = card["capabilities"]["extensions"][0]
    extension["required"] = not extension["required"]


def allow_streaming(card: Card) -> None:
    card["capabilities"]["streaming"] = True


def change_signature(card: Card) -> None:
    for signature in card["signatures"]:
        first = signature["signature"][0]
        signature["signature"] = ("A" if first != "A" else "B") + signature["signature"][1:]


def change_header(card: Card) -> None:
    for signature in card["signatures"]:
        signature["protected"] = signature["protected"][:-2] + "AA"


CHANGES: list[Callable[[Card], None]] = [
    change_name,
    change_address,
    change_interface_order,
    add_interface,
    remove_skill,
    change_schema,
    change_whether_an_extension_is_required,
    allow_streaming,
    change_signature,
    change_header,
]


def header_of(signature: dict[str, str]) -> dict[str, Any]:
    header: dict[str, Any] = json.loads(urlsafe_b64decode(signature["protected"] + "=="))
    return header


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory, stocked: Path) -> list[Read]:
    """Every card of services with every setting that changes a card."""
    found = []
    for extra in (
        '[published_versions]\nserved = ["1.0", "1.1", "1.2", "1.3", "next"]\n' + NO_LIMITS,
        ALL,
        '[auth]\nmode = "bearer"\nskills = ["lead.submit"]\n',
        '[service]\nvocabulary = "autoagent"\nskills_off = ["lead.submit", "inventory.vehicle"]\n',
        '[service]\nrevision = "0.1.0"\npublic_url = "https://example.com/x"\nbase_path = "/agent"\n',
    ):
        folder = tmp_path_factory.mktemp("signed") / "dealer"
        set_up(folder, extra, stocked=stocked)
        text = (folder / "dealer.toml").read_text("utf-8")
        (folder / "dealer.toml").write_text(
            text.replace('name = "Test Motors"', f"name = {json.dumps(ODD_NAME, ensure_ascii=False)}"), "utf-8"
        )
        with run_dealership(folder) as opened:
            root = "https://example.com/x/agent" if "public_url" in extra else LISTENS_AT
            versions = VERSION_CARDS if "published_versions" in extra else ()
            found += [read(opened, path, root) for path in (*CARDS, *versions)]
    return found


@pytest.mark.requirement("card-signatures", "card-signature-0.1.0")
def test_both_sdks_accept_every_card_and_refuse_it_after_every_change(seen: list[Read]) -> None:
    tampered = []
    for each in seen:
        for change in CHANGES:
            card = deepcopy(each.card)
            if change is change_schema and len(card["skills"]) < 5:
                continue
            change(card)
            # A card with one interface has no other order.
            if card != each.card:
                tampered.append(each._replace(card=card))
    assert len(seen) == 15 + len(VERSION_CARDS)
    # In a short run a card has a third of the changes, and a change has many cards.
    tampered = tampered if SOAK else tampered[::3]
    assert [is_valid_in_python(each) for each in seen] == [True] * len(seen)
    assert [is_valid_in_python(each) for each in tampered] == [False] * len(tampered)
    valid = are_valid_in_javascript([*seen, *tampered])
    assert valid == [True] * len(seen) + [False] * len(tampered)


@pytest.mark.requirement("card-signature-keys")
def test_a_card_whose_keys_are_elsewhere_is_refused(seen: list[Read]) -> None:
    elsewhere = [each._replace(root="https://evil.example") for each in seen[:3]]
    assert [is_valid_in_python(each) for each in elsewhere] == [False] * 3
    assert are_valid_in_javascript(elsewhere) == [False] * 3


@MODES
@pytest.mark.requirement("card-signatures", "card-signature-forms")
def test_each_signature_is_over_a_form_of_the_card(open_dealership: OpenDealership, auth: str) -> None:
    """The last one is of the form that A2A 1.0 describes: RFC 8785 without `signatures` and default values."""
    opened = open_dealership(auth + NO_LIMITS)
    card = opened.get(CARDS[0]).json()
    signatures = card.pop("signatures")
    assert len(signatures) == (1 if not auth else 2)
    for extension in card["capabilities"]["extensions"]:
        del extension["required"]
    for holder in (card, *card["skills"]):
        for requirement in holder.get("securityRequirements", ()):
            requirement["schemes"]["bearer"] = {}
    assert_signs(opened, signatures[-1], rfc8785.dumps(card))


@pytest.mark.requirement("card-signature-forms")
def test_a_name_that_is_not_ascii_has_a_signature_for_the_older_python_sdk(open_dealership: OpenDealership) -> None:
    """a2a-sdk 1.0 and 1.1 verify what `json.dumps` makes of the card."""
    opened = open_dealership(NO_LIMITS)
    assert len(opened.get(CARDS[0]).json()["signatures"]) == 1
    card = card_1_0_0(replace(opened.service.card, name=ODD_NAME), opened.service.vocabularies)
    assert opened.service.signer is not None
    signatures = opened.service.signer.signed(card)["signatures"]
    assert len(signatures) == 2
    for extension in card["capabilities"]["extensions"]:
        del extension["required"]
    text = json.dumps(card, separators=(",", ":"), sort_keys=True)
    assert text.isascii()
    assert_signs(opened, signatures[1], text.encode())


def assert_signs(opened: Dealership, signature: dict[str, str], payload: bytes) -> None:
    """Checked without an SDK of A2A: the signature is valid for this payload."""
    key = PyJWK.from_dict(opened.get(KEYS_PATH).json()["keys"][0])
    encoded = urlsafe_b64encode(payload).decode().rstrip("=")
    token = f"{signature['protected']}.{encoded}.{signature['signature']}"
    assert PyJWS(algorithms=["ES256"]).decode(token, key, ["ES256"]) == payload


@pytest.mark.requirement("card-signatures", "card-signature-keys")
def test_the_header_names_the_key_at_the_root_of_the_dealer(dealership: Dealership) -> None:
    answer = dealership.get(KEYS_PATH)
    assert answer.headers["content-type"] == "application/jwk-set+json"
    (key,) = answer.json()["keys"]
    assert set(key) == {"kty", "crv", "x", "y", "kid", "use", "alg"}, "no private member"
    thumbprint = rfc8785.dumps({name: key[name] for name in ("crv", "kty", "x", "y")})
    assert urlsafe_b64decode(key["kid"] + "=") == sha256(thumbprint).digest()
    for path in CARDS:
        for signature in dealership.get(path).json()["signatures"]:
            assert header_of(signature) == {
                "alg": "ES256",
                "typ": "JOSE",
                "kid": key["kid"],
                "jku": LISTENS_AT + KEYS_PATH,
            }


@pytest.mark.requirement("card-signatures")
def test_another_process_with_the_same_keys_serves_the_same_bytes(open_dealership: OpenDealership) -> None:
    first, second = open_dealership(), open_dealership()
    for path in (*CARDS, KEYS_PATH):
        assert first.get(path).content == second.get(path).content
        assert first.get(path).headers["etag"] == second.get(path).headers["etag"]


@pytest.mark.requirement("card-signature-keys")
def test_a_higher_number_is_another_key_and_the_former_one_is_not_valid(open_dealership: OpenDealership) -> None:
    former = read(open_dealership(), CARDS[0], LISTENS_AT)
    current = read(open_dealership("[service]\ncard_key_number = 2\n"), CARDS[0], LISTENS_AT)
    assert is_valid_in_python(former)
    assert is_valid_in_python(current)
    assert not is_valid_in_python(former._replace(keys=current.keys))
    assert not is_valid_in_python(current._replace(keys=former.keys))
