"""Files that are no backups, damaged backups, and files that an attacker made: nothing of them is restored."""

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.dealers import stocked_dealer
from tests.acceptance.running import command_here, succeed_here

pytestmark = pytest.mark.outside_protocol("backups")

Members = list[tuple[tarfile.TarInfo, bytes]]


@pytest.fixture(scope="module")
def backup(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup of a dealer."""
    made = tmp_path_factory.mktemp("backups")
    file = made / "backup.tar"
    succeed_here("backup", file, "--dir", stocked_dealer(made / "store"))
    return file


def members_of(file: Path) -> Members:
    with tarfile.open(file) as tar:
        return [(member, reader.read()) for member in tar if (reader := tar.extractfile(member)) is not None]


def written(file: Path, members: Members) -> None:
    with tarfile.open(file, "w", format=tarfile.GNU_FORMAT) as tar:
        for info, content in members:
            info.size = len(content) if info.isreg() else 0
            tar.addfile(info, io.BytesIO(content))


def rewritten(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """Changes the manifest of a backup."""

    def apply(file: Path) -> None:
        members = members_of(file)
        manifest = json.loads(members[0][1])
        change(manifest)
        members[0] = members[0][0], json.dumps(manifest).encode()
        written(file, members)

    return apply


def renamed(name: str) -> Callable[[Path], None]:
    """Gives the first file another name, in the manifest too."""

    def apply(file: Path) -> None:
        rewritten(lambda manifest: manifest["files"][0].update(name=name))(file)
        members = members_of(file)
        members[1][0].name = name
        written(file, members)

    return apply


def of_type(kind: bytes) -> Callable[[Path], None]:
    """Makes the first file a link, a folder or something else."""

    def apply(file: Path) -> None:
        members = members_of(file)
        members[1][0].type, members[1][0].linkname = kind, "/etc/passwd"
        written(file, members)

    return apply


def cut(at: float) -> Callable[[Path], None]:
    def apply(file: Path) -> None:
        file.write_bytes(file.read_bytes()[: int(file.stat().st_size * at)])

    return apply


def changed_byte(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[content.index(b"SQLite format 3") + 4000] ^= 1
    file.write_bytes(content)


def doubled(file: Path) -> None:
    def change(manifest: dict[str, Any]) -> None:
        manifest["files"].append(manifest["files"][0] | {"name": manifest["files"][0]["name"].upper()})

    rewritten(change)(file)


def huge(manifest: dict[str, Any]) -> None:
    manifest["files"][0]["size"] = 10**15


HOSTILE = {
    "an empty file": (lambda file: file.write_bytes(b""), "no backup"),
    "another file": (lambda file: file.write_bytes(b"vin,price\n" * 1000), "no backup"),
    "another tar file": (lambda file: written(file, members_of(file)[1:]), "no backup"),
    "cut in the manifest": (cut(0.0001), "no backup"),
    "cut in the middle": (cut(0.5), "its end is missing"),
    "a changed byte": (changed_byte, "has another hash"),
    "a path above": (renamed("../dealer.toml"), "a name that no backup has"),
    "an absolute path": (renamed("/tmp/dealer.toml"), "a name that no backup has"),
    "a hidden file": (renamed(".bashrc"), "a name that no backup has"),
    "a symbolic link": (of_type(tarfile.SYMTYPE), "no plain file"),
    "a hard link": (of_type(tarfile.LNKTYPE), "no plain file"),
    "a folder": (of_type(tarfile.DIRTYPE), "no plain file"),
    "a device": (of_type(tarfile.CHRTYPE), "no plain file"),
    "an extended header": (of_type(tarfile.XHDTYPE), "no plain file"),
    "a sparse file": (of_type(tarfile.GNUTYPE_SPARSE), "no plain file"),
    "a file twice": (doubled, "a name that no backup has"),
    "a size beyond the file": (rewritten(huge), "its end is missing"),
    "a newer format": (rewritten(lambda manifest: manifest.update(format=2)), "in a newer format"),
    "a newer schema": (rewritten(lambda manifest: manifest.update(schema="9999")), "has a database with schema 9999"),
    "an unknown member": (rewritten(lambda manifest: manifest.update(more=1)), "its manifest cannot be read"),
    "no database": (rewritten(lambda manifest: manifest.update(files=[])), "lacks dealer-agent.db"),
    "no keys": (rewritten(lambda manifest: manifest.update(has_keys=True)), "lacks dealer-agent.keys.encrypted"),
}


@pytest.mark.parametrize(("change", "told"), HOSTILE.values(), ids=HOSTILE.keys())
def test_nothing_is_restored_from_a_damaged_or_hostile_file(
    backup: Path, tmp_path: Path, change: Callable[[Path], None], told: str
) -> None:
    file = tmp_path / "hostile.tar"
    file.write_bytes(backup.read_bytes())
    change(file)
    refused = command_here(
        "restore", file, "--dir", tmp_path / "copy", DEALER_AGENT_BACKUP_PASSPHRASE="an invented passphrase"
    )
    assert (refused.returncode, told in refused.stderr) == (1, True), refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["hostile.tar"]


def test_a_backup_is_a_tar_file(backup: Path) -> None:
    names = [info.name for info, _ in members_of(backup)]
    assert names == ["manifest.json", "dealer.toml", "dealer-agent.db"]


def test_a_folder_with_files_stays_as_it_is(backup: Path, tmp_path: Path) -> None:
    target = tmp_path / "full"
    target.mkdir()
    (target / "dealer.toml").write_text("mine")
    refused = command_here("restore", backup, "--dir", target)
    assert (refused.returncode, "is not empty" in refused.stderr) == (1, True)
    assert [(path.name, path.read_text()) for path in target.iterdir()] == [("dealer.toml", "mine")]


def test_an_empty_folder_gets_the_files_and_is_private(backup: Path, tmp_path: Path) -> None:
    target = tmp_path / "empty"
    target.mkdir(mode=0o755)
    (target / ".restoring").mkdir()
    (target / ".restoring" / "dealer.toml").write_text("half: a killed restore left it")
    succeed_here("restore", backup, "--dir", target)
    assert (target.stat().st_mode & 0o777, sorted(path.name for path in target.iterdir())) == (
        0o700,
        ["dealer-agent.db", "dealer.toml"],
    )


def test_a_restore_that_fails_leaves_an_empty_folder_as_it_is(backup: Path, tmp_path: Path) -> None:
    """It may be a mounted disk."""
    target = tmp_path / "disk"
    target.mkdir()
    file = tmp_path / "hostile.tar"
    file.write_bytes(backup.read_bytes())
    changed_byte(file)
    assert command_here("restore", file, "--dir", target).returncode == 1
    assert list(target.iterdir()) == []
