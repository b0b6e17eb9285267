"""`dealer-agent doctor` names what is wrong with a service, and what to do."""

import json
import os
import shlex
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import AuthResult
from tests.acceptance.dealers import stocked_dealer, write_dealer
from tests.acceptance.running import command_here, eventually, serving, succeed_here
from tests.delivery.receivers import NOBODY, HttpReceiver, MailReceiver, always, receiving_http, receiving_mail
from tests.installation.platform import DEALERS, add, make_installation
from tests.servers.issuer import running_issuer

from dealer_agent.operations.checks import CheckResult, DoctorCheck, DoctorFinding, run_checks
from dealer_agent.storage.errors import DatabaseBusy

pytestmark = pytest.mark.outside_protocol("the command `doctor`")

FEED = b'[{"stock": "N1", "year": 2020, "make": "Honda", "condition": "used"}]'
CHECKS = [
    "database",
    "settings",
    "time zones",
    "keys",
    "folder",
    "disk",
    "clock",
    "replicas",
    "feeds",
    "deliveries",
    "quarantine",
    "withdrawals",
    "tokens",
    "mail",
    "channels",
    "public address",
    "rate limits",
    "sftp server",
    "metrics",
    "proxy",
]


def examined(folder: Path, *options: str, **env: Any) -> tuple[int, dict[str, list[tuple[str, str, str]]]]:
    """The exit code, and the status, the state and the advice of each finding, by check."""
    done = command_here("doctor", "--json", "--dir", folder, *options, **env)
    found: dict[str, list[tuple[str, str, str]]] = {}
    for row in json.loads(done.stdout):
        found.setdefault(row["check"], []).append((row["status"], row["says"], row["advice"]))
    return done.returncode, found


def recorded(found: dict[str, list[tuple[str, str, str]]]) -> bool:
    """Whether the service has recorded that it serves, and which key it uses."""
    return found["replicas"][0][0] != "skipped" and len(found["keys"]) == 2


def crm(port: int, *, more: str = "") -> str:
    """A channel of the second rooftop."""
    url = f"http://127.0.0.1:{port}/leads"
    return f'\n[[rooftops.deliver.http]]\nname = "crm"\nurl = "{url}"\ntimeout_seconds = 110\n{more}'


def mail(port: int, *, security: str = "none", more: str = "") -> str:
    server = f'host = "127.0.0.1"\nport = {port}\nsecurity = "{security}"\nfrom_address = "store@example.com"\n'
    return f"\n[mail]\n{server}timeout_seconds = 110\n{more}"


def public_url(url: str) -> str:
    return f'\n[service]\npublic_url = "{url}"\n'


def test_a_service_in_order_has_no_problem(tmp_path: Path) -> None:
    with receiving_http(HttpReceiver(always("take"))) as receiver, receiving_mail(MailReceiver(always("take"))) as post:
        settings = crm(receiver.port) + mail(post.port)
        folder = stocked_dealer(tmp_path / "store", settings)
        with serving(folder) as running:
            # The service records its machine and the use of its keys soon after it is ready.
            eventually("it has recorded both", lambda: recorded(examined(folder)[1]))
            code, found = examined(folder)
            assert (code, list(found)) == (0, CHECKS)
            # How fast the database is, and how full the disk, is no matter of the service.
            ours = found.keys() - {"database", "disk"}
            statuses = {check: {status for status, _, _ in found[check]} for check in ours}
            not_ok = {check: each for check, each in statuses.items() if each != {"ok"}}
            assert not_ok == {
                "settings": {"warning"},
                "keys": {"warning", "ok"},
                "feeds": {"warning"},
                "tokens": {"skipped"},
                "public address": {"warning"},
                "rate limits": {"skipped"},
                "sftp server": {"skipped"},
                "metrics": {"skipped"},
            }
            words = [said for _, said, _ in found["settings"]]
            assert words == ["nobody gets alerts", "nobody receives the leads of Acceptance Motors North"]
            assert "no copy of" in found["keys"][0][1]

            # The card of the running service names the address at which it listens.
            write_dealer(folder, settings + public_url(running.url))
            code, found = examined(folder)
            assert (code, found["public address"][-1][0]) == (0, "ok"), found["public address"]
            ((status, says, _),) = found["replicas"]
            assert (status, "other settings" in says) == ("warning", True)
            write_dealer(folder, settings + public_url(f"{running.url}/agent"))
            code, found = examined(folder)
            assert (code, found["public address"][-1][0]) == (1, "problem")
        assert receiver.taken == []
        assert post.taken == []
        said = command_here("doctor", "--dir", folder)
        assert " problem" in said.stdout.splitlines()[-1]


def test_tokens_that_expire_soon_are_warnings_with_the_lines_that_replace_them(tmp_path: Path) -> None:
    folder = stocked_dealer(tmp_path / "store", "")
    succeed_here("tokens", "create", "Website", "--days", "40", "--dir", folder)
    ((status, says, _),) = examined(folder)[1]["tokens"]
    assert (status, says) == ("ok", "1 token, none expires within 14 days")
    made = json.loads(succeed_here("tokens", "create", "Big Agent", "--days", "10", "--json", "--dir", folder))
    ((status, says, advice),) = examined(folder)[1]["tokens"]
    assert (status, f"the token {made['id']} of Big Agent expires on " in says) == ("warning", True)
    commands = [line for line in advice.splitlines() if line.startswith("dealer-agent ")]
    for command in commands:
        succeed_here(*shlex.split(command)[1:])
    listed = json.loads(succeed_here("tokens", "list", "--json", "--dir", folder))
    assert [(each["name"], each["revoked"] is None) for each in listed] == [
        ("Website", True),
        ("Big Agent", False),
        ("Big Agent", True),
    ]
    assert listed[1]["expires"] == made["expires"]
    assert examined(folder)[1]["tokens"][0][0] == "ok"


def without_keys(folder: Path) -> None:
    (folder / "dealer-agent.keys").unlink()


def exposed_keys(folder: Path) -> None:
    (folder / "dealer-agent.keys").chmod(0o644)


def of_schema(revision: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        with closing(sqlite3.connect(folder / "dealer-agent.db")) as database, database:
            database.execute("UPDATE alembic_version SET version_num = ?", [revision])

    return change


def without_database(folder: Path) -> None:
    for path in folder.glob("dealer-agent.db*"):
        path.unlink()


def damaged(folder: Path) -> None:
    without_database(folder)
    (folder / "dealer-agent.db").write_bytes(b"no database" * 1000)
    (folder / "dealer-agent.db").chmod(0o600)


def with_settings(text: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        write_dealer(folder, text)

    return change


def open_folder(folder: Path) -> None:
    folder.chmod(0o755)


HTTP = f'\n[[rooftops.deliver.http]]\nname = "crm"\nurl = "http://127.0.0.1:{NOBODY}/"\n'

PROBLEMS: dict[str, tuple[Callable[[Path], None], str, str, str]] = {
    "a wrong setting": (with_settings("\n[search]\ndefault_limit = 0\n"), "settings", "default_limit", "correct it"),
    "an open folder": (open_folder, "settings", "chmod 700", "correct it"),
    "exposed keys": (exposed_keys, "settings", "chmod 600", "correct it"),
    "a missing secret": (with_settings(f'{HTTP}secret_env = "CRM_KEY"\n'), "settings", "CRM_KEY is not set", "correct"),
    "no keys": (without_keys, "keys", "no keys", "dealer-agent keys create"),
    "no database": (without_database, "database", "no database yet", "inventory import"),
    "a damaged database": (damaged, "database", "", ""),
    "an older schema": (of_schema("0009"), "database", "has schema 0009", "new database"),
    "a newer schema": (of_schema("9999"), "database", "has schema 9999", "this version knows"),
    "no receiver": (with_settings(HTTP), "channels", "127.0.0.1:9", "check url"),
    "no mail server": (with_settings(mail(NOBODY)), "mail", "cannot be reached", "check [mail]"),
    "no SFTP server": (with_settings(f"\n[sftp]\nenabled = true\nport = {NOBODY}\n"), "sftp server", "port 9", "read"),
    "no metrics": (with_settings(f"\n[metrics]\nenabled = true\nport = {NOBODY}\n"), "metrics", "cannot be", "read"),
    "no answer": (
        with_settings(public_url(f"http://127.0.0.1:{NOBODY}")), "public address", "cannot be reached", "check the",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("change", "check", "says", "advice"), PROBLEMS.values(), ids=PROBLEMS.keys())
def test_each_problem_has_a_line_with_advice(
    tmp_path: Path, change: Callable[[Path], None], check: str, says: str, advice: str
) -> None:
    folder = stocked_dealer(tmp_path / "store")
    change(folder)
    code, found = examined(folder)
    problems = [(said, do) for status, said, do in found[check] if status == "problem"]
    assert code == 1
    assert any(says in said and advice in do for said, do in problems), found


def test_a_rate_limit_store_that_does_not_answer_is_a_problem(tmp_path: Path) -> None:
    folder = stocked_dealer(tmp_path / "store")
    code, found = examined(folder, RATE_LIMIT_URL=f"valkey://user:secret@127.0.0.1:{NOBODY}/0")
    assert (code, found["rate limits"][0][0]) == (1, "problem")
    assert "secret" not in str(found)


def test_a_refused_login_of_the_mail_server_is_a_problem(tmp_path: Path) -> None:
    with receiving_mail(
        MailReceiver(always("take")),
        auth_required=True,
        auth_require_tls=False,
        authenticator=lambda *_: AuthResult(success=False, handled=False),
    ) as post:
        folder = stocked_dealer(tmp_path / "store", mail(post.port))
        login = {"DEALER_AGENT_SMTP_USER": "store", "DEALER_AGENT_SMTP_PASSWORD": "wrong"}
        code, found = examined(folder, **login)
    ((status, says, _),) = found["mail"]
    assert (code, status) == (1, "problem"), found["mail"]
    assert "wrong" not in says
    assert post.taken == []


def test_a_marked_test_lead_reaches_each_channel_and_nothing_is_stored(tmp_path: Path) -> None:
    with receiving_http(HttpReceiver(always("take"))) as receiver, receiving_mail(MailReceiver(always("take"))) as post:
        toml = '\n[rooftops.deliver]\nnotify = ["staff@example.com"]\n'
        toml += '\n[[rooftops.deliver.directory]]\nname = "folder"\npath = "leads"\n'
        toml += crm(receiver.port) + mail(post.port, more="confirm_appointments = true\n")
        folder = stocked_dealer(tmp_path / "store", toml)
        code, found = examined(folder, "--send")
        assert (code, len(found["channels"])) == (0, 3), found["channels"]
        assert {status for status, _, _ in found["channels"]} == {"ok"}
        (posted,), (mailed,), (written,) = receiver.taken, post.taken, (folder / "leads").glob("*.xml")
        for document in (posted.body, mailed.raw, written.read_bytes()):
            assert b"TEST" in document
        assert mailed.recipients == ["staff@example.com"]
    assert json.loads(succeed_here("leads", "list", "--json", "--dir", folder)) == []
    assert json.loads(succeed_here("deliveries", "list", "--json", "--dir", folder)) == []
    code, found = examined(folder, "--send")
    assert (code, sorted(status for status, _, _ in found["channels"])) == (1, ["ok", "problem", "problem"])


def test_all_dealers_of_an_installation_are_summarised(tmp_path: Path, database_url: str) -> None:
    north, south = DEALERS
    env: dict[str, Any] = {"DATABASE_URL": database_url}
    installation = make_installation(tmp_path / "platform", env=env)
    add(installation, north, FEED)
    add(installation, south)
    code, found = examined(installation.folder, **env)
    dealers = [(status, says) for status, says, _ in found["dealers"]]
    assert (code, dealers) == (1, [("problem", f"{south}: no stock was ever imported")])
    code, found = examined(installation.folder, "--dealer", north, **env)
    assert (found["feeds"][0][0], list(found)) == ("ok", CHECKS)
    for options, told in ((["--dealer", "nobody"], "nobody"), (["--send"], "--dealer")):
        refused = command_here("doctor", *options, "--dir", installation.folder, **env)
        assert (refused.returncode, told in refused.stderr) == (2, True), refused.stderr


def test_a_check_that_crashes_or_hangs_is_reported_as_a_problem() -> None:
    stopped = threading.Event()

    def hang() -> list[DoctorFinding]:
        stopped.wait()
        return []

    def crash() -> list[DoctorFinding]:
        raise LookupError("a secret of somebody")

    def busy() -> list[DoctorFinding]:
        raise DatabaseBusy("the database is busy: try again")

    def no_file() -> list[DoctorFinding]:
        raise FileNotFoundError(2, os.strerror(2), "/nowhere")

    (late,) = run_checks([DoctorCheck("hang", hang)], seconds=0.1)
    stopped.set()
    assert late == CheckResult(
        "hang",
        "problem",
        "no result within 0.1 s",
        "run the command again; if it has no result again, look at what the check reads: disk, database, network",
    )
    checks = [DoctorCheck(run.__name__, run) for run in (crash, busy, no_file)]
    found = run_checks([*checks, DoctorCheck("fine", lambda: [DoctorFinding("ok", "in order")])], seconds=600)
    assert found == [
        CheckResult("crash", "problem", "the check failed (LookupError)", "report this fault"),
        CheckResult("busy", "problem", "the database is busy", "try again"),
        CheckResult("no_file", "problem", "/nowhere: No such file or directory", ""),
        CheckResult("fine", "ok", "in order", ""),
    ]


@pytest.mark.parametrize(
    ("section", "status", "words"),
    [
        ('issuer = "{url}"', "warning", "an address of this machine as audience"),
        ('issuer = "{url}"\naudience = "cars"', "ok", "1 keys; the audience is cars"),
        ('issuer = "{url}"\naudience = "cars"\nalgorithms = ["EdDSA"]', "problem", "its keys are for ES256"),
        ('issuer = "{url}/other"', "problem", "status 404"),
        ('issuer = "{url}"\njwks_url = "{url}/token"', "problem", "status 405"),
    ],
)
def test_it_checks_each_issuer(tmp_path: Path, section: str, status: str, words: str) -> None:
    with running_issuer(algorithm="ES256") as issuer:
        folder = stocked_dealer(tmp_path / "store", f"[[auth.issuers]]\n{section.format(url=issuer.url)}\n")
        ((found, says, _),) = examined(folder)[1]["issuers"]
    assert found == status
    assert words in says
