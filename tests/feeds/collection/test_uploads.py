"""When an uploaded file is complete, and what is bounded. Without a network."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import asyncssh
import pytest

from dealer_agent.feeds.collection import feed_folder, uploads
from dealer_agent.feeds.collection.uploads import UploadFolder, UploadLimits

pytestmark = pytest.mark.outside_protocol("uploads of feeds by SFTP")

LIMITS = UploadLimits(file_bytes=1000, files=10, all_bytes=10_000, dealer_bytes=1 << 20, least_free=0)


@pytest.fixture
def completed() -> list[int]:
    """The sizes of the complete files."""
    return []


@pytest.fixture
def folder(tmp_path: Path, completed: list[int]) -> Iterator[UploadFolder]:
    made = UploadFolder(tmp_path / "incoming", LIMITS, completed.append)
    yield made
    made.end()


def put(folder: UploadFolder, name: str, content: bytes = b"content") -> None:
    upload = folder.begin(name)
    folder.write(upload, 0, content)
    folder.close(upload)


def test_the_parts_of_another_process_stay(tmp_path: Path, folder: UploadFolder) -> None:
    other = UploadFolder(tmp_path / "incoming", LIMITS, lambda size: None)
    upload = other.begin("other.csv")
    other.write(upload, 0, b"content")
    put(folder, "feed.csv")
    other.close(upload)
    assert {path.name for path in folder.path.iterdir()} == {"other.csv", "feed.csv"}


@pytest.mark.parametrize(
    ("written", "is_whole"),
    [
        ([(0, 10)], True),
        ([(0, 5), (5, 10)], True),
        ([(5, 10), (0, 5)], True),
        ([(0, 6), (4, 10)], True),
        ([(0, 10), (0, 10), (3, 4)], True),
        ([(8, 10), (0, 2), (4, 6), (2, 4), (6, 8)], True),
        ([(0, 4), (5, 10)], False),
        ([(1, 10)], False),
        ([(5, 10), (0, 4)], False),
    ],
)
def test_a_file_is_complete_when_every_byte_was_written(
    folder: UploadFolder, completed: list[int], written: list[tuple[int, int]], is_whole: bool
) -> None:
    upload = folder.begin("feed.csv")
    for start, end in written:
        folder.write(upload, start, b"x" * (end - start))
    if not is_whole:
        with pytest.raises(asyncssh.SFTPError, match="Bytes are missing"):
            folder.close(upload)
    else:
        folder.close(upload)
    assert completed == [10] * is_whole


def test_an_empty_file_is_not_taken(folder: UploadFolder, completed: list[int]) -> None:
    with pytest.raises(asyncssh.SFTPError, match="empty"):
        folder.close(folder.begin("feed.csv"))
    assert (completed, list(folder.path.iterdir())) == ([], [])


def test_a_file_with_too_many_gaps_is_refused(
    folder: UploadFolder, completed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "MOST_GAPS", 3)
    upload = folder.begin("feed.csv")
    for start in (2, 4, 6, 8):
        folder.write(upload, start, b"x")
    with pytest.raises(asyncssh.SFTPError, match="too many gaps"):
        folder.write(upload, 0, b"x" * 10)
    with pytest.raises(asyncssh.SFTPError, match="not imported"):
        folder.close(upload)
    assert completed == []


def test_nothing_is_taken_when_the_disk_is_nearly_full(folder: UploadFolder, tmp_path: Path) -> None:
    put(folder, "feed.csv")
    full = UploadFolder(tmp_path / "incoming", replace(LIMITS, least_free=1 << 62), lambda size: None)
    with pytest.raises(asyncssh.SFTPError, match="nearly full"):
        full.begin("other.csv")


def test_a_file_may_be_cut_at_its_end_and_never_grows_without_bytes(folder: UploadFolder, completed: list[int]) -> None:
    upload = folder.begin("feed.csv")
    folder.write(upload, 0, b"x" * 10)
    with pytest.raises(asyncssh.SFTPError, match="cannot be set"):
        folder.truncate(upload, 11)
    folder.truncate(upload, 10)
    folder.truncate(upload, 4)
    folder.close(upload)
    assert completed == [4]


def test_a_closed_file_takes_no_more_bytes(folder: UploadFolder, completed: list[int]) -> None:
    upload = folder.begin("feed.csv.tmp")
    folder.write(upload, 0, b"content")
    folder.close(upload)
    with pytest.raises(ValueError, match="closed file"):
        folder.write(upload, 7, b"more")
    with pytest.raises(ValueError, match="closed file"):
        folder.truncate(upload, 1)
    folder.rename("feed.csv.tmp", "feed.csv")
    assert completed == [7]


def test_a_file_that_is_renamed_while_it_is_open_is_complete_at_its_close(
    folder: UploadFolder, completed: list[int]
) -> None:
    upload = folder.begin("feed.csv.tmp")
    folder.write(upload, 0, b"half")
    folder.rename("feed.csv.tmp", "feed.csv")
    assert completed == []
    folder.write(upload, 4, b" and half")
    folder.close(upload)
    assert completed == [13]


def test_renaming_a_complete_file_imports_nothing_again(folder: UploadFolder, completed: list[int]) -> None:
    put(folder, "feed.csv")
    folder.rename("feed.csv", "again.csv")
    folder.rename("again.csv", "again.csv")
    assert completed == [7]
    assert [path.name for path in folder.path.iterdir()] == ["again.csv"]


def test_a_file_with_the_name_of_a_complete_one_replaces_none(
    tmp_path: Path, folder: UploadFolder, completed: list[int]
) -> None:
    for content in (b"one", b"two"):
        put(folder, "feed.csv", content)
    put(folder, "feed.csv.tmp", b"three")
    folder.rename("feed.csv.tmp", "feed.csv")
    waiting = sorted((tmp_path / "incoming").iterdir())
    assert [path.read_bytes() for path in (*waiting, folder.path / "feed.csv")] == [b"one", b"two", b"three"]
    folder.remove("feed.csv")
    assert len(list((tmp_path / "incoming").iterdir())) == 3, "it is complete, so it is imported"
    assert completed == [3, 3, 5]


def test_a_file_that_gets_no_final_name_is_deleted_after_an_hour(
    folder: UploadFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder, "feed.csv.tmp")
    put(folder, "other.csv")
    assert sorted(path.name for path in folder.path.iterdir()) == ["feed.csv.tmp", "other.csv"]
    monkeypatch.setattr(feed_folder, "_UNNAMED_FOR", timedelta(0))
    put(folder, "third.csv")
    assert sorted(path.name for path in folder.path.iterdir()) == ["other.csv", "third.csv"]


def test_a_file_that_replaces_one_with_a_temporary_name_deletes_it(tmp_path: Path, folder: UploadFolder) -> None:
    put(folder, "one.tmp")
    put(folder, "two.tmp", b"other")
    folder.rename("one.tmp", "two.tmp")
    put(folder, "two.tmp", b"last")
    assert [path.read_bytes() for path in folder.path.iterdir()] == [b"last"]
    folder.remove("two.tmp")
    assert list(folder.path.iterdir()) == list((tmp_path / "incoming").iterdir()) == []


def test_a_file_whose_folder_is_gone_is_refused_and_not_announced(
    tmp_path: Path, folder: UploadFolder, completed: list[int]
) -> None:
    upload = folder.begin("feed.csv")
    folder.write(upload, 0, b"content")
    for path in (tmp_path / "incoming").iterdir():
        path.unlink()
    with pytest.raises(OSError, match="No such file"):
        folder.close(upload)
    assert completed == []
