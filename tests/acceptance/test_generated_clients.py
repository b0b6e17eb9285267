"""Clients generated from the OpenAPI document work against the service (docs/protocol.md#openapi)."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.acceptance.dealers import HONDA_VIN
from tests.acceptance.generators import generators
from tests.acceptance.running import Running
from tests.acceptance.test_javascript_client import JS, installed
from tests.protocol.publishing import KEPT

from dealer_agent.apidocs.components import payload_component
from dealer_agent.apidocs.examples import example_payload
from dealer_agent.protocol.skill import SKILLS

GENERATED = Path(__file__).with_name("generated")

pytestmark = pytest.mark.requirement("openapi-generators")


@pytest.fixture(scope="module")
def document(service: Running, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The OpenAPI document that the service serves, as a file."""
    path = tmp_path_factory.mktemp("document") / "openapi.json"
    path.write_bytes(httpx.get(f"{service.url}/openapi.json", timeout=60).content)
    return path


def run(
    *command: str | Path, cwd: Path, stdin: str | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """A command that succeeded."""
    done = subprocess.run(
        command,
        cwd=cwd,
        input=stdin,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.mark.soak
def test_openapi_python_client_generates_a_client_that_uses_all_skills(
    service: Running, document: Path, tmp_path: Path
) -> None:
    """The generator warns of nothing, so it skips no operation and no schema.

    The types of the client say what the service answers.
    """
    tools = generators()
    settings = tmp_path / "generator.yml"
    settings.write_text("package_name_override: agent_client\n", "utf-8")
    done = run(
        tools / "openapi-python-client",
        *("generate", "--path", document, "--meta", "none", "--config", settings, "--fail-on-warning"),
        *("--output-path", tmp_path / "agent_client"),
        cwd=tmp_path,
        PATH=f"{tools}:{os.environ['PATH']}",
    )
    assert "arning" not in done.stdout + done.stderr
    typed = ("--strict", "--follow-imports=silent", "--config-file=", "--cache-dir", tmp_path / "mypy")
    run(sys.executable, "-m", "mypy", *typed, GENERATED / "buyer.py", cwd=tmp_path, MYPYPATH=str(tmp_path))
    answered = run(
        tools / "python", GENERATED / "buyer.py", service.url, HONDA_VIN, cwd=tmp_path, PYTHONPATH=str(tmp_path)
    )
    assert json.loads(answered.stdout) == {
        "health": "ok",
        "interfaces": ["JSONRPC", "HTTP+JSON"],
        "total": 3,
        "shown": 2,
        "newest": [2026, "Ford", True],
        "vehicle": "Accord Hybrid",
        "makes": {"Ford": 1, "Honda": 1, "Tesla": 1},
        "rooftops": ["Acceptance Motors North", "Acceptance Motors South"],
        "opens": {"open": "09:00", "close": "20:00"},
        "lead": "received",
        "errors": [
            error_payload(422, "SCHEMA_VALIDATION_FAILED", "/filters/year_min"),
            error_payload(404, "VEHICLE_NOT_FOUND", None),
            error_payload(403, "CONTACT_CONSENT_REQUIRED", "/consent/scope"),
        ],
        "over JSON-RPC": ["Acceptance Motors", "VEHICLE_NOT_FOUND"],
    }


def error_payload(status: int, code: str, pointer: str | None) -> dict[str, Any]:
    return {"status": status, "code": code, "reason": code, "pointer": pointer}


def examples(document: dict[str, Any]) -> list[tuple[str, Any, bool]]:
    """Model name, document, and whether the model takes it.

    These are all examples of the document and of both vocabularies, both cards, and each payload again with an unknown
    member.
    """
    found: list[tuple[str, Any, bool]] = []
    for path, model in (("/message:send", "SendMessageReply"), ("/rpc", "JsonRpcResult")):
        operation = document["paths"][path]["post"]
        asked = operation["requestBody"]["content"]["application/json"]
        request = asked["schema"]["$ref"].rpartition("/")[2]
        found += [(request, each["value"], True) for each in asked["examples"].values()]
        for response in operation["responses"].values():
            content = response["content"]["application/json"]
            values = [each["value"] for each in content.get("examples", {}).values()] or [content["example"]]
            for value in values:
                refused = "JsonRpcError" if "jsonrpc" in value else "Error"
                found.append((refused if "error" in value else model, value, True))
    for vendor in ("proto", "autoagent"):
        for name, value in json.loads((KEPT / "examples" / f"{vendor}.http-json.json").read_text("utf-8")).items():
            found.append(("Error" if name.isdigit() else "SendMessageReply", value, True))
    for skill in SKILLS:
        payload = example_payload(skill)
        found += [(payload_component(skill), payload | more, not more) for more in ({}, {"colour": "red"})]
    for revision, name in (("1.0.0", "AgentCard"), ("0.1.0", "LegacyAgentCard")):
        found.append((name, json.loads((KEPT / "cards" / f"{revision}.json").read_text("utf-8")), True))
    return found


def test_the_pydantic_models_of_datamodel_code_generator_parse_every_example(document: Path, tmp_path: Path) -> None:
    tools = generators()
    done = run(
        tools / "datamodel-codegen",
        *("--input", document, "--input-file-type", "openapi", "--output", tmp_path / "agent_models.py"),
        *("--output-model-type", "pydantic_v2.BaseModel", "--target-python-version", "3.11", "--formatters", "builtin"),
        cwd=tmp_path,
    )
    warned = [line for line in done.stderr.splitlines() if "Warning" in line]
    # JSON Schema lets a document name formats of its own; only validators that know them check them.
    assert all("format of 'timezone'" in line or "format of 'phone'" in line for line in warned), done.stderr
    rows = examples(json.loads(document.read_bytes()))
    parsed = run(
        tools / "python", GENERATED / "parse.py", cwd=tmp_path, stdin=json.dumps(rows), PYTHONPATH=str(tmp_path)
    )
    assert int(parsed.stdout) == sum(sound for _, _, sound in rows) > 50


@pytest.mark.soak
def test_the_types_of_openapi_typescript_compile_in_a_client_that_works(
    service: Running, document: Path, tmp_path: Path
) -> None:
    node = installed()
    tools = JS / "node_modules" / ".bin"
    done = run(tools / "openapi-typescript", document, "-o", tmp_path / "service.ts", cwd=tmp_path)
    assert "arning" not in done.stdout + done.stderr
    shutil.copy(GENERATED / "buyer.ts", tmp_path)
    (tmp_path / "node_modules").symlink_to(JS / "node_modules")
    (tmp_path / "package.json").write_text('{"type": "module"}', "utf-8")
    run(
        *(tools / "tsc", "--strict", "--noUncheckedIndexedAccess", "--exactOptionalPropertyTypes", "--skipLibCheck"),
        *("--target", "es2022", "--module", "nodenext", "--lib", "es2022,dom", "buyer.ts"),
        cwd=tmp_path,
    )
    answered = run(node, "buyer.js", cwd=tmp_path, OPEN_URL=service.url)
    assert json.loads(answered.stdout) == {
        "total": 3,
        "newest": [2026, "Ford"],
        "wrong": [422, "SCHEMA_VALIDATION_FAILED", "/filters/year_min"],
        "misspelt": [422, "SCHEMA_VALIDATION_FAILED", "/filters/price_maximum"],
        "call": 7,
        "interfaces": ["JSONRPC", "HTTP+JSON"],
    }
