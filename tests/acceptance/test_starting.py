"""What the command says when it cannot begin: plain words, exit code 1, or 2 for wrong usage; no traceback."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.acceptance.dealers import stocked_dealer, write_dealer
from tests.acceptance.running import (
    COMMAND,
    PATIENCE_SECONDS,
    command,
    command_here,
    environment,
    eventually,
    free_port,
    serving,
    succeed_here,
)

from dealer_agent.cli.serve import problem_of_card, problem_of_links

pytestmark = pytest.mark.outside_protocol("how the service starts")


def test_serve_on_a_port_in_use_says_so(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = command_here("serve", "--dir", folder, "--port", str(port))
    assert done.returncode == 1
    assert f"127.0.0.1:{port}" in done.stderr
    assert "in use" in done.stderr


@pytest.mark.parametrize("host", ["no such host", "a..b", "x" * 70])
def test_serve_rejects_an_invalid_host_name(folder: Path, host: str) -> None:
    done = command_here("serve", "--dir", folder, "--host", host, "--port", str(free_port()))
    assert done.returncode == 1
    assert host in done.stderr
    assert "--host" in done.stderr


def test_serve_without_a_dealer_points_to_init(tmp_path: Path) -> None:
    done = command_here("serve", "--dir", tmp_path)
    assert done.returncode == 1
    assert "dealer-agent init" in done.stderr


MAIL = '\n[mail]\nhost = "127.0.0.1"\nsecurity = "none"\nfrom_address = "leads@dealer.example.com"\n'
WARNINGS = ("inventory import", "no other machine can reach", "links in mails to customers")
"""Of a dealer that never had stock, of a card that names this machine, and of such links in mails to customers."""


@pytest.mark.parametrize("warned", [True, False])
def test_serve_warns_of_what_is_missing_and_of_what_others_cannot_reach(tmp_path: Path, warned: bool) -> None:
    """The service serves all the same.

    Without stock, as after a changed `id` in dealer.toml, it has nothing to sell.
    """
    if warned:
        folder = write_dealer(tmp_path / "store", f"{MAIL}confirm_appointments = true\n")
    else:
        public = '\n[service]\npublic_url = "https://agent.example.com"\n'
        folder = stocked_dealer(tmp_path / "store", f"{MAIL}confirm_appointments = true\n{public}")
    with serving(folder, options=("--host", "0.0.0.0")) as running:
        assert [warning in running.stderr() for warning in WARNINGS] == [warned] * 3


def test_serve_does_not_warn_of_links_in_mails_that_it_never_sends(tmp_path: Path) -> None:
    """Also behind a proxy, when the service listens on this machine only."""
    folder = stocked_dealer(tmp_path / "store", f"{MAIL}confirm_appointments = false\n")
    with serving(folder) as running:
        assert not any(warning in running.stderr() for warning in WARNINGS)


@pytest.mark.parametrize(
    ("listening", "named", "says"),
    [
        ("127.0.0.1", "http://127.0.0.1:8080", None),
        ("::1", "http://[::1]:8080", None),
        ("127.0.0.1", "http://agent.example.com", None),
        ("0.0.0.0", "https://agent.example.com", None),
        ("0.0.0.0", "http://127.0.0.1:8080", "no other machine can reach"),
        ("::", "http://[::1]:8080", "no other machine can reach"),
        ("0.0.0.0", "https://localhost:8443", "no other machine can reach"),
        ("10.0.0.5", "http://10.0.0.5:8080", "without encryption"),
        ("0.0.0.0", "http://agent.example.com", "without encryption"),
    ],
)
def test_a_card_that_buyers_elsewhere_cannot_use_is_a_problem(listening: str, named: str, says: str | None) -> None:
    problem = problem_of_card(listening, named)
    if says is None:
        assert problem is None
    else:
        assert problem is not None
        assert says in problem
        assert "Set public_url under [service]" in problem


@pytest.mark.parametrize(
    ("begin", "says"),
    [
        ("https://agent.example.com/base", None),
        ("http://127.0.0.1:8080", "work on this machine only"),
        ("http://[::1]:8080/base", "work on this machine only"),
        ("http://agent.example.com", "without encryption"),
    ],
)
def test_links_that_customers_cannot_use_are_a_problem(begin: str, says: str | None) -> None:
    problem = problem_of_links(begin)
    assert (problem is None) == (says is None)
    if problem is not None:
        assert says is not None
        assert says in problem
        assert "Set public_url under [service]" in problem


@pytest.mark.parametrize("subcommand", [("serve",), ("inventory", "import", __file__), ("leads", "list")])
def test_all_problems_of_dealer_toml_are_printed_with_their_lines(tmp_path: Path, subcommand: tuple[str, ...]) -> None:
    (tmp_path / "dealer.toml").write_text(
        'id = "Not An Id"\nname = "Broken"\nfeed_price = "guess"\ncolour = "red"\n\n[[rooftops]]\nname = "One"\n'
        'timezone = "Mars/Olympus"\n'
    )
    done = command_here(*subcommand, "--dir", tmp_path)
    assert done.returncode == 1
    told = done.stderr.splitlines()
    for line, word in ((1, "id"), (3, "feed_price"), (4, "colour"), (8, "timezone")):
        assert any(f"{line}" in said and word in said for said in told), (line, word, done.stderr)


@pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=pytest.mark.soak)])
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
        ("tokens", "create", " "),
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
    "a bad host": "postgresql://nobody:secret-word@a..b/dealer",
    "an unknown host": "postgresql://nobody:secret-word@no-such-host.invalid/dealer",
    "a bad option": "postgresql://nobody:secret-word@127.0.0.1:1/dealer?colour=red",
}


@pytest.mark.parametrize("url", BAD_DATABASES.values(), ids=BAD_DATABASES)
def test_a_database_that_cannot_be_used_is_refused_in_plain_words(tmp_path: Path, url: str) -> None:
    folder = write_dealer(tmp_path / "store")
    done = command_here("leads", "list", "--dir", folder, DATABASE_URL=url)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert "secret-word" not in done.stderr


@pytest.mark.parametrize("content", [b"this is not a database" * 100, None], ids=["other file", "folder"])
def test_a_file_that_is_not_a_database_is_refused_in_plain_words(tmp_path: Path, content: bytes | None) -> None:
    folder = write_dealer(tmp_path / "store")
    database = folder / "dealer-agent.db"
    if content is None:
        database.mkdir()
    else:
        database.write_bytes(content)
        database.chmod(0o600)
    done = command_here("leads", "list", "--dir", folder)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("leads", "list", "--dir", "file"), "is not a folder; name the folder of dealer.toml with --dir"),
        (("leads", "list", "--dir", "absent"), "name its folder with --dir, or make one with `dealer-agent init`"),
        (("init", "file"), "choose another place"),
        (("init", "file/below"), "choose another place"),
        (("demo", "--dir", "file"), "choose another place"),
    ],
)
def test_the_message_for_a_wrong_folder_says_what_to_do(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    (tmp_path / "file").touch()
    more = ("--port", str(free_port())) if arguments[0] == "demo" else ()
    done = command_here(*arguments, *more, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: ")
    assert says in done.stderr


@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["as a supervisor", "as a terminal"])
def test_ctrl_c_ends_a_command_with_one_sentence_and_changes_nothing(
    tmp_path: Path, send: Callable[[int, int], None]
) -> None:
    """The feed is a pipe that nobody closes: the import waits in the middle of reading, in a process of its own.

    A supervisor signals only the process that it started, and a terminal every process of the command.
    """
    folder = stocked_dealer(tmp_path / "store")
    before = succeed_here("inventory", "history", "--dir", folder)
    pipe = tmp_path / "feed"
    os.mkfifo(pipe)
    importing = subprocess.Popen(
        [COMMAND, "inventory", "import", pipe, "--dir", folder],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell ignores SIGINT in what it runs in the background, and its children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        start_new_session=True,
    )
    with pipe.open("wb"):  # Opened by both sides: the command begins to read.
        eventually("the child of the command waits for the pipe", lambda: waits_for_a_pipe(importing.pid))
        send(importing.pid, signal.SIGINT)
        # Both processes have its output, so this waits for the end of both.
        said, complained = importing.communicate(timeout=PATIENCE_SECONDS)
    assert (importing.returncode, said) == (130, "")
    assert complained == "Stopped by Ctrl-C.\n"
    assert succeed_here("inventory", "history", "--dir", folder) == before


def waits_for_a_pipe(parent: int) -> bool:
    """Whether a child waits in a system call for a pipe.

    Python would notice a signal that comes just before this call only when the call returns.
    """
    if sys.platform != "linux":
        time.sleep(1)
        return True
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text("ascii").split()
    return any("pipe_read" in Path(f"/proc/{child}/wchan").read_text("ascii") for child in children)


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


def test_a_database_that_is_read_only_is_refused_in_plain_words(public: Path) -> None:
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
