"""The accounts of vendors that upload feeds to an installation: `feed@dealer`."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.feeds.collection.uploading import PASSWORD_HASH
from tests.installation.platform import DEALERS, INSTALLATION_TOML, add, dealer_toml, make_installation
from tests.storage.service_role import admin_of

from dealer_agent.config import SettingsError
from dealer_agent.feeds.collection.accounts import Accounts
from dealer_agent.open_installation import OpenInstallation
from dealer_agent.storage.installation.dealer_registry import set_state
from dealer_agent.storage.store import Store

pytestmark = pytest.mark.outside_protocol("uploads of feeds by SFTP")

NORTH, SOUTH = DEALERS
UPLOAD = f"""
[[feeds]]
name = "main"
max_mib = 7
[feeds.upload]
password_hash = "{PASSWORD_HASH}"
public_keys = ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOhrn62FuOcdTEJQAcGA4uPNxIBjri9uIQI3LsCxLx4R vendor@example.com"]

[[feeds]]
name = "fetched"
[feeds.folder]
path = "drop"
"""


@pytest.fixture
def opened(tmp_path: Path, environment: dict[str, str]) -> Iterator[OpenInstallation]:
    """An installation whose dealer NORTH has a feed for uploads."""
    installation = make_installation(
        tmp_path / "platform", f"{INSTALLATION_TOML}\n[sftp]\nmax_waiting_files = 3\n", environment
    )
    for dealer_id in DEALERS:
        add(installation, dealer_id, more=UPLOAD if dealer_id == NORTH else "")
    # The process that receives uploads has no keys.
    without_keys = replace(installation, cipher=None)
    with Store.open(admin_of(installation.database_url), many_dealers=True) as store:
        yield OpenInstallation(without_keys, store)


def test_the_name_of_a_user_has_feed_and_dealer(opened: OpenInstallation, tmp_path: Path) -> None:
    account = Accounts(opened.installation, opened).find(f"main@{NORTH}")
    assert account is not None
    assert (account.dealer_id, account.feed) == (NORTH, "main")
    assert account.incoming == tmp_path / "platform" / "dealers" / NORTH / "feeds" / "main" / "incoming"
    assert (account.limits.file_bytes, account.limits.files) == (7 << 20, 3)
    assert account.password_hash == PASSWORD_HASH
    assert [len(key.split()) for key in account.public_keys] == [2]


def test_other_names_and_those_of_a_disabled_dealer_have_no_account(opened: OpenInstallation) -> None:
    find = Accounts(opened.installation, opened).find
    others = (
        *(f"fetched@{NORTH}", f"main@{SOUTH}", "main@nobody", "main", NORTH, f"main@{NORTH}@{NORTH}"),
        *(f"../main@{NORTH}", f"main@../{NORTH}", f"MAIN@{NORTH}", "", "@", "main@" + "x" * 1000),
    )
    assert {name: find(name) for name in others} == dict.fromkeys(others)
    assert find(f"main@{NORTH}") is not None
    with opened.store.write(NORTH) as tx:
        set_state(tx, enabled=False)
    assert find(f"main@{NORTH}") is None


def test_a_dealer_cannot_change_the_server_nor_read_a_key_elsewhere(tmp_path: Path) -> None:
    installation = make_installation(tmp_path / "platform")
    source = '\n[[feeds]]\nname = "a"\n[feeds.sftp]\nhost = "x.example.com"\nuser = "u"\npath = "/x"\n'
    for more, problem in (
        ("\n[sftp]\nenabled = true\n", r"sftp\.enabled: belongs to installation\.toml"),
        ("\n[feed_files]\ndealer_mib = 9999\n", r"feed_files\.dealer_mib: belongs to installation\.toml"),
        ('\n[service]\nprivate_networks = ["10.0.0.0/8"]\n', r"private_networks: belongs to installation\.toml"),
        (f'{source}key_file = "/etc/ssh/ssh_host_rsa_key"\n', r"key_file: '/etc/ssh/.*outside the dealer's own"),
        (f'{source}key_file = "../south-motors/key"\n', "outside the dealer's own"),
        (f'{source}password_env = "DEALER_SOUTH_MOTORS__FEED"\n', "write a name such as DEALER_NORTH_MOTORS__"),
    ):
        with pytest.raises(SettingsError, match=problem):
            installation.dealer_settings(dealer_toml(NORTH, more))
