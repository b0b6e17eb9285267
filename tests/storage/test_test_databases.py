"""The tests' own PostgreSQL server, where root starts it from a bare environment."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.storage.databases import obstacle, with_system_folders

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/bin", "/bin:/usr/local/sbin:/usr/sbin:/sbin"),
        ("/usr/sbin:/bin", "/usr/sbin:/bin:/usr/local/sbin:/sbin"),
        ("", "/usr/local/sbin:/usr/sbin:/sbin"),
    ],
)
def test_the_folders_of_the_system_are_on_the_path_once(path: str, found: str) -> None:
    assert with_system_folders(path) == found


def test_useradd_is_found_though_the_path_lacks_its_folder() -> None:
    """As in `env -i PATH=/usr/bin:/bin make test`."""
    program = "import os, shutil, tests.storage.databases as d\nclass Worker: workerinput = None\n"
    program += "d.pytest_configure(Worker); print(os.environ['PATH'])"
    told = subprocess.run(
        [sys.executable, "-c", program], env={"PATH": "/usr/bin:/bin"}, cwd=ROOT, check=True, capture_output=True
    )
    assert told.stdout.decode().strip() == "/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"


def test_the_message_says_what_to_do_without_useradd_and_without_the_servers_user(tmp_path: Path) -> None:
    problem = obstacle("nobody-has-this-name", str(tmp_path))
    assert problem is not None
    assert "\n" not in problem
    assert "useradd" in problem
    assert "TEST_DATABASE_URL" in problem
    (tmp_path / "useradd").touch(mode=0o755)
    assert obstacle("nobody-has-this-name", str(tmp_path)) is None
    assert obstacle("root", os.devnull) is None
