"""The end of an import's process decides about its file: refused at a limit, tried again after a kill from outside."""

import gzip
import signal
import sys
from pathlib import Path

import pytest
from tests.acceptance.running import COMMAND, command
from tests.feeds.collection.feeding import FeedDealer, feed_bytes, feed_dealer, states

from dealer_agent.catalogue_loading.child_processes import OUT_OF_MEMORY, UNEXPECTED
from dealer_agent.feeds.collection import collection
from dealer_agent.feeds.collection.collection import CollectionResult, import_in_process
from dealer_agent.storage.stock.reading import RefusedImport, list_refused_imports

pytestmark = pytest.mark.outside_protocol("automatic feeds")


def collect(dealer: FeedDealer) -> CollectionResult:
    return dealer.collect(run_import=import_in_process)


def refused_imports(dealer: FeedDealer) -> list[RefusedImport]:
    with dealer.store.read(dealer.settings.dealer.id) as tx:
        return list_refused_imports(tx, 10)


def program_that(folder: Path, act: str) -> str:
    """A program in the place of Python."""
    program = folder / "python"
    program.write_text(f"#!/bin/sh\n{act}\n", "utf-8")
    program.chmod(0o755)
    return str(program)


AT_A_LIMIT = {
    "processor time": ("kill -XCPU $$", "processor time"),
    "time": ("kill -ALRM $$", "minutes to read"),
    "memory": (f"exit {OUT_OF_MEMORY}", "MiB of memory"),
    "memory of the stack": ("kill -SEGV $$", "MiB of memory"),
    "memory of a library": ("kill -ABRT $$", "MiB of memory"),
}


@pytest.mark.parametrize(("act", "words"), AT_A_LIMIT.values(), ids=AT_A_LIMIT)
def test_a_file_at_a_limit_is_refused_at_once_and_the_next_file_is_imported(
    act: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with feed_dealer(tmp_path / "store") as dealer:
        dealer.upload(feed_bytes(5))
        with monkeypatch.context() as patch:
            patch.setattr(sys, "executable", program_that(tmp_path, act))
            (failed,) = collect(dealer).files
        assert (failed.state, failed.attempts) == ("failed", 1)
        assert words in (failed.problem or "")
        assert [each.findings[0].sentence for each in refused_imports(dealer)] == [failed.problem]
        assert (dealer.for_sale(), dealer.names_in("incoming"), len(dealer.names_in("refused"))) == (0, [], 1)
        dealer.upload(feed_bytes(6))
        assert states(dealer.collect().files) == ["imported"]
        assert dealer.state().problem is None


# Not HUP: a program that `nohup` started, as the tests may be, ignores it with all its children.
@pytest.mark.parametrize("name", ["KILL", "TERM"])
def test_a_file_whose_import_is_ended_from_outside_is_tried_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with feed_dealer(tmp_path / "store") as dealer:
        dealer.upload(feed_bytes(5))
        with monkeypatch.context() as patch:
            patch.setattr(sys, "executable", program_that(tmp_path, f"kill -{name} $$"))
            done = collect(dealer)
        assert (done.files, refused_imports(dealer)) == ([], [])
        assert f"signal {getattr(signal, f'SIG{name}').value}" in (done.problem or "")
        (waiting,) = dealer.files()
        assert (waiting.state, waiting.attempts) == ("waiting", 1)
        assert states(dealer.collect().files) == ["imported"]


DATABASE_FAILED = 1
"""The exit code of an import that ends with an expected error, such as a failure of the database."""


@pytest.mark.parametrize(
    ("code", "attempts"), [(DATABASE_FAILED, 0), (UNEXPECTED, 1)], ids=["the database", "an unknown reason"]
)
def test_a_failed_import_counts_as_an_attempt_only_if_the_file_may_be_the_cause(
    code: int, attempts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with feed_dealer(tmp_path / "store") as dealer:
        dealer.upload(feed_bytes(5))
        with monkeypatch.context() as patch:
            patch.setattr(sys, "executable", program_that(tmp_path, f"echo Broken >&2; exit {code}"))
            assert collect(dealer).problem == "Broken"
        assert [(file.state, file.attempts) for file in dealer.files()] == [("waiting", attempts)]


def test_an_import_without_end_is_ended_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with feed_dealer(tmp_path / "store") as dealer:
        dealer.upload(feed_bytes(5))
        with monkeypatch.context() as patch:
            patch.setattr(sys, "executable", program_that(tmp_path, "exec sleep 600"))
            patch.setattr(collection, "_IMPORT_SECONDS", 0.1)
            assert "did not finish the import in time" in (collect(dealer).problem or "")
        assert [(file.state, file.attempts) for file in dealer.files()] == [("waiting", 0)]
        assert states(dealer.collect().files) == ["imported"]


def nested(count: int) -> bytes:
    """A packed file of a few KiB that takes much memory although it is within all bounds."""
    return gzip.compress(feed_bytes(2)[:-1] + b',{"vin":"1","a":[' + b"{}," * count + b"{}]}]")


LIMITED = """
from dealer_agent.catalogue_loading import child_processes
from dealer_agent.feeds.collection.import_process import ImportJob, do
from dealer_agent.feeds.file_jobs import run_file_job
child_processes.MOST_MEMORY_MIB = 64
run_file_job(ImportJob, do)
"""
"""The import's process with a lower limit, so the tests need less memory."""
LESS_MEMORY = f'ulimit -v {260 << 10}; exec "$@"'
"""The same for a command, by a limit of the operating system."""


def test_a_file_that_takes_all_memory_is_refused_by_the_process_that_started_its_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with feed_dealer(tmp_path / "store") as dealer:
        dealer.upload(nested(1_500_000), "feed.gz")
        monkeypatch.setattr(sys, "executable", program_that(tmp_path, f'exec {sys.executable} -P -c "{LIMITED}"'))
        (failed,) = collect(dealer).files
        assert (failed.state, failed.attempts) == ("failed", 1)
        assert "MiB of memory" in (failed.problem or "")


def test_a_command_refuses_a_file_that_takes_all_memory_in_plain_words(tmp_path: Path) -> None:
    with feed_dealer(tmp_path / "store") as dealer:
        file = dealer.drop("feed.gz", nested(2_000_000))
        program = ("sh", "-c", LESS_MEMORY, "sh", COMMAND)
        for options, refusals in (["--dry-run"], 0), ([], 1):
            done = command("inventory", "import", file, *options, "--dir", dealer.folder, program=program)
            assert (done.returncode, done.stdout) == (1, "")
            assert done.stderr.startswith("Error: The file needs more than")
            assert [each.source for each in refused_imports(dealer)] == ["feed.gz"] * refusals
        assert (dealer.for_sale(), dealer.imports()) == (0, [])
