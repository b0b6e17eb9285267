"""A service that is started with a wrong clock deletes nothing, says so, and goes on once the clock is confirmed."""

import re
import shutil
import subprocess
from functools import partial
from pathlib import Path

import pytest
from tests.acceptance.asking import ask, lead
from tests.acceptance.dealers import stocked_dealer
from tests.acceptance.running import COMMAND, Running, command, eventually, serving
from tests.storage.calls import list_leads, read

from dealer_agent.config import load_settings
from dealer_agent.storage.store import Store

FAKETIME = shutil.which("faketime")


def shifted(days: int) -> tuple[str, ...]:
    """The command in a process whose clock is so many days off; what measures durations stays as it is."""
    if FAKETIME is None:
        pytest.skip("GAP: faketime is not installed here (apt-get install faketime)")
    # The wrapper itself would stand between the test's signals and the service.
    variables = subprocess.check_output([FAKETIME, "-f", f"{days:+}d", "env"], text=True).splitlines()
    wanted = [line for line in variables if line.startswith(("LD_PRELOAD=", "FAKETIME="))]
    return ("env", *wanted, "FAKETIME_DONT_FAKE_MONOTONIC=1", COMMAND)


def customers(folder: Path, url: str) -> int:
    """How many leads still have their customer."""
    settings = load_settings(folder, {"DATABASE_URL": url})
    with Store.open(url, settings.cipher) as store:
        return sum(each.erased_at is None for each in read(store, settings.dealer.id, list_leads, 10))


def refused_to_delete(running: Running) -> bool:
    problems = [line.get("problem", "") for line in running.logged() if line.get("kind") == "disposal"]
    return any(re.search(r"\b(799|800) days", problem) for problem in problems)


@pytest.mark.soak
@pytest.mark.requirement("clock-doubtful")
def test_a_service_whose_clock_is_wrong_keeps_every_lead_and_says_so_once(tmp_path: Path, database_url: str) -> None:
    """Behind, then ahead. After the clock is confirmed, the lead that is too old by it loses its customer."""
    folder = stocked_dealer(tmp_path / "store", DATABASE_URL=database_url)
    with serving(folder, DATABASE_URL=database_url) as running:
        assert ask(running.url, "lead.submit", **lead()).status_code == 200
    for days in (-800, 800):
        with serving(folder, program=shifted(days), DATABASE_URL=database_url) as wrong:
            eventually("it says so", partial(refused_to_delete, wrong))
            assert wrong.stderr().count("--clock-is-right") == 1
        assert customers(folder, database_url) == 1
    words = ["leads", "dispose", "--dir", str(folder)]
    program = shifted(800)
    for more in ((), ("--dry-run",)):
        done = command(*words, *more, program=program, DATABASE_URL=database_url)
        assert done.returncode == 1
        assert "800 days after the last time" in done.stderr
    listed = command("leads", "list", "--dir", folder, program=program, DATABASE_URL=database_url)
    assert listed.returncode == 0
    assert "--clock-is-right" in listed.stderr
    assert customers(folder, database_url) == 1
    done = command(*words, "--clock-is-right", program=program, DATABASE_URL=database_url)
    assert done.returncode == 0, done.stderr
    assert re.search(r"Customers of leads.*\b730\b.*\b1\b", done.stdout), done.stdout
    assert customers(folder, database_url) == 0
