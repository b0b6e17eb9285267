"""The official clients for Python and JavaScript through every card: five skills, an error, and the signature."""

import asyncio
import json
import subprocess
import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import jwt
import pytest
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types.a2a_pb2 import AgentCard, SendMessageRequest
from a2a.utils.errors import A2AError
from a2a.utils.signing import create_signature_verifier
from google.protobuf.json_format import MessageToDict, ParseDict
from tests.acceptance.cards import CARDS, INTERFACES, SERVED, SKILLS, Card
from tests.acceptance.dealers import HONDA_VIN, stocked_dealer
from tests.acceptance.running import Running, serving
from tests.acceptance.test_javascript_client import JS, installed

pytestmark = [pytest.mark.requirement("five-skills"), pytest.mark.requirement("base-url-of-card")]

WRONG = {"filters": {"make": 7, "year_min": 1}}
"""Two problems in a search."""
Replies = dict[tuple[str, str], list[dict[str, Any]]]
"""By path of the card and binding: the data of the response of each skill, then that of the wrong search."""


class Told(NamedTuple):
    """What one client says: whether it read the signature as valid, the bindings of the card, and the responses."""

    is_signed: dict[str, Any]
    bindings: dict[str, list[str]]
    replies: Replies


def requests_of(card: Card) -> list[dict[str, Any]]:
    sent = [(skill, card.payload(skill)) for skill in SKILLS]
    sent.append(("inventory.search", card.payload("inventory.search", **WRONG)))
    return [{"mediaType": card.media_type(skill, "request"), "data": data} for skill, data in sent]


@pytest.fixture(scope="module")
def every_card(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(stocked_dealer(tmp_path_factory.mktemp("cards"), SERVED)) as running:
        yield running


@pytest.fixture(scope="module")
def in_javascript(every_card: Running) -> Told:
    """One process of Node for all cards."""
    node = installed()
    cards = [
        {"path": card.path, "bindings": card.bindings, "headers": card.headers, "requests": requests_of(card)}
        for card in CARDS
    ]
    done = subprocess.run(
        [node, "every_card.js"],
        cwd=JS,
        input=json.dumps({"url": every_card.url, "cards": cards}),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    told = dict(zip((card.path for card in CARDS), json.loads(done.stdout), strict=True))
    return Told(
        {path: each["isSigned"] for path, each in told.items()},
        {path: each["bindings"] for path, each in told.items()},
        {(path, binding): replies for path, each in told.items() for binding, replies in each["replies"].items()},
    )


@pytest.fixture(scope="module")
def in_python(every_card: Running) -> Told:
    return asyncio.run(_in_python(every_card.url))


async def _in_python(url: str) -> Told:
    told = Told({}, {}, {})
    for card in CARDS:
        async with httpx.AsyncClient(timeout=120, verify=False, headers=card.headers) as http:
            keys = jwt.PyJWKSet.from_dict((await http.get(f"{url}/.well-known/jwks.json")).json())
            verify = create_signature_verifier(lambda kid, _jku, keys=keys: keys[kid], ["ES256"])  # type: ignore[misc]
            # The resolver raises an error for a signature that is not valid.
            read = await A2ACardResolver(http, url, card.path).get_agent_card(signature_verifier=verify)
            told.is_signed[card.path] = len(read.signatures) == 1
            told.bindings[card.path] = [each.protocol_binding for each in read.supported_interfaces]
            for binding in card.bindings:
                asked = [await _asked(http, read, binding, part) for part in requests_of(card)]
                told.replies[card.path, binding] = asked
    return told


async def _asked(http: httpx.AsyncClient, card: AgentCard, binding: str, part: dict[str, Any]) -> dict[str, Any]:
    config = ClientConfig(
        httpx_client=http,
        supported_protocol_bindings=[binding],
        accepted_output_modes=["application/json"],
        streaming=False,
    )
    message = {"messageId": uuid.uuid4().hex, "role": "ROLE_USER", "parts": [part]}
    request = ParseDict({"message": message}, SendMessageRequest())
    try:
        (reply,) = [each async for each in ClientFactory(config).create(card).send_message(request)]
    except A2AError as error:
        cause = error.__cause__
        # As docs/how-to/official-sdks.md says: over HTTP+JSON the error is in the response.
        hidden = cause.response.json()["error"]["message"] if isinstance(cause, httpx.HTTPStatusError) else ""
        return {"error": f"{error} {hidden}"}
    data: dict[str, Any] = MessageToDict(reply.message.parts[0].data)["data"]
    return data


clients = pytest.mark.parametrize("client", ["in_python", "in_javascript"])


@clients
@pytest.mark.parametrize(("card", "binding"), INTERFACES, ids=[f"{card.path} {way}" for card, way in INTERFACES])
def test_an_official_client_uses_all_skills_and_sees_all_problems(
    request: pytest.FixtureRequest, client: str, card: Card, binding: str
) -> None:
    told: Told = request.getfixturevalue(client)
    information, facets, search, vehicle, lead, wrong = told.replies[card.path, binding]
    assert information["name"] == "Acceptance Motors"
    assert facets["makes"] == [{"value": "Honda", "count": 1}]
    assert (search["total"], [each["vin"] for each in search["vehicles"]]) == (1, [HONDA_VIN])
    assert vehicle["model"] == "Accord Hybrid"
    assert lead["status"] in ("received", "duplicate")
    for words in ("SCHEMA_VALIDATION_FAILED: 2 problems: ", "/filters/make: ", "/filters/year_min: "):
        assert words in wrong["error"]


@clients
@pytest.mark.parametrize("card", CARDS, ids=[card.path for card in CARDS])
@pytest.mark.requirement("card-signatures", "card-interfaces-in-order")
def test_an_official_client_verifies_the_card_and_finds_its_bindings(
    request: pytest.FixtureRequest, client: str, card: Card
) -> None:
    told: Told = request.getfixturevalue(client)
    assert told.is_signed[card.path] is True
    assert told.bindings[card.path] == list(card.bindings)


def test_the_table_has_every_card_of_the_catalog(every_card: Running) -> None:
    """Beside the second address of the card at the root."""
    catalog = httpx.get(f"{every_card.url}/.well-known/ai-catalog.json", timeout=120).json()
    listed = {each["url"] for each in catalog["entries"] if each["type"] == "application/a2a-agent-card+json"}
    assert listed == {every_card.url + card.path for card in CARDS} - {f"{every_card.url}/cards/1.0.0.json"}
