"""What the command says when it cannot begin: plain words, exit code 1, or 2 for wrong usage; no traceback."""

import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.acceptance.dealers import stocked_dealer, write_dealer
from tests.acceptance.running import command, command_here, free_port, serving


def test_serve_on_a_port_in_use_says_so(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = command("serve", "--dir", folder, "--port", str(port))
    assert done.returncode == 1
    assert f"127.0.0.1:{port}" in done.stderr
    assert "in use" in done.stderr


def test_serve_on_a_host_that_is_none_says_so(folder: Path) -> None:
    done = command_here("serve", "--dir", folder, "--host", "no such host", "--port", str(free_port()))
    assert done.returncode == 1
    assert "no such host" in done.stderr


def test_serve_without_a_dealer_points_to_init(tmp_path: Path) -> None:
    done = command_here("serve", "--dir", tmp_path)
    assert done.returncode == 1
    assert "dealer-agent init" in done.stderr


def test_serve_says_when_the_dealer_never_had_stock(tmp_path: Path) -> None:
    """As after a changed `id` in dealer.toml: the service is well, and has nothing to sell."""
    folder = tmp_path / "store"
    write_dealer(folder)
    with serving(folder) as running:
        assert "inventory import" in running.stderr()
    with serving(stocked_dealer(tmp_path / "stocked")) as running:
        assert "inventory import" not in running.stderr()


@pytest.mark.parametrize("subcommand", [("serve",), ("inventory", "import", __file__), ("leads", "list")])
def test_a_broken_dealer_toml_is_told_whole_with_lines(tmp_path: Path, subcommand: tuple[str, ...]) -> None:
    (tmp_path / "dealer.toml").write_text(
        'id = "Not An Id"\nname = "Broken"\nfeed_price = "guess"\ncolour = "red"\n\n[[rooftops]]\nname = "One"\n'
        'timezone = "Mars/Olympus"\n'
    )
    done = command_here(*subcommand, "--dir", tmp_path)
    assert done.returncode == 1
    told = done.stderr.splitlines()
    for line, word in ((1, "id"), (3, "feed_price"), (4, "colour"), (8, "timezone")):
        assert any(f"{line}" in said and word in said for said in told), (line, word, done.stderr)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_service_that_cannot_start_says_why_and_exits_with_1(tmp_path: Path, workers: str) -> None:
    folder = stocked_dealer(tmp_path / "store")
    (folder / "rate-limits.bin").write_text("this is something else")
    done = command("serve", "--dir", folder, "--port", str(free_port()), "--workers", workers)
    assert done.returncode == 1
    assert "rate-limits.bin" in done.stderr
    assert "did not start" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("serve", "--port", "0"),
        ("serve", "--port", "eighty"),
        ("serve", "--workers", "0"),
        ("serve", "--colour", "red"),
        ("inventory", "import"),
        ("inventory", "import", "no-such-file.csv"),
        ("inventory", "import", "."),
        ("inventory", "import", __file__, "--format", "nonsense"),
        ("tokens", "create"),
        ("tokens", "revoke"),
        ("leads", "show"),
        ("leads", "list", "--limit", "0"),
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2_and_points_to_help(folder: Path, arguments: tuple[str, ...]) -> None:
    done = command_here(*arguments, cwd=folder)
    assert done.returncode == 2
    assert "--help" in done.stderr
    assert "Error" in done.stderr


BAD_DATABASES = {
    "nonsense": "not a url at all",
    "unknown kind": "mysql://localhost/dealer",
    "unreachable": "postgresql://nobody:secret-word@127.0.0.1:1/dealer",
    "no such folder": "sqlite:////no/such/folder/dealer.db",
    "in memory": "sqlite://",
    "a bad port": "postgresql://nobody:secret-word@127.0.0.1:notaport/dealer",
    "a bad option": "postgresql://nobody:secret-word@127.0.0.1:1/dealer?colour=red",
}


@pytest.mark.parametrize("url", BAD_DATABASES.values(), ids=BAD_DATABASES)
def test_a_database_that_cannot_be_used_is_told_in_plain_words(tmp_path: Path, url: str) -> None:
    folder = write_dealer(tmp_path / "store")
    done = command_here("leads", "list", "--dir", folder, DATABASE_URL=url)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert "secret-word" not in done.stderr


@pytest.mark.parametrize("content", [b"this is no database" * 100, None], ids=["other file", "folder"])
def test_a_database_file_that_is_none_is_told_in_plain_words(tmp_path: Path, content: bytes | None) -> None:
    folder = write_dealer(tmp_path / "store")
    database = folder / "dealer-agent.db"
    if content is None:
        database.mkdir()
    else:
        database.write_bytes(content)
    done = command_here("leads", "list", "--dir", folder)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")


NOBODY = 65534


@contextmanager
def without_rights() -> Iterator[None]:
    """Nothing is forbidden to root, so root is nobody for a while."""
    if os.getuid() != 0:
        yield
        return
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


@pytest.fixture
def public() -> Iterator[Path]:
    """A dealer's folder that everybody may look into, and in which only we may write."""
    with tempfile.TemporaryDirectory() as made:
        folder = stocked_dealer(Path(made))
        folder.chmod(0o555)
        yield folder
        folder.chmod(0o755)


def test_a_database_that_may_not_be_written_is_told_in_plain_words(public: Path) -> None:
    (public / "dealer-agent.db").chmod(0o444)
    with without_rights():
        done = command_here("tokens", "create", "Agent", "--dir", public)
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith("Error: ")


def test_files_that_may_not_be_read_are_told_in_plain_words(public: Path) -> None:
    public.chmod(0o755)
    export = public / "stock.csv"
    export.touch(mode=0)
    with without_rights():
        done = command_here("inventory", "import", export, "--dir", public)
    assert done.returncode == 2
    assert "not readable" in done.stderr
    (public / "dealer.toml").chmod(0)
    with without_rights():
        done = command_here("leads", "list", "--dir", public)
    assert done.returncode == 1
    assert "dealer.toml" in done.stderr
