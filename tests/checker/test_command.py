"""`dealer-agent check`: options, exit codes, reports."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.running import command, command_here, free_port, serving

from dealer_agent.self_test.dealer import make_dealer

pytestmark = pytest.mark.outside_protocol("checker")

PROFILE = ("--profile", "dealer-agent")
FEW = ("--only", "envelope.reply", "--only", "http.nosniff", *PROFILE, "--revision", "1.0.0", "--rate", "1000")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("served") / "dealer"
    make_dealer(folder)
    with serving(folder) as service:
        yield service.url


def test_a_good_dealer_passes_and_each_report_is_written(address: str, tmp_path: Path) -> None:
    reports = [tmp_path / f"report{suffix}" for suffix in (".html", ".json", ".xml", ".svg")]
    options = [option for report in reports for option in ("--report", report)]
    done = command("check", address, *FEW, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All requirements that were checked are fulfilled." in done.stdout
    assert all(report.stat().st_size > 500 for report in reports)
    assert json.loads(reports[1].read_bytes())["conclusion"] == "passed"


def test_json_is_one_document(address: str) -> None:
    done = command_here("check", address, *FEW, "--json")
    assert done.returncode == 0
    assert {each["outcome"] for each in json.loads(done.stdout)["verdicts"]} == {"pass"}


def test_a_stale_expectation_fails_the_run(address: str, tmp_path: Path) -> None:
    expected = tmp_path / "expected.toml"
    expected.write_text('[[expected]]\nid = "envelope.reply.role"\nreason = "Our SDK is old."\n', "utf-8")
    done = command_here("check", address, *FEW, "--expected", expected)
    assert done.returncode == 1
    assert "it passes. Remove the entry." in done.stdout


def test_a_run_that_checks_nothing_fails(address: str) -> None:
    done = command_here("check", address, "--only", "json-rpc", "--binding", "HTTP+JSON")
    assert done.returncode == 1
    assert "Nothing was checked." in done.stdout


def test_an_address_where_nothing_answers_is_another_exit_code(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    done = command_here("check", f"http://127.0.0.1:{free_port()}", "--report", report)
    assert done.returncode == 3
    assert "No response" in done.stderr
    assert "No response" in report.read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["localhost:8080"], "http://"),
        (["http://localhost", "--only", "envelope.reply.roll"], "envelope.reply.role"),
        (["http://localhost", "--only", "http.nosniff"], "--profile dealer-agent"),
        (["http://localhost", "--profile", "strict"], "dealer-agent"),
        (["http://localhost", "--revision", "7"], "1.0.0"),
        (["http://localhost", "--binding", "gRPC"], "JSONRPC"),
        (["http://localhost", "--report", "report.pdf"], ".html"),
        (["http://localhost", "--report", "no-such-folder/report.html"], "no folder"),
    ],
)
def test_a_wrong_option_is_explained(arguments: list[str], says: str) -> None:
    done = command_here("check", *arguments)
    assert done.returncode == 2
    assert says in done.stderr


@pytest.mark.parametrize("text", ["[[expected]\n", '[[expected]]\nid = "x"\n', '[[known]]\nid = "x"\n', "\ufeff\x00"])
def test_a_wrong_file_of_expected_failures_is_explained(text: str, tmp_path: Path) -> None:
    expected = tmp_path / "expected.toml"
    expected.write_text(text, "utf-8")
    done = command_here("check", "http://localhost", "--expected", expected)
    assert done.returncode == 2
    assert "expected.toml" in done.stderr.replace("\n", "").replace("│", "").replace(" ", "")
