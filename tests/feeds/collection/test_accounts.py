"""What a vendor needs to upload: a password, a key, and the fingerprint of our host key."""

import json
import subprocess
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from msgspec import UNSET
from tests.acceptance.dealers import write_dealer
from tests.acceptance.running import COMMAND, command_here, environment, succeed_here
from tests.feeds.collection.uploading import PASSWORD, PASSWORD_HASH
from typer.testing import CliRunner

from dealer_agent.cli import app
from dealer_agent.config import SettingsError
from dealer_agent.config.loading import read_dealer_file
from dealer_agent.config.sftp import read_host_key, read_public_key
from dealer_agent.encryption.passwords import is_password
from dealer_agent.feeds.collection.host_key import HostKeyError, fingerprint, host_key

pytestmark = pytest.mark.outside_protocol("uploads of feeds by SFTP")

DEALER = 'id = "a"\nname = "A"\nfeed_price = "advertised"\n[[rooftops]]\nname = "A"\ntimezone = "America/New_York"\n'
PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOhrn62FuOcdTEJQAcGA4uPNxIBjri9uIQI3LsCxLx4R"
FINGERPRINT = "SHA256:TsmCMbLIAU8jqpx5fC4U0Bw4V8dnk/qmDzhcUzgAyUM"


def test_the_command_prints_the_line_for_the_settings_and_never_the_password() -> None:
    done = subprocess.run(
        [COMMAND, "feeds", "password"],
        input=f"{PASSWORD}\n",
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert PASSWORD not in done.stdout + done.stderr
    file = read_dealer_file(f'{DEALER}[[feeds]]\nname = "main"\n[feeds.upload]\n{done.stdout}')
    account = file.feeds[0].upload
    assert account is not UNSET
    assert account.password_hash is not UNSET
    assert is_password(PASSWORD, account.password_hash)


def test_the_command_refuses_a_short_password() -> None:
    done = CliRunner().invoke(app, ["feeds", "password"], input="short\n")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "choose another" in done.stderr


def test_the_command_shows_the_host_key_that_the_service_will_use(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    write_dealer(folder, '\n[sftp]\nhost_key_file = "other"\n')
    (shown,) = json.loads(succeed_here("feeds", "host-key", "--dir", folder, "--json"))
    key = host_key(folder / "other")
    assert shown == {
        "fingerprint": fingerprint(key),
        "public_key": " ".join(key.export_public_key().decode().split()[:2]),
        "file": str(folder / "other"),
    }
    assert fingerprint(key) in succeed_here("feeds", "host-key", "--dir", folder)
    (folder / "other").chmod(0o644)
    done = command_here("feeds", "host-key", "--dir", folder)
    assert done.returncode == 1
    assert "chmod 600" in done.stderr


def test_a_host_key_is_made_once_for_its_user_only(tmp_path: Path) -> None:
    path = tmp_path / "key"
    first = host_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]
    assert fingerprint(host_key(path)) == fingerprint(first)


def test_the_host_key_may_be_another_one_of_openssh(tmp_path: Path) -> None:
    key = asyncssh.generate_private_key("ecdsa-sha2-nistp256")
    (tmp_path / "key").touch(0o600)
    (tmp_path / "key").write_bytes(key.export_private_key())
    assert fingerprint(host_key(tmp_path / "key")) == fingerprint(key)


@pytest.mark.parametrize("content", [b"", b"no key", PUBLIC_KEY.encode()])
def test_a_file_without_a_private_key_is_never_replaced(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "key").touch(0o600)
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(HostKeyError, match="put the host key back"):
        host_key(tmp_path / "key")
    assert (tmp_path / "key").read_bytes() == content


def test_a_host_key_that_cannot_be_written_says_where(tmp_path: Path) -> None:
    with pytest.raises(HostKeyError, match="nowhere"):
        host_key(tmp_path / "nowhere" / "key")


def test_a_key_is_read_without_its_comment_and_a_fingerprint_as_it_is() -> None:
    assert read_public_key(f"{PUBLIC_KEY} vendor@example.com") == PUBLIC_KEY
    assert read_host_key(PUBLIC_KEY) == PUBLIC_KEY
    assert read_host_key(FINGERPRINT) == FINGERPRINT


@pytest.mark.parametrize(
    "written",
    [
        "",
        PUBLIC_KEY.split()[0],
        PUBLIC_KEY.split()[1],
        PUBLIC_KEY[:40],
        PUBLIC_KEY.replace("ed25519", "rsa"),
        f"from=x {PUBLIC_KEY}",
        f"{PUBLIC_KEY}\n{PUBLIC_KEY}",
    ],
)
def test_a_text_that_is_not_a_public_key_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="is not a public key"):
        read_public_key(written)


@pytest.mark.parametrize("written", ["SHA256:", FINGERPRINT[:-1], "MD5:00:11", FINGERPRINT.replace("T", "-")])
def test_a_text_that_is_not_a_fingerprint_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        read_host_key(written)


WRONG: dict[str, tuple[str, str]] = {
    "no login": ("[feeds.upload]", "password_hash: is missing"),
    "an empty list of keys": ("[feeds.upload]\npublic_keys = []", "password_hash: is missing"),
    "a password in clear": (f'[feeds.upload]\npassword_hash = "{PASSWORD}"', "is not an Argon2id hash"),
    "a user name": (f'[feeds.upload]\nuser = "x"\npassword_hash = "{PASSWORD_HASH}"', "user: unknown key"),
    "no login at a server": (
        '[feeds.sftp]\nhost = "x.example.com"\nuser = "u"\npath = "/x"',
        "password_env: is missing",
    ),
    "two logins": (
        '[feeds.sftp]\nhost = "x.example.com"\nuser = "u"\npath = "/x"\npassword_env = "X"\nkey_file = "k"',
        "key_file: is one login too many",
    ),
    "two sources": (
        f'[feeds.upload]\npassword_hash = "{PASSWORD_HASH}"\n[feeds.folder]\npath = "x"',
        "has several sources",
    ),
}


@pytest.mark.parametrize(("section", "problem"), WRONG.values(), ids=WRONG)
def test_settings_that_cannot_work_are_refused(section: str, problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        read_dealer_file(f'{DEALER}[[feeds]]\nname = "main"\n{section}\n')


@pytest.mark.parametrize("setting", [{"port": 0}, {"max_connections": 1}, {"idle_seconds": 1}, {"login_seconds": 1}])
def test_the_bounds_of_the_server_have_bounds(setting: dict[str, Any]) -> None:
    ((key, value),) = setting.items()
    with pytest.raises(SettingsError, match=key):
        read_dealer_file(f"{DEALER}[sftp]\n{key} = {value}\n")
