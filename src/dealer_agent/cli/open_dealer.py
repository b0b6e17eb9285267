"""The dealer of a command: its settings and its database."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from dealer_agent.cli.terminal import err
from dealer_agent.config import Settings, load_settings
from dealer_agent.config.loading import FILE_NAME
from dealer_agent.dealers.profile import Profile
from dealer_agent.storage.migrate import migrate
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

DirOption = Annotated[
    Path, typer.Option("--dir", help="The folder that holds dealer.toml and, unless DATABASE_URL is set, the database.")
]
HERE = Path()


@dataclass(frozen=True)
class OpenDealer:
    """A dealer whose database is open."""

    settings: Settings
    store: Store

    @property
    def profile(self) -> Profile:
        """The dealer's profile."""
        return self.settings.dealer

    def read(self, now: datetime | None = None) -> AbstractContextManager[Transaction]:
        """`Store.read` for this dealer."""
        return self.store.read(self.profile.id, now)

    def write(self, now: datetime | None = None) -> AbstractContextManager[Transaction]:
        """`Store.write` for this dealer."""
        return self.store.write(self.profile.id, now)

    def lock(self, now: datetime | None = None) -> AbstractContextManager[Transaction]:
        """`Store.lock` for this dealer."""
        return self.store.lock(self.profile.id, now)


def find_settings(directory: Path) -> Settings:
    """The dealer in a folder, else in its only subfolder with a dealer. Raises SettingsError."""
    if not (directory / FILE_NAME).exists():
        below = sorted(directory.glob(f"*/{FILE_NAME}"))
        if len(below) == 1:
            directory = below[0].parent
            err.print(f"Using the dealer in {directory}", style="dim")
    return load_settings(directory, os.environ)


@contextmanager
def opened(settings: Settings, *, customers: bool = False) -> Iterator[OpenDealer]:
    """The dealer with its database, which is migrated first. Raises StorageError.

    With `customers` it is for work with customer data: the keys are checked. Raises also KeyMissing and WrongKey.
    """
    migrate(settings.database_url)
    with Store.open(settings.database_url, settings.cipher, many_dealers=settings.in_installation) as store:
        if customers:
            store.check_keys(settings.dealer.id)
        yield OpenDealer(settings, store)


def open_dealer(directory: Path, *, customers: bool = False) -> AbstractContextManager[OpenDealer]:
    """The dealer in a folder, with its database as from `opened`. Raises also SettingsError."""
    return opened(find_settings(directory), customers=customers)
