"""What the official clients show of each error: the table and the lines of code in docs/how-to/official-sdks.md."""

import asyncio
import json
import re
import subprocess
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types.a2a_pb2 import SendMessageRequest
from a2a.utils.errors import A2AError
from google.protobuf.json_format import ParseDict
from tests.acceptance.asking import body
from tests.acceptance.every_error import VOCABULARIES, example, serving_errors
from tests.acceptance.test_javascript_client import JS, installed

from dealer_agent.protocol.errors import ERRORS

PAGE = Path(__file__).parents[2] / "docs/how-to/official-sdks.md"
BINDINGS = ("JSONRPC", "HTTP+JSON")


class Shown(NamedTuple):
    """What one client shows of one error: the class of its exception, and the parts of the error that are in it."""

    name: str
    parts: str

    def __str__(self) -> str:
        return f"`{self.name}`: {self.parts}"


Seen = dict[tuple[str, str, str, str], Shown]
"""By vocabulary, code, binding and client."""


async def in_python(url: str, binding: str) -> A2AError:
    # Without certificates, which take longer to read than the rest of the test.
    async with httpx.AsyncClient(timeout=120, verify=False) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        config = ClientConfig(httpx_client=http, supported_protocol_bindings=[binding], streaming=False)
        request = ParseDict({"message": body("inventory.search")["message"]}, SendMessageRequest())
        with pytest.raises(A2AError) as caught:
            _ = [reply async for reply in ClientFactory(config).create(card).send_message(request)]
        return caught.value


def shown_in_python(error: A2AError, message: str) -> Shown:
    if message in str(error):
        return Shown(type(error).__name__, "message, `data`" if error.data else "message")
    status = isinstance(error.__cause__, httpx.HTTPStatusError) and str(error.__cause__.response.status_code)
    # The digits may also be a part of the port.
    return Shown(type(error).__name__, "status" if re.search(rf"\b{status}\b", str(error)) else "URL")


def shown_in_javascript(error: dict[str, Any], message: str) -> Shown:
    assert error["message"] == message
    return Shown(
        error["name"], ", ".join(["message", *(f"`{name}`" for name in ("data", "metadata") if name in error)])
    )


@pytest.fixture(scope="module")
def seen() -> Iterator[Seen]:
    node = installed()
    with serving_errors() as base:
        urls = {(words, code): f"{base}/{words}/{code}" for words in VOCABULARIES for code in ERRORS}
        done = subprocess.run(
            [node, "errors.js", *(f"{url}/" for url in urls.values())],
            cwd=JS,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        in_javascript = json.loads(done.stdout)
        found: Seen = {}
        for (words, code), url in urls.items():
            message = example(code).coded_message
            for binding in BINDINGS:
                error = asyncio.run(in_python(url, binding))
                found[words, code, binding, "Python"] = shown_in_python(error, message)
                of_javascript = in_javascript[f"{url}/"][binding]
                found[words, code, binding, "JavaScript"] = shown_in_javascript(of_javascript, message)
        yield found


def columns(seen: Seen, words: str, code: str) -> list[str]:
    return [str(seen[words, code, binding, client]) for binding in BINDINGS for client in ("Python", "JavaScript")]


@pytest.mark.requirement("message-has-all-problems")
def test_the_table_says_what_each_client_shows_of_each_error(seen: Seen) -> None:
    rows = [
        line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if re.match(r"\| `[A-Z_]+` \|", line)
    ]
    assert rows == [[f"`{code}`", *columns(seen, "proto", code)] for code in ERRORS]


@pytest.mark.requirement("message-has-all-problems")
def test_both_clients_show_the_code_and_all_problems_wherever_they_show_anything_of_the_body(seen: Seen) -> None:
    """The Python client shows nothing of most bodies with another status than 200."""
    hidden = {key for key, shown in seen.items() if not shown.parts.startswith("message")}
    assert {client for *_, client in hidden} == {"Python"}
    over_json_rpc = {code for _, code, binding, _ in hidden if binding == "JSONRPC"}
    assert over_json_rpc == {
        "AUTH_REQUIRED",
        "RATE_LIMITED",
        "CONTENT_TYPE_NOT_SUPPORTED",
        "CALLER_NOT_KNOWN",
        "HOLD_LIMIT",
    }


@pytest.mark.requirement("vocabulary-json-rpc-form")
def test_what_differs_in_the_other_vocabulary_is_on_the_page(seen: Seen) -> None:
    """In that vocabulary, `error.data` is an object, in which the Python client does not look."""
    for code in ERRORS:
        for binding in BINDINGS:
            python = seen["proto", code, binding, "Python"], seen["autoagent", code, binding, "Python"]
            javascript = seen["proto", code, binding, "JavaScript"], seen["autoagent", code, binding, "JavaScript"]
            if binding == "HTTP+JSON":
                assert python[0] == python[1]
                assert javascript[0] == javascript[1]
            else:
                assert python[0].parts.removesuffix(", `data`") == python[1].parts
                assert javascript[0].parts == javascript[1].parts
    text = PAGE.read_text()
    for code in ("UNSUPPORTED_SKILL", "RATE_LIMITED"):
        names = [seen["autoagent", code, "JSONRPC", client].name for client in ("Python", "JavaScript")]
        wanted = {name for name in names if name != "A2AClientError"}
        assert all(f"`{name}`" in text.split("## The vocabulary")[1] for name in wanted), (code, names)


@pytest.mark.outside_protocol("the documents")
def test_the_lines_of_the_clients_that_the_page_quotes_are_there() -> None:
    """After an upgrade of a client, this test says which lines moved."""
    installed()
    spec = find_spec("a2a")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    places = {
        f"a2a-sdk {version('a2a-sdk')}": Path(spec.submodule_search_locations[0]).parent,
        f"@a2a-js/sdk {json.loads((JS / 'node_modules/@a2a-js/sdk/package.json').read_text())['version']}": JS
        / "node_modules/@a2a-js/sdk",
    }
    text = PAGE.read_text()
    quoted = re.findall(r"`([\w/@-]+\.(?:py|js))` line (\d+): `([^`]+)`", text)
    assert len(quoted) >= 8
    assert all(name in text for name in places)
    for file, number, code in quoted:
        (path,) = (place / file for place in places.values() if (place / file).exists())
        assert code in path.read_text().splitlines()[int(number) - 1], (file, number)


@pytest.mark.requirement("failure-is-not-2xx")
def test_the_hidden_body_is_in_the_cause_of_the_exception(seen: Seen) -> None:
    """As the page says: the Python client keeps httpx's exception, which has the whole response."""
    hidden = [key for key, shown in seen.items() if not shown.parts.startswith("message") and key[0] == "proto"]
    names = code_of_the_page()
    with serving_errors() as base:
        for words, code, binding, _ in hidden:
            found = names["body_of"](asyncio.run(in_python(f"{base}/{words}/{code}", binding)))
            assert found["error"]["message"] == example(code).coded_message
        assert names["body_of"](asyncio.run(in_python(f"{base}/proto/VEHICLE_NOT_FOUND", "JSONRPC"))) is None


@pytest.mark.requirement("error-details")
def test_the_hook_of_the_page_sees_the_details_of_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    async def sent(url: str) -> None:
        async with code_of_the_page()["http"] as http:
            await http.post(url, json={})

    with serving_errors() as base:
        asyncio.run(sent(f"{base}/proto/SCHEMA_VALIDATION_FAILED/rpc"))
    assert "'/filters/year_min'" in capsys.readouterr().out


def code_of_the_page() -> dict[str, Any]:
    names: dict[str, Any] = {"httpx": httpx, "A2AError": A2AError}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(block, names)
    return names
