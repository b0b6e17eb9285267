"""Files that are no backups, damaged backups, and files that an attacker made: nothing of them is restored."""

import hashlib
import io
import json
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.dealers import stocked_dealer
from tests.acceptance.running import command_here, succeed_here

from dealer_agent.operations import BackupUnreadable, backup_file
from dealer_agent.operations.restore import new_folder

pytestmark = pytest.mark.outside_protocol("backups")

Members = list[tuple[tarfile.TarInfo, bytes]]


KEYS = "DEALER_AGENT_KEYS"


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
    content[content.index(b'"H1"') + 1] ^= 1
    file.write_bytes(content)


def doubled(file: Path) -> None:
    def change(manifest: dict[str, Any]) -> None:
        manifest["files"].append(manifest["files"][0] | {"name": manifest["files"][0]["name"].upper()})

    rewritten(change)(file)


def huge(manifest: dict[str, Any]) -> None:
    manifest["files"][0]["size"] = 10**15


def of_stranger(change: Callable[[dict[str, Any], dict[str, bytes]], object]) -> Callable[[Path], None]:
    """Changes manifest and files such that all sizes and hashes agree. Only the signature does not."""

    def apply(file: Path) -> None:
        members = members_of(file)
        manifest = json.loads(members[0][1])
        contents = {info.name: content for info, content in members[1:]}
        change(manifest, contents)
        manifest["files"] = [
            {"name": name, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for name, content in contents.items()
        ]
        files = [(tarfile.TarInfo(name), content) for name, content in contents.items()]
        written(file, [(tarfile.TarInfo("manifest.json"), json.dumps(manifest).encode()), *files])

    return apply


def row_of(table: str, change: Callable[[list[Any]], object], *, lines: int = 1) -> Callable[[Path], None]:
    """Changes the first row of a table."""

    def apply(manifest: dict[str, Any], contents: dict[str, bytes]) -> None:
        (listed,) = (each for each in manifest["tables"] if each["name"] == table)
        listed["rows"] += lines - 1
        name = f"dealer-agent.tables/{table}.jsonl"
        first, *others = contents[name].splitlines(keepends=True)
        row = json.loads(first)
        changed = change(row)
        first = changed if isinstance(changed, bytes) else json.dumps(row).encode() + b"\n"
        contents[name] = first * lines + b"".join(others)

    return of_stranger(apply)


def at(place: int, value: Any) -> Callable[[list[Any]], None]:
    """Puts a value into a row."""

    def put(row: list[Any]) -> None:
        row[place] = value

    return put


def other_table(name: str) -> Callable[[Path], None]:
    """Adds a table that dealer-agent does not have."""

    def apply(manifest: dict[str, Any], contents: dict[str, bytes]) -> None:
        manifest["tables"].append({"name": name, "columns": ["name", "sql"], "rows": 1})
        contents[f"dealer-agent.tables/{name}.jsonl"] = b'["evil", "CREATE TRIGGER evil"]\n'

    return of_stranger(apply)


def with_file(name: str, content: bytes) -> Callable[[Path], None]:
    """Adds a file."""
    return of_stranger(lambda _, contents: contents.update({name: content}))


def other_column(manifest: dict[str, Any], _: dict[str, bytes]) -> None:
    manifest["tables"][0]["columns"][1] = 'x") SELECT load_extension("evil") --'


STRANGERS = {
    "a table of the system": (other_table("sqlite_master"), "does not have ('sqlite_master')"),
    "the table of revisions": (other_table("alembic_version"), "does not have ('alembic_version')"),
    "a table that dealer-agent does not have": (other_table("evil"), "does not have ('evil')"),
    "SQL for a column": (of_stranger(other_column), "a table or a column that dealer-agent does not have"),
    "a number for a text": (row_of("units", at(1, 7)), "does not fit this table"),
    "a text for a number": (row_of("imports", at(1, "7; DROP TABLE leads")), "does not fit this table"),
    "a number that is too large": (row_of("imports", at(1, 2**63)), "does not fit this table"),
    "no value where one is needed": (row_of("units", at(1, None)), "does not fit this table"),
    "a row with more values": (row_of("units", lambda row: row.append(1)), "does not fit this table"),
    "deep JSON": (row_of("units", lambda _: b"[" * 100_000 + b"\n"), "does not fit this table"),
    "half a character": (row_of("units", lambda _: b'["\\ud800"]\n'), "does not fit this table"),
    "a row twice": (row_of("units", lambda _: None, lines=2), "does not fit this table"),
    "a row without its owner": (row_of("unit_documents", at(1, "V-other")), "does not fit this table"),
    "a row less": (row_of("units", lambda _: b""), "another number of rows"),
    "keys": (with_file("dealer-agent.keys", b"k-1:" + b"A" * 43), "a file that no backup of dealer-agent has"),
    "a database": (with_file("dealer-agent.db", b"SQLite format 3\0"), "a file that no backup of dealer-agent has"),
    "a log of a database": (
        with_file("dealer-agent.db-wal", b"7\x7f\x06\x82"),
        "a file that no backup of dealer-agent has",
    ),
    "a snapshot": (with_file("catalogue-snapshot.bin", b"snapshot"), "a file that no backup of dealer-agent has"),
    "other settings": (with_file("installation.toml", b"[installation]"), "a file that no backup of dealer-agent has"),
}
"""Backups that a stranger made, for somebody who restores them without a key."""


HOSTILE = {
    "an empty file": (lambda file: file.write_bytes(b""), "not a backup"),
    "another file": (lambda file: file.write_bytes(b"vin,price\n" * 1000), "not a backup"),
    "another tar file": (lambda file: written(file, members_of(file)[1:]), "not a backup"),
    "cut in the manifest": (cut(0.0001), "not a backup"),
    "cut in the middle": (cut(0.5), "its end is missing"),
    "a changed byte": (changed_byte, "has another hash"),
    "a path above": (renamed("../dealer.toml"), "a name that no backup of dealer-agent has"),
    "an absolute path": (renamed("/tmp/dealer.toml"), "a name that no backup of dealer-agent has"),
    "a hidden file": (renamed(".bashrc"), "a name that no backup of dealer-agent has"),
    "a symbolic link": (of_type(tarfile.SYMTYPE), "not a plain file"),
    "a hard link": (of_type(tarfile.LNKTYPE), "not a plain file"),
    "a folder": (of_type(tarfile.DIRTYPE), "not a plain file"),
    "a device": (of_type(tarfile.CHRTYPE), "not a plain file"),
    "an extended header": (of_type(tarfile.XHDTYPE), "not a plain file"),
    "a sparse file": (of_type(tarfile.GNUTYPE_SPARSE), "not a plain file"),
    "a file twice": (doubled, "a name that no backup of dealer-agent has"),
    "a size beyond the file": (rewritten(huge), "its end is missing"),
    "a newer format": (rewritten(lambda manifest: manifest.update(format=3)), "in a newer format"),
    "the format that had SQL": (rewritten(lambda manifest: manifest.update(format=1)), "in an older format"),
    "a schema that is SQL": (
        rewritten(lambda manifest: manifest.update(schema="0019+1")),
        "its manifest cannot be read",
    ),
    "a schema between others": (rewritten(lambda manifest: manifest.update(schema="0013")), "with schema 0013"),
    "a newer schema": (rewritten(lambda manifest: manifest.update(schema="9999")), "has a database with schema 9999"),
    "an unknown member": (rewritten(lambda manifest: manifest.update(more=1)), "its manifest cannot be read"),
    "no database": (rewritten(lambda manifest: manifest.update(files=[])), "lacks dealer-agent.tables/accesses.jsonl"),
    "no tables": (rewritten(lambda manifest: manifest.update(tables=[])), "lacks the tables of its database"),
    "no keys": (
        rewritten(lambda manifest: manifest.update(sealed_keys="eA==")),
        "the encrypted keys in the backup are",
    ),
    **STRANGERS,
}


@pytest.mark.parametrize(("change", "expected"), HOSTILE.values(), ids=HOSTILE.keys())
def test_nothing_is_restored_from_a_damaged_or_hostile_file(
    backup: Path, tmp_path: Path, change: Callable[[Path], None], expected: str
) -> None:
    file = tmp_path / "hostile.tar"
    file.write_bytes(backup.read_bytes())
    change(file)
    options = ("--unverified", "--dir", tmp_path / "copy")
    refused = command_here("restore", file, *options, DEALER_AGENT_BACKUP_PASSPHRASE="an invented passphrase")
    assert (refused.returncode, expected in refused.stderr) == (1, True), refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["hostile.tar"]


def test_a_backup_is_a_tar_file(backup: Path) -> None:
    names = [info.name for info, _ in members_of(backup)]
    assert names[:2] == ["manifest.json", "dealer.toml"]
    assert {name.partition("/")[0] for name in names[2:]} == {"dealer-agent.tables"}


def keys_of(backup: Path) -> dict[str, Any]:
    """The environment with the keys of the backup's service."""
    return {KEYS: (backup.parent / "store" / "dealer-agent.keys").read_text()}


@pytest.mark.parametrize("change", [change for change, _ in STRANGERS.values()], ids=STRANGERS.keys())
def test_a_backup_of_a_stranger_is_refused_before_it_is_unpacked(
    backup: Path, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    """The key of the service decides, whatever is in the backup."""
    file = tmp_path / "hostile.tar"
    file.write_bytes(backup.read_bytes())
    change(file)
    refused = command_here("restore", file, "--unverified", "--dir", tmp_path / "copy", **keys_of(backup))
    assert (refused.returncode, "was changed after it was made" in refused.stderr) == (1, True), refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["hostile.tar"]


def test_a_backup_without_a_signature_or_of_another_service_is_refused(backup: Path, tmp_path: Path) -> None:
    file = tmp_path / "unsigned.tar"
    file.write_bytes(backup.read_bytes())
    rewritten(lambda manifest: manifest.update(mac=None))(file)
    unsigned = command_here("restore", file, "--dir", tmp_path / "copy", **keys_of(backup))
    assert (unsigned.returncode, "nobody has signed this backup" in unsigned.stderr) == (1, True)
    other = stocked_dealer(tmp_path / "other")
    foreign = command_here("restore", backup, "--dir", tmp_path / "copy", "--keys", other / "dealer-agent.keys")
    assert (foreign.returncode, "which is not among your keys" in foreign.stderr) == (1, True)
    assert not (tmp_path / "copy").exists()


def test_nothing_is_read_of_a_backup_that_nobody_can_verify(backup: Path, tmp_path: Path) -> None:
    refused = command_here("restore", backup, "--dir", tmp_path / "copy")
    assert (refused.returncode, "nobody can tell here who made this backup" in refused.stderr) == (1, True)
    assert not (tmp_path / "copy").exists()
    known = command_here("restore", backup, "--dir", tmp_path / "copy", "--unverified")
    assert (known.returncode, "Nobody has verified this backup" in known.stderr) == (0, True), known.stderr


def test_the_folder_gets_the_keys_that_verified_the_backup(backup: Path, tmp_path: Path) -> None:
    keys = backup.parent / "store" / "dealer-agent.keys"
    done = command_here("restore", backup, "--dir", tmp_path / "copy", "--keys", keys)
    assert (done.returncode, "The backup is authentic" in done.stderr) == (0, True), done.stderr
    assert (tmp_path / "copy" / "dealer-agent.keys").read_text() == keys.read_text()


def test_a_folder_with_files_stays_as_it_is(backup: Path, tmp_path: Path) -> None:
    target = tmp_path / "full"
    target.mkdir()
    (target / "dealer.toml").write_text("mine")
    refused = command_here("restore", backup, "--unverified", "--dir", target)
    assert (refused.returncode, "is not empty" in refused.stderr) == (1, True)
    assert [(path.name, path.read_text()) for path in target.iterdir()] == [("dealer.toml", "mine")]


def test_an_empty_folder_gets_the_files_and_is_private(backup: Path, tmp_path: Path) -> None:
    target = tmp_path / "empty"
    target.mkdir(mode=0o755)
    (target / ".unfinished").mkdir()
    (target / ".unfinished" / "dealer.toml").write_text("half: a killed restore left it")
    succeed_here("restore", backup, "--dir", target, **keys_of(backup))
    assert (target.stat().st_mode & 0o777, sorted(path.name for path in target.iterdir())) == (
        0o700,
        ["dealer-agent.db", "dealer.toml"],
    )


def test_a_restore_that_fails_leaves_an_empty_folder_as_it_is(backup: Path, tmp_path: Path) -> None:
    """The folder may be a mounted disk."""
    target = tmp_path / "disk"
    target.mkdir()
    file = tmp_path / "hostile.tar"
    file.write_bytes(backup.read_bytes())
    changed_byte(file)
    assert command_here("restore", file, "--unverified", "--dir", target).returncode == 1
    assert list(target.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [
        b"[" * backup_file.MOST_MANIFEST_BYTES,
        b" " * (backup_file.MOST_MANIFEST_BYTES + 1),
        b'{"format":2,"version":"1.0","files":['
        + b",".join([b'{"name":"f","size":0,"sha256":"%064d"}' % 0] * (backup_file.MOST_FILES + 1))
        + b"]}",
    ],
    ids=["brackets", "bytes", "files"],
)
def test_a_manifest_without_end_takes_little_memory(tmp_path: Path, text: bytes) -> None:
    with tarfile.open(tmp_path / "a.backup", "w", format=tarfile.USTAR_FORMAT) as made:
        info = tarfile.TarInfo(backup_file.MANIFEST)
        info.size = len(text)
        made.addfile(info, io.BytesIO(text))
    tracemalloc.start()
    with pytest.raises(BackupUnreadable):
        backup_file.read_manifest(tmp_path / "a.backup")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * backup_file.MOST_MANIFEST_BYTES


def test_a_folder_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    """A command that is killed leaves no folder under the name, and the next one does not need it."""
    (tmp_path / ".made.unfinished").mkdir()
    (tmp_path / ".made.unfinished" / "half").write_text("a killed command left it")
    with new_folder(tmp_path / "made") as folder:
        assert not (tmp_path / "made").exists()
        (folder / "dealer.toml").write_text("whole")
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["dealer.toml"]
    with pytest.raises(KeyboardInterrupt), new_folder(tmp_path / "other"):
        raise KeyboardInterrupt
    assert [path.name for path in tmp_path.iterdir()] == ["made"]
