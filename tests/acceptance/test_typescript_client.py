"""The TypeScript client in `clients/typescript`: its types, its own tests, and the program of its guide."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.conftest import OFFERS, Guarded
from tests.acceptance.dealers import HONDA_VIN, stocked_dealer
from tests.acceptance.known_agent import Known
from tests.acceptance.running import Running, serving, succeed_here
from tests.acceptance.test_generated_clients import run
from tests.acceptance.test_javascript_client import installed

from dealer_agent import __version__

pytestmark = pytest.mark.outside_protocol("the TypeScript client")

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "clients" / "typescript"
GUIDE = ROOT / "docs" / "how-to" / "typescript-client.md"
TSC = CLIENT / "node_modules" / ".bin" / "tsc"
LONGEST_PROGRAM = 31
"""The most lines of the program that finds an offer, looks at one vehicle and sends a lead."""


@pytest.fixture(scope="module")
def node() -> Path:
    """Node, with the client installed and built as its developers do it."""
    found = installed(CLIENT)
    run(TSC, cwd=CLIENT)
    return found


@pytest.fixture(scope="module")
def offering(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[str]]]:
    """A service that makes offers, and tokens of three agents: an agent holds a vehicle once a day."""
    folder = stocked_dealer(tmp_path_factory.mktemp("offering"), OFFERS)
    tokens = [succeed_here("tokens", "create", f"Agent {n}", "--dir", folder).strip() for n in range(3)]
    with serving(folder) as running:
        yield running.url, tokens


def test_it_passes_its_tests_against_a_running_service(
    node: Path, service: Running, guarded: Guarded, offering: tuple[str, list[str]]
) -> None:
    done = run(
        node,
        "--test",
        "--test-reporter=tap",
        *sorted((CLIENT / "test").glob("*.test.js")),
        cwd=CLIENT,
        OPEN_URL=service.url,
        GUARDED_URL=guarded.url,
        TOKEN=guarded.token,
        OFFERS_URL=offering[0],
        OFFERS_TOKENS=" ".join(offering[1][:2]),
        VIN=HONDA_VIN,
    ).stdout
    counts = dict(re.findall(r"^# (pass|skipped) (\d+)$", done, re.MULTILINE))
    assert int(counts["pass"]) > 80, done
    assert counts["skipped"] == "0", done


def programs(page: Path = GUIDE, language: str = "ts") -> Iterator[str]:
    """The TypeScript or JavaScript programs of a page, in their order."""
    yield from re.findall(rf"^```{language}\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def test_the_typescript_program_of_the_page_for_buyer_agents_is_the_first_of_the_guide() -> None:
    assert list(programs(GUIDE.with_name("buyer-agent.md"))) == [next(programs())]


def test_its_types_refuse_mistakes_and_the_programs_of_its_guide_run_as_they_are_written(
    node: Path, service: Running, tmp_path: Path
) -> None:
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "dealer-agent-client").symlink_to(CLIENT)
    (tmp_path / "package.json").write_text('{"type": "module"}', "utf-8")
    first, *others = (program.replace("http://127.0.0.1:8080", service.url) for program in programs())
    assert len(first.splitlines()) <= LONGEST_PROGRAM
    # Each line of `types.ts` that must not compile says so. The compiler fails if it does. It runs once for everything.
    shutil.copy(CLIENT / "test" / "types.ts", tmp_path)
    # The other programs continue each other.
    (tmp_path / "drive.ts").write_text(first, "utf-8")
    (tmp_path / "guide.ts").write_text("\n".join(others), "utf-8")
    strict = json.loads((CLIENT / "tsconfig.json").read_text("utf-8"))["compilerOptions"]
    options = strict | {"rootDir": ".", "outDir": "built", "noUnusedLocals": False}
    (tmp_path / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "include": ["*.ts"]}), "utf-8")
    run(TSC, cwd=tmp_path)
    done = run(node, "built/drive.js", cwd=tmp_path).stdout
    assert "2024 Honda Accord Hybrid, $28040" in done
    assert re.search(r"^received \S", done, re.MULTILINE), done
    assert "1 vehicles match" in run(node, "built/guide.js", cwd=tmp_path).stdout


def test_the_program_of_its_guide_for_quotes_and_holds_runs(
    node: Path, offering: tuple[str, list[str]], tmp_path: Path
) -> None:
    url, tokens = offering
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "dealer-agent-client").symlink_to(CLIENT)
    (tmp_path / "package.json").write_text('{"type": "module"}', "utf-8")
    (text,) = programs(language="typescript")
    program = tmp_path / "offers.mts"
    program.write_text(text.replace("http://127.0.0.1:8080", url), "utf-8")
    (tmp_path / "node.d.ts").write_text("declare const process: { env: Record<string, string | undefined> };", "utf-8")
    run(TSC, "--strict", "--module", "nodenext", "--target", "es2022", "node.d.ts", "offers.mts", cwd=tmp_path)
    done = run(node, tmp_path / "offers.mjs", cwd=tmp_path, DEALER_AGENT_TOKEN=tokens[2]).stdout
    assert "firm" in done
    assert "held until" in done


def test_its_package_has_the_version_of_the_project_and_no_dependencies_at_run_time() -> None:
    package = json.loads((CLIENT / "package.json").read_text("utf-8"))
    lock = json.loads((CLIENT / "package-lock.json").read_text("utf-8"))
    assert package["version"] == lock["version"] == __version__
    assert "dependencies" not in package
    assert [name for name, each in lock["packages"].items() if name and not each.get("dev")] == []
    assert not any("resolved" in each for each in lock["packages"].values())


@pytest.mark.requirement("signed-requests")
def test_the_service_knows_who_calls_with_the_typescript_client(node: Path, known: Known, tmp_path: Path) -> None:
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "dealer-agent-client").symlink_to(CLIENT)
    program = tmp_path / "signed.mjs"
    (text,) = programs(language="js")
    for written, real in (
        ("http://127.0.0.1:8080", known.url),
        ("agent.pem", str(known.file)),
        ("https://agent.example", known.directory.origin),
    ):
        text = text.replace(written, real)
    program.write_text(text, "utf-8")

    def search() -> None:
        assert run(node, program, cwd=tmp_path).stdout.strip() == "1"

    assert known.caller_of(search) == known.directory.origin
