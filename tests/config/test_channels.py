"""The service does not start when a channel lacks something, and names the key (docs/reference/delivery.md)."""

from pathlib import Path

import pytest

from dealer_agent.config import SettingsError, load_settings
from dealer_agent.config.channels import channel_secrets

HEAD = """id = "example"
name = "Example Motors"
feed_price = "advertised"
[[rooftops]]
name = "North"
timezone = "America/New_York"
"""
MAIL = '[mail]\nhost = "mail.example.com"\nfrom_address = "leads@example.com"\n'
SMTP = '[[rooftops.deliver.smtp]]\nname = "crm"\nto = ["crm@example.com"]\n'
HTTP = '[[rooftops.deliver.http]]\nname = "web"\nurl = "https://crm.example.com"\n'
LOGIN = {"DEALER_AGENT_SMTP_USER": "dealer", "DEALER_AGENT_SMTP_PASSWORD": "not-shown"}


def secrets(folder: Path, text: str, env: dict[str, str]) -> dict[str, str]:
    (folder / "dealer.toml").write_text(HEAD + text, encoding="utf-8")
    return channel_secrets(load_settings(folder, env), env)


@pytest.mark.parametrize(
    ("text", "env", "problems"),
    [
        (SMTP, {}, ["line 7: rooftops[0].deliver.smtp[0]: needs a mail server"]),
        (
            '[rooftops.deliver]\nnotify = ["a@example.com"]\n',
            {},
            ["line 8: rooftops[0].deliver.notify: needs a mail server"],
        ),
        (
            "[mail]\nconfirm_appointments = true\n",
            {},
            ["line 8: mail.confirm_appointments: needs a mail server"],
        ),
        ('[mail]\nhost = "mail.example.com"\n', {}, ["line 7: mail.from_address: is needed to send mail"]),
        (
            MAIL,
            {"DEALER_AGENT_SMTP_USER": "dealer"},
            ["mail.password_env: the environment variable DEALER_AGENT_SMTP_PASSWORD is not set"],
        ),
        (
            MAIL + 'user_env = "MY_USER"\n',
            {"MY_USER": "", **LOGIN},
            ["line 10: mail.user_env: the environment variable MY_USER"],
        ),
        *(
            (
                MAIL.replace("mail.example.com", host) + 'security = "none"\n',
                env,
                ["line 10: mail.security: would send customers' data without encryption"],
            )
            for host in ("mail.example.com", "10.0.0.7", "mailhost", "localhost.example.com", "::2", "0.0.0.0")
            for env in (LOGIN, {})
        ),
        (
            HTTP + 'secret_env = "CRM_SECRET"\n',
            {},
            ["line 10: rooftops[0].deliver.http[0].secret_env: the environment variable CRM_SECRET is not set"],
        ),
        (
            HTTP + 'secret_env = "CRM_SECRET"\n',
            {"CRM_SECRET": ""},
            ["secret_env: the environment variable CRM_SECRET is not set"],
        ),
        (
            HTTP + 'authorization_env = "CRM_TOKEN"\n',
            {},
            ["authorization_env: the environment variable CRM_TOKEN is not set"],
        ),
        (
            HTTP + 'authorization_env = "CRM_TOKEN"\n',
            {"CRM_TOKEN": "Bearer not-shown\r\nX: y"},
            ["authorization_env: the environment variable CRM_TOKEN has characters that a header cannot have"],
        ),
        (
            HTTP.replace("https", "http"),
            {},
            ["line 9: rooftops[0].deliver.http[0].url: would send customers' data without encryption"],
        ),
        *(
            (
                HTTP.replace("crm.example.com", address),
                {},
                ["line 9: rooftops[0].deliver.http[0].url: must hold no user name and no password; put the value of"],
            )
            for address in (
                "dealer:not-shown@crm.example.com",
                "not-shown@crm.example.com",
                ":not-shown@crm.example.com:8443/leads",
                "dealer:not-shown@crm example com",
                "dealer%3Anot-shown%40crm.example.com/leads",
                "dealer:not-shown%40crm.example.com",
                "dealer:not-shown\uff20crm.example.com",
            )
        ),
        *(
            (
                HTTP.replace("https://crm.example.com", address),
                {},
                ["line 9: rooftops[0].deliver.http[0].url: must hold no user name and no password; put the value of"],
            )
            for address in (
                "\\u0001https://dealer:not-shown@crm.example.com",
                "https://crm.example.com/leads?dealer=7&password=not-shown",
                "https://crm.example.com/leads?PWD=not-shown",
                "https://crm.example.com/leads?pass%77ord=not-shown",
            )
        ),
        (
            HTTP.replace("crm.example.com", "dealer:not/shown-not-shown@crm.example.com"),
            {},
            ["line 9: rooftops[0].deliver.http[0].url: the value is not a web address"],
        ),
        (
            'website = "https://dealer:not-shown@www.example.com"\n',
            {},
            ["line 7: rooftops[0].website: must hold no user name and no password"],
        ),
        *(
            (
                MAIL.replace("mail.example.com", address),
                LOGIN,
                ["line 8: mail.host: the value is not a host name; write it alone, without a port or a login"],
            )
            for address in ("dealer:not-shown@mail.example.com", "dealer%3Anot-shown%40mail.example.com")
        ),
        (
            HTTP + "timeout_seconds = 30\n[delivery]\nlease_seconds = 30\n",
            {},
            ["line 10: rooftops[0].deliver.http[0].timeout_seconds: 30 is too long for lease_seconds, 30"],
        ),
        (
            MAIL + "timeout_seconds = 60\n[delivery]\nlease_seconds = 60\n",
            {},
            ["line 10: mail.timeout_seconds: 60 is too long"],
        ),
        (
            '[[rooftops.deliver.directory]]\nname = "folder"\npath = "dealer.toml"\n',
            {},
            ["line 9: rooftops[0].deliver.directory[0].path: "],
        ),
        (
            SMTP + HTTP + 'secret_env = "CRM_SECRET"\n',
            {},
            ["rooftops[0].deliver.smtp[0]: needs", "rooftops[0].deliver.http[0].secret_env: the environment"],
        ),
    ],
)
def test_a_channel_without_what_it_needs_is_refused_with_its_key(
    tmp_path: Path, text: str, env: dict[str, str], problems: list[str]
) -> None:
    with pytest.raises(SettingsError) as raised:
        secrets(tmp_path, text, env)
    told = str(raised.value).splitlines()
    assert len(told) == len(problems)
    for line, problem in zip(told, problems, strict=True):
        assert problem in line
    assert "not-shown" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "env", "found"),
    [
        ("", {"OTHER": "x"}, {}),
        (SMTP + MAIL, {}, {}),
        (SMTP + MAIL, LOGIN, LOGIN),
        (SMTP + MAIL.replace("mail.example.com", "127.0.0.1") + 'security = "none"\n', LOGIN, LOGIN),
        (
            HTTP + 'secret_env = "CRM_SECRET"\nauthorization_env = "CRM_TOKEN"\n',
            {"CRM_SECRET": "s\u00fc\u00df", "CRM_TOKEN": "Bearer t", "OTHER": "x"},
            {"CRM_SECRET": "s\u00fc\u00df", "CRM_TOKEN": "Bearer t"},
        ),
        (HTTP.replace("https://crm.example.com", "http://127.0.0.1:8080/leads"), {}, {}),
        (HTTP.replace("https://crm.example.com", "https://crm.example.com/@dealer?to=a@b"), {}, {}),
        (HTTP.replace("https://crm.example.com", "https://crm.example.com/leads?password_reset=no&key=7"), {}, {}),
        (HTTP.replace("https://crm.example.com", "http://localhost/leads"), {}, {}),
        (HTTP.replace("https://crm.example.com", "http://crm:8080/leads"), {}, {}),
        (HTTP.replace("https://crm.example.com", "http://[::1]:8080/leads"), {}, {}),
        ('[[rooftops.deliver.directory]]\nname = "folder"\npath = "made/later"\n', {}, {}),
    ],
)
def test_only_the_secrets_that_channels_name_are_read(
    tmp_path: Path, text: str, env: dict[str, str], found: dict[str, str]
) -> None:
    assert secrets(tmp_path, text, env) == found
