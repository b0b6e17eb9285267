"""A feed's files are taken when they are complete, imported once, and kept with their result."""

import asyncio
import gzip
import os
from pathlib import Path

import pytest
from tests.feeds.collection.feeding import FOLDER, feed_bytes, feed_dealer, states
from tests.feeds.collection.uploading import PASSWORD_HASH
from tests.patching import replace_in

from dealer_agent.feeds.collection import collection, folder_source
from dealer_agent.feeds.collection.feed_folder import feeds_with_files

pytestmark = pytest.mark.outside_protocol("automatic feeds")


def test_a_file_in_the_folder_is_imported_once_and_kept(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A second is 50 ms here.
    replace_in(monkeypatch, folder_source, "asyncio", sleep=lambda seconds: asyncio.sleep(seconds / 20))
    with feed_dealer(tmp_path / "store", database_url=database_url) as dealer:
        dealer.drop("stock.json", feed_bytes(3))
        done = dealer.collect()
        assert (states(done.files), done.problem) == (["imported"], None)
        assert dealer.for_sale() == 3
        assert (dealer.names_in("incoming"), dealer.names_in("kept")) == ([], ["stock.json"])
        assert not list((tmp_path / "store" / "drop").iterdir())
        (record,) = dealer.imports()
        assert (record.feed, record.source, record.revision) == ("main", "stock.json", done.files[0].revision)

        assert dealer.collect().files == []
        dealer.drop("again.json", feed_bytes(3))
        assert states(dealer.collect().files) == ["unchanged"]
        assert len(dealer.imports()) == 1
        state = dealer.state()
        assert (state.problem, state.is_late, state.waiting) == (None, False, 0)
        assert state.new_at is not None
        assert state.imported_at is not None
        assert state.new_at > done.files[0].received_at


def test_the_bytes_of_an_older_file_are_imported_again(tmp_path: Path) -> None:
    with feed_dealer(tmp_path / "store") as dealer:
        for count in (3, 4, 3):
            dealer.upload(feed_bytes(count))
        assert states(dealer.collect().files) == ["imported", "imported", "imported"]
        assert dealer.for_sale() == 3


def test_uploads_are_imported_in_the_order_of_their_arrival_also_when_the_disk_is_nearly_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collection, "UPLOAD_SECONDS", 0)
    toml = f'\n[[feeds]]\nname = "main"\n[feeds.upload]\npassword_hash = "{PASSWORD_HASH}"\n'
    with feed_dealer(tmp_path / "store", f"{toml}\n[feed_files]\nleast_free_mib = 1048576\n") as dealer:
        assert (dealer.collect().problem, feeds_with_files(dealer.folder)) == (None, [])
        assert dealer.state().checked_at is None
        uploads = dealer.folder / "feeds" / "main" / "uploads"
        for number, name in enumerate(("b.json", "a.json", "half.json.tmp")):
            (uploads / name).write_bytes(feed_bytes(3 + number))
            # The vendor's client sets the time of the file.
            os.utime(uploads / name, (1_700_000_000 - number,) * 2)
        assert feeds_with_files(dealer.folder) == ["main"]
        done = dealer.collect(fetches=False)
        assert [(file.name, file.state) for file in done.files] == [("b.json", "imported"), ("a.json", "imported")]
        assert feeds_with_files(dealer.folder) == []
        assert [path.name for path in uploads.iterdir()] == ["half.json.tmp"]


@pytest.mark.parametrize("name", [".stock.json", "stock.json.part", "stock.json.tmp", "stock.xml"])
def test_files_that_are_written_or_do_not_fit_the_pattern_stay(name: str, tmp_path: Path) -> None:
    with feed_dealer(tmp_path / "store", FOLDER + 'pattern = "*.json*"\n') as dealer:
        path = dealer.drop(name, feed_bytes(3))
        assert dealer.collect().files == []
        assert path.exists()


def test_an_unreadable_file_is_reported_and_the_next_file_ends_the_problem(tmp_path: Path) -> None:
    with feed_dealer(tmp_path / "store") as dealer:
        dealer.upload(b"<html><body>Please log in</body></html>", "login.html")
        (failed,) = dealer.collect().files
        assert failed.state == "failed"
        assert dealer.state().problem == failed.problem
        assert dealer.collect().files == []
        assert dealer.state().problem == failed.problem
        dealer.upload(feed_bytes(3))
        assert states(dealer.collect().files) == ["imported"]
        assert dealer.state().problem is None


def test_a_file_that_removes_too_much_is_refused_and_the_stock_stays(tmp_path: Path) -> None:
    with feed_dealer(tmp_path / "store") as dealer:
        dealer.upload(feed_bytes(10))
        dealer.upload(feed_bytes(5))
        done = dealer.collect()
        assert states(done.files) == ["imported", "refused"]
        assert dealer.for_sale() == 10
        dealer.change(FOLDER + "[feeds.checks]\nunits_lost = 0.6\n")
        dealer.upload(feed_bytes(5))
        assert states(dealer.collect().files) == ["imported"]


def test_changed_settings_of_a_feed_import_the_same_bytes_again(tmp_path: Path) -> None:
    with feed_dealer(tmp_path / "store") as dealer:
        dealer.upload(feed_bytes(3))
        dealer.collect()
        dealer.change(FOLDER.replace('"main"', '"main"\nlayout = "canonical"'))
        dealer.upload(feed_bytes(3))
        assert states(dealer.collect().files) == ["imported"]


def test_a_feed_of_some_rooftops_leaves_the_stock_of_others(tmp_path: Path) -> None:
    toml = FOLDER.replace('"main"', '"main"\nrooftops = ["Acceptance Motors South"]')
    with feed_dealer(tmp_path / "store", FOLDER) as dealer:
        dealer.upload(feed_bytes(10))
        dealer.collect()
        dealer.change(toml)
        dealer.upload(b'[{"vin": "1FTFW1E50PFA00002", "year": 2024, "make": "Ford", "model": "F-150"}]')
        assert states(dealer.collect().files) == ["imported"]
        assert dealer.for_sale() == 11
        assert dealer.imports()[0].rooftops == ("Acceptance Motors South",)


def test_a_removed_feed_leaves_no_state_and_no_job(tmp_path: Path) -> None:
    with feed_dealer(tmp_path / "store") as dealer:
        dealer.change("")
        with pytest.raises(AssertionError, match="another process has the feed"):
            dealer.collect()


def test_files_are_deleted_after_keep_days(tmp_path: Path) -> None:
    with feed_dealer(tmp_path / "store", FOLDER.replace('"main"', '"main"\nkeep_days = 0')) as dealer:
        dealer.upload(feed_bytes(3))
        assert states(dealer.collect().files) == ["imported"]
        assert dealer.names_in("kept") == []


def test_a_packed_file_is_imported_and_a_bomb_is_refused(tmp_path: Path) -> None:
    with feed_dealer(tmp_path / "store", FOLDER.replace('"main"', '"main"\nmax_mib = 11')) as dealer:
        dealer.upload(gzip.compress(feed_bytes(3)), "stock.json.gz")
        dealer.upload(gzip.compress(bytes(64 << 20)), "bomb.gz")
        done = dealer.collect()
        assert states(done.files) == ["imported", "failed"]
        assert "The unpacked file has more than" in (done.files[1].problem or "")
        assert dealer.for_sale() == 3
