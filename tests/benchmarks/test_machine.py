"""Which figures are old, and what an earlier tree is compared with."""

import subprocess
from pathlib import Path

import pytest

from benchmarks import compare, machine

pytestmark = pytest.mark.outside_protocol("benchmarks")
UNKNOWN = "0" * 40


def _newest() -> str:
    found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=compare.ROOT, capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.skip("this tree has no history of git")
    return found.stdout.strip()


def test_figures_of_a_commit_that_is_not_in_the_history_are_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "measured_commits", lambda: {"wire": _newest(), "leads": UNKNOWN})
    assert machine.old_figures() == [f"leads: measured in {UNKNOWN}, which this history does not have"]


def test_figures_are_old_after_many_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "measured_commits", lambda: {"wire": _newest()})
    monkeypatch.setattr(machine, "MOST_COMMITS", -1)
    (sentence,) = machine.old_figures()
    assert sentence.endswith(", 0 commits ago")


def test_each_part_has_the_commit_in_which_it_was_measured() -> None:
    assert {"wire", "leads", "import", "platform"} <= machine.measured_commits().keys()


def test_the_sources_of_an_earlier_commit_are_unpacked(tmp_path: Path) -> None:
    tree = compare.unpacked(_newest(), tmp_path / "tree")
    assert (tree / "src" / "dealer_agent" / "skills.py").is_file()
    with pytest.raises(LookupError, match="no commit"):
        compare.unpacked(UNKNOWN, tmp_path / "other")
