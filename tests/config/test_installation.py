"""What a dealer of an installation inherits, and what it cannot set."""

from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.installation.platform import INSTALLATION_TOML, dealer_toml

from dealer_agent.config.installation import Installation, load_installation, variable_prefix
from dealer_agent.config.settings_problems import SettingsError

pytestmark = pytest.mark.outside_protocol("settings of many dealers")

FEED = '[[feeds]]\nname = "main"\n'
SFTP = 'host = "sftp.example.com"\nuser = "north"\npath = "/export/*.csv"\n'
CRM = '\n[[rooftops.deliver.http]]\nname = "crm"\nurl = "https://crm.example.com/"\nsecret_env = "{}"\n'
IDS = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,6}[a-z0-9])?", fullmatch=True)


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    folder = tmp_path / "installation"
    folder.mkdir(mode=0o700)
    (folder / "installation.toml").write_text(INSTALLATION_TOML + "\n[search]\ndefault_limit = 7\n", encoding="utf-8")
    return load_installation(folder, {})


def test_a_dealer_inherits_single_keys(installation: Installation) -> None:
    assert installation.dealer_settings(dealer_toml("north")).search.default_limit == 7
    own = installation.dealer_settings(dealer_toml("north", "\n[search]\nlimit_cap = 50\n")).search
    assert (own.default_limit, own.limit_cap) == (7, 50)


@pytest.mark.parametrize(
    ("dealer_id", "variable", "allowed"),
    [
        ("north-motors", "DEALER_NORTH_MOTORS__CRM", True),
        ("north", "DEALER_NORTH__MOTORS_CRM", True),
        # Another dealer's, and the installation's own.
        ("north", "DEALER_NORTH_MOTORS__CRM", False),
        ("north", "DEALER_NORTH__MOTORS__CRM", False),
        ("agent", "DEALER_AGENT_KEYS", False),
        ("agent", "DEALER_AGENT_SMTP_PASSWORD", False),
        ("north", "DATABASE_URL", False),
        ("north", "PATH", False),
    ],
)
def test_a_dealer_reads_its_own_environment_variables_only(
    installation: Installation, dealer_id: str, variable: str, allowed: bool
) -> None:
    text = dealer_toml(dealer_id, CRM.format(variable))
    if allowed:
        installation.dealer_settings(text)
    else:
        says = rf"secret_env: '?{variable}'? is (not a variable of this dealer|for the service itself)"
        with pytest.raises(SettingsError, match=says):
            installation.dealer_settings(text)


@given(IDS, IDS)
def test_no_two_dealers_have_the_same_variables(one: str, other: str) -> None:
    assume(one != other)
    assert variable_prefix(one) != variable_prefix(other)


@pytest.mark.parametrize(
    ("toml", "key"),
    [
        ('[mail]\nhost = "smtp.attacker.example"\nfrom_address = "a@example.com"', "mail.host"),
        ('[mail]\npassword_env = "DATABASE_URL"', "mail.password_env"),
        ('[service]\npublic_url = "https://other.example.com"', "service.public_url"),
        ('[service]\ntrusted_proxies = ["0.0.0.0/0"]', "service.trusted_proxies"),
        ('[privacy]\nheads_file = "../south/consent-heads.log"', "privacy.heads_file"),
        ('[privacy]\nheads_file = "/etc/heads"', "privacy.heads_file"),
        ('[service]\nbase_path = "/agent"', "service.base_path"),
        (
            '[[rooftops.deliver.directory]]\nname = "inbox"\npath = "../south/inbox"',
            "rooftops[0].deliver.directory[0].path",
        ),
        (
            '[[rooftops.deliver.directory]]\nname = "inbox"\npath = "/srv/inbox"',
            "rooftops[0].deliver.directory[0].path",
        ),
        (
            f'{FEED}[feeds.url]\naddress = "https://a.example"\ntoken_env = "DATABASE_URL"',
            "feeds[0].url.token_env",
        ),
        (f'{FEED}[feeds.folder]\npath = "../south/feeds"', "feeds[0].folder.path"),
        (f'{FEED}[feeds.sftp]\n{SFTP}key_file = "/root/.ssh/id_ed25519"', "feeds[0].sftp.key_file"),
    ],
)
def test_a_dealer_cannot_set_what_gives_access_to_others(installation: Installation, toml: str, key: str) -> None:
    with pytest.raises(SettingsError) as refused:
        installation.dealer_settings(dealer_toml("north", f"\n{toml}\n"))
    assert f" {key}: " in str(refused.value)


def test_the_path_on_a_vendors_server_is_any(installation: Installation) -> None:
    text = dealer_toml("north", f'\n{FEED}[feeds.sftp]\n{SFTP}password_env = "DEALER_NORTH__SFTP"\n')
    assert installation.dealer_settings(text).feeds


@pytest.mark.parametrize(("key", "value"), [("public_url", "https://other.example.com"), ("base_path", "/agent")])
def test_the_public_address_is_set_in_one_place(tmp_path: Path, key: str, value: str) -> None:
    folder = tmp_path / "installation"
    folder.mkdir(mode=0o700)
    (folder / "installation.toml").write_text(f'{INSTALLATION_TOML}\n[service]\n{key} = "{value}"\n', encoding="utf-8")
    words = rf"installation.toml, line 6: service.{key}: the public address is public_url under \[installation\]"
    with pytest.raises(SettingsError, match=words):
        load_installation(folder, {})
