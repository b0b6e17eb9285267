"""Leads as files: whole or not there, for their owner alone (docs/reference/delivery.md)."""

import asyncio
import os
import stat
import time
from pathlib import Path

import pytest
from tests.delivery.samples import parcel, sent, view
from tests.patching import replace_in

from dealer_agent.delivery.attempt import NotDelivered
from dealer_agent.delivery.outlet import FORMATS
from dealer_agent.delivery.outlets.folder import LEFT_BEHIND_SECONDS, UNFINISHED, FolderOutlet
from dealer_agent.encryption import private_files
from dealer_agent.leads.adf import render_adf
from dealer_agent.leads.lead_json import render_json


def outlet(folder: Path) -> FolderOutlet:
    return FolderOutlet(folder, FORMATS["adf"])


def finished(folder: Path) -> list[Path]:
    """What who collects the files sees."""
    return [file for file in folder.iterdir() if file.name != UNFINISHED]


def unfinished(folder: Path) -> list[Path]:
    return list((folder / UNFINISHED).iterdir())


def test_a_file_is_named_by_the_delivery_and_readable_by_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "out" / "leads"
    asyncio.run(sent(outlet(folder), parcel("D1")))
    (file,) = finished(folder)
    assert file.name == "D1.xml"
    assert file.read_bytes() == render_adf(view())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == stat.S_IMODE((folder / UNFINISHED).stat().st_mode) == 0o700


def test_the_format_of_the_channel_is_in_the_file_and_its_name(tmp_path: Path) -> None:
    asyncio.run(sent(FolderOutlet(tmp_path, FORMATS["json"]), parcel("D1")))
    assert (tmp_path / "D1.json").read_bytes() == render_json(view())


def test_a_repeat_replaces_the_file_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "D1.xml").write_text("of an earlier attempt")
    asyncio.run(sent(outlet(tmp_path), parcel("D1")))
    asyncio.run(sent(outlet(tmp_path), parcel("D1")))
    assert [file.name for file in finished(tmp_path)] == ["D1.xml"]
    assert not unfinished(tmp_path)
    assert (tmp_path / "D1.xml").read_bytes() == render_adf(view())


def test_what_a_killed_attempt_left_behind_goes_with_the_next(tmp_path: Path) -> None:
    (tmp_path / UNFINISHED).mkdir()
    (tmp_path / UNFINISHED / "D1.01JN").write_text("<adf><pros")
    (tmp_path / UNFINISHED / "D2.01JN").write_text("of another delivery, which may be under way")
    asyncio.run(sent(outlet(tmp_path), parcel("D1")))
    assert [file.name for file in finished(tmp_path)] == ["D1.xml"]
    assert [file.name for file in unfinished(tmp_path)] == ["D2.01JN"]


def test_files_of_killed_attempts_of_other_deliveries_are_deleted_after_a_day(tmp_path: Path) -> None:
    """Such a file has the data of a customer who may be erased meanwhile. Then that delivery is not tried again."""
    (tmp_path / UNFINISHED).mkdir()
    for name, age in (("D2.01JN", LEFT_BEHIND_SECONDS + 60), ("D3.01JN", LEFT_BEHIND_SECONDS - 3600)):
        left = tmp_path / UNFINISHED / name
        left.write_text("<adf><pros")
        os.utime(left, (time.time() - age,) * 2)
    asyncio.run(sent(outlet(tmp_path), parcel("D1")))
    assert [file.name for file in unfinished(tmp_path)] == ["D3.01JN"]


def test_a_lead_that_cannot_be_synced_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk may show itself at fsync only."""

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    replace_in(monkeypatch, private_files, "os", fsync=full)
    with pytest.raises(NotDelivered, match=r"^the folder cannot be written to: No space left on device$") as raised:
        asyncio.run(sent(outlet(tmp_path), parcel("D1")))
    assert raised.value.channel_failed
    assert not finished(tmp_path)
    assert not unfinished(tmp_path)


def test_the_file_and_its_name_are_durable_before_it_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        name = Path(f"/proc/self/fd/{descriptor}").resolve()
        before = name.parent.name == UNFINISHED
        synced.append("folder" if name == tmp_path else "file before its name" if before else "file")
        fsync(descriptor)

    if not Path("/proc/self/fd").exists():
        pytest.skip("GAP: no /proc here, so the synced files cannot be told")
    replace_in(monkeypatch, private_files, "os", fsync=noted)
    asyncio.run(sent(outlet(tmp_path), parcel("D1")))
    assert synced == ["file before its name", "folder"]


def test_a_file_in_place_of_the_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "leads").write_text("no folder")
    with pytest.raises(NotDelivered, match=r"^the folder cannot be written to: File exists$"):
        asyncio.run(sent(outlet(tmp_path / "leads"), parcel("D1")))
