"""Checks what the channels of `dealer.toml` need before the service starts: secrets, a mail server, safe URLs."""

import os
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from msgspec import UNSET

from dealer_agent.config.loading import FILE_NAME
from dealer_agent.config.settings import Settings
from dealer_agent.config.settings_problems import error_with_lines
from dealer_agent.dealers.profile import HttpChannel
from dealer_agent.dealers.profile_checks import is_this_machine
from dealer_agent.outgoing.addresses import is_public
from dealer_agent.protocol.problems import Path, Problem

LEAST_LEASE_MARGIN_SECONDS = 5
"""The time of a lease beyond the timeout of a channel: to render the document and to store the result."""


def channel_secrets(settings: Settings, env: Mapping[str, str]) -> dict[str, str]:
    """The values of all environment variables that the channels and the mail server need, by the variable's name.

    Raises SettingsError with all problems of the channels, each with the path of its setting.
    """
    found = list(_problems(settings, env))
    if found:
        file = settings.folder / FILE_NAME
        # The settings of a dealer of an installation are in its database.
        raise error_with_lines(FILE_NAME, file.read_text("utf-8-sig") if file.exists() else None, found)
    names = [settings.mail.user_env, settings.mail.password_env]
    for rooftop in settings.dealer.rooftops:
        for channel in rooftop.deliver.http:
            names += [name for name in (channel.secret_env, channel.authorization_env) if name is not UNSET]
    return {name: env[name] for name in names if env.get(name)}


def _problems(settings: Settings, env: Mapping[str, str]) -> Iterator[Problem]:
    """Settings of channels that cannot work here: absent variables, unusable folders, unsafe addresses."""
    yield from _of_mail(settings, env)
    for index, rooftop in enumerate(settings.dealer.rooftops):
        here: Path = ("rooftops", index, "deliver")
        if not settings.mail.host:
            advice = "needs a mail server: write host and from_address under [mail]"
            for position in range(len(rooftop.deliver.smtp)):
                yield Problem((*here, "smtp", position), advice)
            if rooftop.deliver.notify:
                yield Problem((*here, "notify"), advice)
        for position, http in enumerate(rooftop.deliver.http):
            yield from _of_http(settings, http, (*here, "http", position), env)
        for position, folder in enumerate(rooftop.deliver.directory):
            path = settings.folder / folder.path
            existing = next(parent for parent in (path, *path.parents) if parent.exists())
            if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
                message = f"'{path}' is not a folder that this user may write to; make it, or name another"
                yield Problem((*here, "directory", position, "path"), message)


def _of_mail(settings: Settings, env: Mapping[str, str]) -> Iterator[Problem]:
    """The problems of [mail] that need the environment: missing secrets, and settings that need a mail server."""
    mail = settings.mail
    if not mail.host:
        if mail.confirm_appointments:
            yield Problem(("mail", "confirm_appointments"), "needs a mail server: write host under [mail]")
        if settings.reports.monthly:
            yield Problem(("reports", "monthly"), "needs a mail server: write host under [mail]")
        return
    if not mail.from_address:
        yield Problem(("mail", "from_address"), "is needed to send mail: write the dealership's own address")
    named = (("user_env", mail.user_env), ("password_env", mail.password_env))
    missing = [(key, name) for key, name in named if not env.get(name)]
    if len(missing) == 1:
        ((key, name),) = missing
        yield Problem(
            ("mail", key), f"the environment variable {name} is not set, but the login needs it; set it, or remove both"
        )
    if mail.security == "none" and not is_this_machine(mail.host):
        message = (
            f'would send customers\' data without encryption to {mail.host}; write "starttls" or "tls" '
            '("none" is for localhost, 127.0.0.0/8 and ::1)'
        )
        yield Problem(("mail", "security"), message)
    yield from _timeout_problems(settings, mail.timeout_seconds, ("mail", "timeout_seconds"))


def _of_http(settings: Settings, channel: HttpChannel, here: Path, env: Mapping[str, str]) -> Iterator[Problem]:
    """The problems of an HTTP channel that need the environment: missing secrets, and an unencrypted URL."""
    for key, name in (("secret_env", channel.secret_env), ("authorization_env", channel.authorization_env)):
        if name is UNSET:
            continue
        value = env.get(name)
        if not value:
            yield Problem((*here, key), f"the environment variable {name} is not set; set it to the secret")
        elif key == "authorization_env" and not (value.isascii() and value.isprintable()):
            yield Problem(
                (*here, key),
                f"the environment variable {name} has characters that a header cannot have; set it to printable ASCII",
            )
    parts = urlsplit(channel.url)
    if parts.scheme == "http" and not _is_private(parts.hostname or ""):
        yield Problem((*here, "url"), "would send customers' data without encryption; write https://")
    yield from _timeout_problems(settings, channel.timeout_seconds, (*here, "timeout_seconds"))


def _timeout_problems(settings: Settings, seconds: int, path: Path) -> Iterator[Problem]:
    """A timeout must end before the lease of the delivery."""
    lease = settings.delivery.lease_seconds
    if lease < seconds + LEAST_LEASE_MARGIN_SECONDS:
        message = (
            f"{seconds} is too long for lease_seconds, {lease}, of [delivery]: another worker would send it too; write"
            f" at most {lease - LEAST_LEASE_MARGIN_SECONDS}, or raise lease_seconds"
        )
        yield Problem(path, message)


def _is_private(host: str) -> bool:
    try:
        return not is_public(host)
    except ValueError:
        return host == "localhost" or "." not in host
