"""The card of each published version (docs/protocol.md#version-cards)."""

from typing import Any

import httpx
import pytest
from a2a.types import AgentCard
from google.protobuf.json_format import ParseDict
from tests.protocol.bodies import STEMS
from tests.published_versions.schemas import SCHEMAS_OF, defects, needs_schemas, schemas
from tests.published_versions.talking import ACTIVATION, VERSIONS, body, check_form, data, error_payload
from tests.server.conftest import OpenDealership
from tests.server.dealership import LISTENS_AT, Dealership

pytestmark = needs_schemas
every_version = pytest.mark.parametrize("version", VERSIONS)


def card_of(opened: Dealership, version: str) -> Any:
    answer = opened.get(f"/aap/{version}/.well-known/agent-card.json")
    assert answer.status_code == 200
    return answer.json()


@every_version
@pytest.mark.requirement("version-cards")
def test_the_card_is_valid_by_the_published_schema_and_for_a2a(published: Dealership, version: str) -> None:
    card = card_of(published, version)
    assert not defects(version, "agent-card", card)
    # Unknown or misspelt members raise here.
    assert ParseDict(card, AgentCard()).name == "Test Motors"


@every_version
@pytest.mark.requirement("version-cards", "version-addresses")
def test_the_card_names_the_addresses_of_its_version(published: Dealership, version: str) -> None:
    root = f"{LISTENS_AT}/aap/{version}"
    expected = [{"url": f"{root}/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]
    if version == "1.0":
        expected.append({"url": root, "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"})
    assert card_of(published, version)["supportedInterfaces"] == expected


@every_version
@pytest.mark.requirement("version-cards")
def test_the_card_has_one_extension(published: Dealership, version: str) -> None:
    (extension,) = card_of(published, version)["capabilities"]["extensions"]
    assert extension["required"] is (version == "next")
    named = extension["params"]["skills"]
    assert set(named) == set(STEMS)
    for skill, stem in STEMS.items():
        for kind in ("request", "response"):
            published_at = schemas(version)[f"{stem}-{kind}"]["$id"]
            if version == "1.2":
                published_at = published_at.replace(f"v{SCHEMAS_OF[version]}", "v1.2")
            assert named[skill][f"{kind}_schema"] == published_at


@every_version
@pytest.mark.requirement("version-cards", "version-vocabulary")
def test_the_card_has_the_media_types_of_one_vocabulary(published: Dealership, version: str) -> None:
    card = card_of(published, version)
    modes = [*card["defaultInputModes"], *card["defaultOutputModes"]]
    assert len(modes) == 2 * len(STEMS)
    assert all(mode.startswith("application/vnd.autoagent.") for mode in modes)


@pytest.mark.requirement("version-cards", "version-addresses")
def test_the_cards_follow_the_settings_of_the_dealer(open_dealership: OpenDealership) -> None:
    opened = open_dealership(
        '[service]\npublic_url = "https://cars.example"\nbase_path = "/agent"\nskills_off = ["lead.submit"]\n'
        '[auth]\nmode = "bearer"\nskills = ["inventory.vehicle"]\n'
    )
    answer = opened.get("/agent/aap/1.0/.well-known/agent-card.json")
    card = answer.json()
    assert [each["url"] for each in card["supportedInterfaces"]] == [
        "https://cars.example/agent/aap/1.0/rpc",
        "https://cars.example/agent/aap/1.0",
    ]
    assert "lead.submit" not in {each["id"] for each in card["skills"]}
    assert "lead.submit" not in card["capabilities"]["extensions"][0]["params"]["skills"]
    assert card["securitySchemes"] == {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}
    for interface in card["supportedInterfaces"]:
        path, sent = httpx.URL(interface["url"]).path, body(data("1.0", "dealer.information"))
        if interface["protocolBinding"] == "JSONRPC":
            call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": sent}
            assert opened.post(call, path).json()["result"]
        else:
            assert opened.post(sent, f"{path}/message:send").json()["message"]


@every_version
@pytest.mark.requirement("version-cards", "card-caching")
def test_a_card_is_cached_and_its_id_is_its_own(published: Dealership, version: str) -> None:
    path = f"/aap/{version}/.well-known/agent-card.json"
    etag = published.get(path).headers["etag"]
    assert published.get(path, if_none_match=etag).status_code == 304
    ids = {card_of(published, each)["capabilities"]["extensions"][0]["params"]["id"] for each in VERSIONS}
    assert len(ids) == len(VERSIONS)


@every_version
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "rpc", 405), ("POST", "", 404), ("POST", "tasks/task-1", 404), ("GET", "message:send", 404)],
)
@pytest.mark.requirement("version-addresses", "version-errors")
def test_a_wrong_address_names_the_right_one_in_the_form_of_the_version(
    published: Dealership, version: str, method: str, path: str, status: int
) -> None:
    status = 405 if version == "1.0" and path == "message:send" else status
    answer = published.request(method, f"/aap/{version}/{path}", headers=ACTIVATION)
    assert answer.status_code == status
    assert answer.headers.get("allow") == ("POST" if status == 405 else None)
    check_form(version, "message:send", answer)
    payload = error_payload(answer)
    assert payload["code"] == "UNSUPPORTED_SKILL"
    assert f"{LISTENS_AT}/aap/{version}/rpc" in payload["message"]
    assert (f"{LISTENS_AT}/aap/{version}/message:send" in payload["message"]) is (version == "1.0")
