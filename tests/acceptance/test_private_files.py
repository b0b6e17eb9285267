"""Only the service's user has access to customers' data. Files that others may read are refused."""

import os
import re
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.asking import ask, lead
from tests.acceptance.dealers import stocked_dealer
from tests.acceptance.running import COMMAND, command, command_here, serving, succeed


@pytest.fixture(autouse=True)
def umask_022() -> Iterator[None]:
    """The umask of most machines."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def exposed(folder: Path) -> list[str]:
    """What of a dealer's folder others may read or enter; dealer.toml holds no secret."""
    paths = [folder, *folder.rglob("*")]
    return [str(path) for path in paths if path.name != "dealer.toml" and stat.S_IMODE(path.stat().st_mode) & 0o077]


@pytest.mark.requirement("private-files")
def test_other_users_have_no_access_to_any_file_of_the_service(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "store"
    succeed("init", folder)
    channel = '\n[[rooftops.deliver.directory]]\nname = "crm"\npath = "leads"\n'
    toml = folder / "dealer.toml"
    text = toml.read_text()
    toml.write_text(text + channel)
    with serving(folder, program=(COMMAND,)) as running:
        ask(running.url, "lead.submit", **lead())
        made = {path.name for path in folder.iterdir()}
        assert {"dealer-agent.db", "dealer-agent.db-wal", "dealer-agent.db-shm", "rate-limits.bin"} <= made
        assert [name for name in exposed(folder) if not re.search(r"std(out|err)-\d+\.log$", name)] == []


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
@pytest.mark.parametrize("end", ["", "-wal"])
def test_a_database_that_others_may_read_is_refused_with_the_command_that_helps(
    tmp_path: Path, mode: int, end: str
) -> None:
    folder = stocked_dealer(tmp_path / "store")
    file = folder / f"dealer-agent.db{end}"
    file.touch()
    file.chmod(mode)
    for words in (("leads", "list"), ("inventory", "list"), ("serve", "--port", "1")):
        done = command_here(*words, "--dir", folder)
        if done.returncode == 2:
            continue
        assert done.returncode == 1
        told = re.search(r"may be read by other users .* type: (chmod 600 .*)", done.stderr)
        assert told, done.stderr
        subprocess.run(told[1], shell=True, check=True)
        assert command_here("leads", "list", "--dir", folder).returncode == 0
        file.touch()
        file.chmod(mode)


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o701])
def test_a_folder_that_others_may_read_is_refused_with_the_command_that_helps(tmp_path: Path, mode: int) -> None:
    folder = stocked_dealer(tmp_path / "store")
    folder.chmod(mode)
    done = command_here("leads", "list", "--dir", folder)
    assert done.returncode == 1
    told = re.search(r"may be read by other users .* type: (chmod 700 .*)", done.stderr)
    assert told, done.stderr
    subprocess.run(told[1], shell=True, check=True)
    assert command_here("leads", "list", "--dir", folder).returncode == 0


def test_init_writes_nothing_into_a_folder_that_others_may_read(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    done = command("init", folder)
    assert done.returncode == 1
    assert f"chmod 700 {folder}" in done.stderr
    assert list(folder.iterdir()) == []
