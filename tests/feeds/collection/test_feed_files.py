"""The files of feeds are bounded on the disk of a machine, and no feed uses up the room of the others."""

import shutil
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncssh
import pytest
from tests.feeds.collection.feed_server import feed_server
from tests.feeds.collection.feeding import FOLDER, feed_bytes, feed_dealer, states
from tests.servers.small_disk import small_disk

from dealer_agent.feeds.collection import feed_folder
from dealer_agent.feeds.collection.feed_folder import delete_old_files, delete_surplus
from dealer_agent.feeds.collection.uploads import Upload, UploadFolder, UploadLimits

pytestmark = pytest.mark.outside_protocol("automatic feeds")

NOW = datetime(2026, 11, 2, 12, tzinfo=UTC)
DAY = timedelta(days=1)
MUCH = 1 << 50
JUNK = b"junk\n" + bytes(1 << 20)


def file_of(folder: Path, place: str, number: int, size: int = 100, age: timedelta = DAY) -> None:
    """A file such as `main/kept`, that arrived some time before NOW. Higher numbers arrived later."""
    of_feed = folder / "feeds" / place
    of_feed.mkdir(parents=True, exist_ok=True)
    arrived = int((NOW - age).timestamp()) * 10**9 + number
    (of_feed / f"{arrived:020}-abcd-{number}").write_bytes(bytes(size))


def left_in(folder: Path, place: str) -> list[int]:
    return sorted(int(path.name.rpartition("-")[2]) for path in (folder / "feeds" / place).iterdir())


def test_refused_files_are_deleted_first_and_then_the_oldest(tmp_path: Path) -> None:
    for number in range(5):
        file_of(tmp_path, "main/kept", number)
        file_of(tmp_path, "main/refused", number)
    file_of(tmp_path, "main/incoming", 0, size=10_000)
    file_of(tmp_path, "other/kept", 0)
    delete_surplus(tmp_path, 700, MUCH, 0)
    assert (left_in(tmp_path, "main/refused"), left_in(tmp_path, "main/kept")) == ([3, 4], [0, 1, 2, 3, 4])
    delete_surplus(tmp_path, 300, MUCH, 0)
    assert (left_in(tmp_path, "main/refused"), left_in(tmp_path, "main/kept")) == ([], [2, 3, 4])
    assert (left_in(tmp_path, "main/incoming"), left_in(tmp_path, "other/kept")) == ([0], [0])


def test_the_number_of_kept_files_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_folder, "MOST_KEPT", 3)
    for number in range(5):
        file_of(tmp_path, "main/kept", number)
    delete_surplus(tmp_path, MUCH, MUCH, 0)
    assert left_in(tmp_path, "main/kept") == [2, 3, 4]


def test_waiting_and_kept_files_share_the_bound_of_the_dealer_also_those_of_removed_feeds(tmp_path: Path) -> None:
    for number in range(4):
        file_of(tmp_path, "main/kept", number)
        file_of(tmp_path, "removed/kept", number, age=2 * DAY)
    file_of(tmp_path, "other/incoming", 0, size=500)
    delete_surplus(tmp_path, MUCH, 1100, 0)
    assert (left_in(tmp_path, "main/kept"), left_in(tmp_path, "removed/kept")) == ([0, 1, 2, 3], [2, 3])


def test_kept_files_leave_the_disk_when_it_is_nearly_full(tmp_path: Path) -> None:
    for number in range(4):
        file_of(tmp_path, "main/kept", number)
    delete_surplus(tmp_path, MUCH, MUCH, MUCH)
    assert left_in(tmp_path, "main/kept") == []


def test_refused_files_are_kept_briefly_and_the_others_for_keep_days(tmp_path: Path) -> None:
    for place in ("main/kept", "main/refused", "main/incoming", "removed/kept", "removed/incoming"):
        for number, age in enumerate((40 * DAY, 4 * DAY, 2 * DAY)):
            file_of(tmp_path, place, number, age=age)
    delete_old_files(tmp_path, {"main": 30 * DAY}, 3 * DAY, NOW)
    assert {place: left_in(tmp_path, place) for place in ("main/kept", "main/refused", "main/incoming")} == {
        "main/kept": [1, 2],
        "main/refused": [2],
        "main/incoming": [0, 1, 2],
    }
    assert left_in(tmp_path, "removed/kept") == left_in(tmp_path, "removed/incoming") == [2]


def test_junk_of_an_account_does_not_stay_and_replaces_no_file_that_was_imported(tmp_path: Path) -> None:
    with feed_dealer(tmp_path / "store", FOLDER + "\n[feed_files]\nkept_mib = 3\n") as dealer:
        dealer.upload(feed_bytes(3), "good.json")
        for number in range(10):
            dealer.upload(JUNK + bytes([number]), f"junk{number}.csv")
        assert states(dealer.collect().files) == ["imported", *["failed"] * 10]
        assert dealer.names_in("refused") == ["junk8.csv", "junk9.csv"]
        assert dealer.names_in("kept") == ["good.json"]
    with feed_dealer(tmp_path / "store", FOLDER + "\n[feed_files]\nrefused_days = 0\n") as dealer:
        dealer.collect()
        assert (dealer.names_in("refused"), dealer.names_in("kept")) == ([], ["good.json"])


def test_nothing_is_fetched_when_the_disk_is_nearly_full(tmp_path: Path) -> None:
    with (
        feed_server(feed_bytes(3)) as server,
        feed_dealer(tmp_path / "store", server.toml() + "\n[feed_files]\nleast_free_mib = 1048576\n") as dealer,
    ):
        assert "nearly full" in (dealer.collect().problem or "")
        assert server.requests == []
        dealer.change(server.toml())
        assert states(dealer.collect().files) == ["imported"]


def test_a_fetch_takes_no_more_than_it_leaves_for_the_other_feeds(tmp_path: Path) -> None:
    bounds = "\n[feed_files]\ndealer_mib = 16\n"
    with (
        feed_server(JUNK * 4) as server,
        feed_dealer(tmp_path / "store", server.toml() + FOLDER.replace("main", "other") + bounds) as dealer,
    ):
        dealer.upload(JUNK * 9, feed="other")
        problem = dealer.collect().problem or ""
        assert "wait for their import" in problem
        assert not list((tmp_path / "store/feeds/main/incoming").iterdir())
        server.content = feed_bytes(3)
        assert states(dealer.collect().files) == ["imported"]


def test_all_accounts_of_a_dealer_together_leave_half_of_the_room_of_the_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "8m") as disk:
        limits = UploadLimits(MUCH, 1000, MUCH, dealer_bytes=MUCH, least_free=4 << 20)
        for number in range(20):
            account = UploadFolder(disk / "feeds" / str(number) / "incoming", limits, lambda _: None)
            with suppress(asyncssh.SFTPError):
                write_without_end(account, account.begin("feed.csv"), 50_000)
        free = shutil.disk_usage(disk).free
        assert 5.8 < free / (1 << 20) < 6.8


def write_without_end(account: UploadFolder, upload: Upload, piece: int = 1000) -> None:
    for number in range(1000):
        account.write(upload, number * piece, bytes(piece))


def test_accounts_of_a_dealer_leave_room_for_each_other(tmp_path: Path) -> None:
    limits = UploadLimits(1 << 20, 1000, 1 << 20, dealer_bytes=80_000, least_free=0)
    taken = []
    for name in ("first", "second", "third"):
        account = UploadFolder(tmp_path / "feeds" / name / "incoming", limits, lambda _: None)
        upload = account.begin("feed.csv")
        with pytest.raises(asyncssh.SFTPError, match="Too many bytes already wait"):
            write_without_end(account, upload)
        taken.append(upload.size)
    assert taken == [40_000, 20_000, 10_000]
