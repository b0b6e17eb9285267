"""What the commands of the service work on: a folder, a dealer or an installation, with settings and database."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo

import typer

from dealer_agent.cli.command import CommandTarget, FolderOption
from dealer_agent.cli.terminal import err, fail
from dealer_agent.config import Settings, load_settings
from dealer_agent.config.installation import Installation, installation_of, is_installation, load_installation
from dealer_agent.config.keys import KEY_FILE_NAME, KEYS_VARIABLE
from dealer_agent.config.loading import FILE_NAME
from dealer_agent.config.settings import Sections
from dealer_agent.open_installation import OpenDealer, OpenInstallation, open_for_changes, open_store, url_for_changes
from dealer_agent.protocol.did_you_mean import did_you_mean
from dealer_agent.storage.errors import DealerUnknown
from dealer_agent.storage.isolation import ALL_DEALERS
from dealer_agent.storage.migrate import START_SECONDS, migrate, wait_for_server
from dealer_agent.storage.store import Store

PORT = 8080
"""Where a service listens, if nothing else is said."""
MOST_NAMED = 10
"""The most dealers that an error names."""


@dataclass(frozen=True)
class DealerFolder:
    """Where the dealer of a command is. An installation has several; `dealer_id` is the value of `--dealer`."""

    path: Path
    dealer_id: str | None = None

    def __str__(self) -> str:
        return str(self.path)


def wait_for_database(url: str) -> None:
    """Waits for a PostgreSQL server that does not accept connections yet, and says so. Raises StorageError."""
    wait_for_server(url, lambda why: err.print(f"Waiting for up to {START_SECONDS} seconds, because {why}."))


def find_served(folder: DealerFolder, listens_at: str = "") -> Installation:
    """What a service serves from a folder. Raises SettingsError."""
    if is_installation(folder.path):
        return load_installation(folder.path, os.environ)
    return installation_of(find_settings(folder), os.environ, listens_at)


@contextmanager
def open_served(installation: Installation) -> Iterator[OpenInstallation]:
    """What a service serves, with its database, which is migrated first. Raises StorageError.

    It waits for a PostgreSQL server that is starting.
    """
    wait_for_database(installation.database_url)
    migrate(installation.database_url)
    with open_store(installation) as store:
        yield OpenInstallation(installation, store)


@contextmanager
def open_installation(folder: Path, *, for_changes: bool = False) -> Iterator[OpenInstallation]:
    """The installation in a folder, with its database, which is migrated first. Raises SettingsError, StorageError.

    With `for_changes`, it is for changes of dealers, which the service's role of PostgreSQL may not make: the database
    is that of DATABASE_ADMIN_URL, if it is set.
    """
    installation = load_installation(folder, os.environ)
    migrate(url_for_changes(installation) if for_changes else installation.database_url)
    with open_for_changes(installation) if for_changes else open_store(installation) as store:
        yield OpenInstallation(installation, store)


def require_keys(installation: Installation) -> None:
    """Ends the command if the installation has no key."""
    if installation.cipher is None:
        fail(f"There is no key: put {KEY_FILE_NAME} back from your backup, or set {KEYS_VARIABLE}")


def find_settings(folder: DealerFolder) -> Settings:
    """The dealer in a folder, else in its only subfolder with a dealer; in an installation, the chosen dealer.

    Raises SettingsError, StorageError, and BadParameter if no dealer or the wrong dealer is chosen.
    """
    path = folder.path
    if is_installation(path):
        with open_installation(path) as opened_installation:
            return _chosen_dealer(opened_installation, folder.dealer_id)
    if not (path / FILE_NAME).exists():
        below = sorted(path.glob(f"*/{FILE_NAME}"))
        if len(below) == 1:
            path = below[0].parent
            err.print(f"Using the dealer in {path}", style="dim")
    settings = load_settings(path, os.environ)
    if folder.dealer_id not in (None, settings.dealer.id):
        raise typer.BadParameter(
            f"the dealer in {path} is {settings.dealer.id}; leave out --dealer, or name another folder with --dir",
            param_hint="--dealer",
        )
    return settings


def _chosen_dealer(opened: OpenInstallation, dealer_id: str | None) -> Settings:
    """The settings of the dealer of `--dealer`. Without the option, those of the only dealer of the installation."""
    if dealer_id is None:
        ids = _dealer_ids(opened)
        if len(ids) != 1:
            raise typer.BadParameter(_missing_dealer_message(ids), param_hint="--dealer")
        (dealer_id,) = ids
    try:
        settings = opened.settings_of(dealer_id)
    except DealerUnknown as problem:
        advice = did_you_mean(dealer_id, _dealer_ids(opened))
        raise typer.BadParameter(f"{problem}{advice}", param_hint="--dealer") from None
    settings.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return settings


def _dealer_ids(opened: OpenInstallation) -> list[str]:
    # Imported here: commands in the folder of one dealer do not need it.
    from dealer_agent.storage.installation.dealer_registry import all_dealers

    with opened.store.installation() as tx:
        return [dealer.dealer_id for dealer in all_dealers(tx)]


def _missing_dealer_message(ids: list[str]) -> str:
    """The message of a command that needs --dealer. `ids` are the dealers of the installation."""
    if not ids:
        return "this installation has no dealer yet; to add one, type: dealer-agent dealers add FILE"
    more = f" and {len(ids) - MOST_NAMED:,} more (dealer-agent dealers list)" if len(ids) > MOST_NAMED else ""
    return f"name one of the {len(ids):,} dealers with --dealer ID: {', '.join(ids[:MOST_NAMED])}{more}"


@contextmanager
def opened(settings: Settings, *, customers: bool = False) -> Iterator[OpenDealer]:
    """The dealer with its database, which is migrated first. Raises StorageError.

    With `customers` it is for work with customer data: the keys are checked. Raises also KeyMissing and WrongKey.
    """
    migrate(settings.database_url)
    with Store.open(settings.database_url, settings.cipher, many_dealers=settings.installation is not None) as store:
        if customers:
            store.check_keys(settings.dealer.id)
        yield OpenDealer(settings, store)


def open_dealer(folder: DealerFolder, *, customers: bool = False) -> AbstractContextManager[OpenDealer]:
    """The dealer in a folder, with its database as from `opened`. Raises what `find_settings` raises."""
    return opened(find_settings(folder), customers=customers)


@dataclass(frozen=True)
class Owner:
    """Whose alerts or policies a command is about: a dealer, or ALL_DEALERS for the operator of an installation.

    `zone` is the time zone of its messages. `sections` are its settings. `in_installation`: it is a dealer of an
    installation. `console_url` is the address above that of the console.
    """

    id: str
    zone: str
    store: Store
    sections: Sections
    in_installation: bool = False
    console_url: str = ""
    rooftops: tuple[str, ...] = ()

    @property
    def rows(self) -> str:
        """Whose rows have what belongs to the whole installation (`OpenInstallation.owner`)."""
        return ALL_DEALERS if self.in_installation else self.id

    def local(self, at: datetime | None) -> datetime | None:
        """The time in this zone."""
        return None if at is None else at.astimezone(ZoneInfo(self.zone))


@contextmanager
def open_owner(folder: DealerFolder) -> Iterator[Owner]:
    """The owner that a command is about. Without --dealer, it is the operator in an installation."""
    if is_of_operator(folder):
        with open_installation(folder.path) as whole:
            url = whole.installation.public_url
            yield Owner(ALL_DEALERS, "UTC", whole.store, whole.installation.file, console_url=url)
    else:
        with opened(find_settings(folder)) as dealer:
            settings = dealer.settings
            yield Owner(
                dealer.profile.id,
                dealer.profile.timezone,
                dealer.store,
                settings,
                in_installation=settings.installation is not None,
                console_url=_console_url(settings),
                rooftops=tuple(each.name for each in dealer.profile.rooftops),
            )


def _console_url(settings: Settings) -> str:
    """The address above that of the console. Without a public address, it is on this machine."""
    if settings.installation is not None:
        return load_installation(settings.installation, os.environ).public_url
    return settings.base_url(f"http://localhost:{PORT}")


def is_of_operator(folder: DealerFolder) -> bool:
    """Whether a command is about the operator of an installation."""
    return is_installation(folder.path) and folder.dealer_id is None


DealerOption = Annotated[
    str | None,
    typer.Option(
        "--dealer",
        metavar="ID",
        help="The dealer, if installation.toml is in the folder and there are several.",
    ),
]
_OF_DEALER = {"path": (FolderOption, Path()), "dealer_id": (DealerOption, None)}
_OF_INSTALLATION = {"folder": (FolderOption, Path())}
FOLDER = CommandTarget(_OF_DEALER, lambda **chosen: nullcontext(DealerFolder(**chosen)))
"""The folder of a dealer, of which nothing is opened."""
DEALER = CommandTarget(_OF_DEALER, lambda **chosen: open_dealer(DealerFolder(**chosen)))
CUSTOMERS = CommandTarget(_OF_DEALER, lambda **chosen: open_dealer(DealerFolder(**chosen), customers=True))
"""An open dealer, for work with customer data: the keys are checked."""
OWNER = CommandTarget(_OF_DEALER, lambda **chosen: open_owner(DealerFolder(**chosen)))
"""A dealer, or the operator of an installation."""
INSTALLATION = CommandTarget(_OF_INSTALLATION, open_installation)
CHANGES = CommandTarget(_OF_INSTALLATION, partial(open_installation, for_changes=True))
"""The open installation, for changes of its dealers. They need the database URL for commands (DATABASE_ADMIN_URL)."""
