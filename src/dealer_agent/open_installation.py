"""The dealers of a service and their database. A folder with `dealer.toml` is an installation with one dealer."""

import os
import re
import shutil
from collections.abc import Callable, Container, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, overload
from zoneinfo import ZoneInfo

from msgspec import structs

from dealer_agent.config import load_settings
from dealer_agent.config.installation import DEALERS, SNAPSHOTS, Installation
from dealer_agent.config.settings import LONGEST_LEASE_SECONDS, Settings
from dealer_agent.dealers.profile import Profile
from dealer_agent.encryption import Cipher
from dealer_agent.leads.customer_links import CustomerLinks
from dealer_agent.leads.local_time import first_instant
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.storage.database_roles import ADMIN_VARIABLE, require_same_database
from dealer_agent.storage.database_url import is_sqlite
from dealer_agent.storage.errors import DatabaseReadOnly, NotIsolated
from dealer_agent.storage.installation.registration import removed_dealers, was_removed
from dealer_agent.storage.isolation import ALL_DEALERS
from dealer_agent.storage.store import LISTENING_CONNECTIONS, Store
from dealer_agent.storage.transaction import Transaction

if TYPE_CHECKING:
    from dealer_agent.storage.installation.dealer_registry import RegisteredDealer

LONGEST_LEASE = timedelta(seconds=LONGEST_LEASE_SECONDS)
MOST_DUE = 100_000
"""The most dealers with due deliveries that are read at once. Dealers that can send nothing now are among them."""

_BEING_DELETED = ".removed."
"""The beginning of the name of a folder that is being deleted. No id of a dealer begins with a dot."""

_ID = re.compile(r"[a-z0-9][a-z0-9-]*")


class EnabledDealers(NamedTuple):
    """The enabled dealers, and the dealer of each host name."""

    dealers: "list[RegisteredDealer]"
    hosts: dict[str, str]


def owner_of(installation: Installation) -> str:
    """The id of the keys and records of the installation itself: ALL_DEALERS, or the only dealer."""
    return ALL_DEALERS if installation.only is None else installation.only.dealer.id


@dataclass
class OpenInstallation:
    """An installation whose database is open. Threads may share it.

    `enabled` has the dealers of the last `read_dealers`.
    """

    installation: Installation
    store: Store
    enabled: frozenset[str] = frozenset()

    @property
    def owner(self) -> str:
        """See `owner_of`."""
        return owner_of(self.installation)

    def count(self) -> int:
        """The number of enabled dealers."""
        return len(self.enabled)

    def read_dealers(self) -> EnabledDealers:
        """The dealers that are enabled now. Raises StorageError, also if the database does not isolate them."""
        found = self._find_enabled()
        if len(found.dealers) > 1 and (problem := self.store.isolation_problem()):
            raise NotIsolated(problem)
        self.enabled = frozenset(dealer.dealer_id for dealer in found.dealers)
        return found

    def _find_enabled(self) -> EnabledDealers:
        """The enabled dealers and their hosts. A folder with one dealer has no table of them."""
        # Imported here: few commands need the statements about the dealers of an installation.
        from dealer_agent.storage.installation.dealer_registry import RegisteredDealer, all_dealers, all_hosts

        only = self.installation.only
        if only is not None:
            return EnabledDealers([RegisteredDealer(only.dealer.id, True, False, 0, only.dealer.name)], {})
        with self.store.installation() as tx:
            return EnabledDealers([dealer for dealer in all_dealers(tx) if dealer.enabled], all_hosts(tx))

    def settings_of(self, dealer_id: str) -> Settings:
        """The current settings of a dealer. Raises DealerUnknown, StorageError and SettingsError."""
        if self.installation.only is not None:
            return self.installation.only
        # Imported here, as above.
        from dealer_agent.storage.installation.dealer_registry import find_dealer, list_hosts, read_settings

        with self.store.read(dealer_id) as tx:
            document = read_settings(tx, find_dealer(tx).settings_number)
            hosts = tuple(list_hosts(tx))
        return self.installation.dealer_settings(document.decode(), hosts)

    def read_again(self) -> None:
        """Reads the settings of the only dealer again from its file. Raises SettingsError."""
        only = self.installation.only
        if only is not None:
            settings = load_settings(only.folder, os.environ)
            # The cipher stays: keys that were rotated meanwhile are in it.
            settings = structs.replace(settings, cipher=only.cipher)
            self.installation = replace(self.installation, only=settings)

    def feed_folders(self) -> Iterator[tuple[str, Path]]:
        """The dealers that may have feeds with files on this machine, and their folders."""
        installation = self.installation
        if installation.only is not None:
            yield installation.only.dealer.id, installation.folder
        else:
            for folder in installation.folder.glob(f"{DEALERS}/[!.]*/feeds"):
                yield folder.parent.name, folder.parent

    def dealers_with_due(self) -> list[str]:
        """The enabled dealers that may have due deliveries, the longest waiting first. Raises StorageError."""
        if self.installation.only is not None:
            return [self.owner]
        # Imported here, as above.
        from dealer_agent.storage.deliveries.outbox import dealers_with_due

        with self.store.installation() as tx:
            due = dealers_with_due(tx, LONGEST_LEASE, MOST_DUE)
        return [dealer_id for dealer_id in due if dealer_id in self.enabled]

    def customer_links(self, settings: Settings, cipher: Cipher) -> CustomerLinks:
        """The links in the mails to a dealer's customers."""
        return CustomerLinks(
            dealer_id=settings.dealer.id,
            base_url=settings.base_url(self.installation.listens_at),
            key=cipher.permanent_key("customer links"),
            valid=timedelta(days=settings.mail.links_valid_days),
        )


@dataclass(frozen=True)
class OpenDealer:
    """A dealer whose database is open."""

    settings: Settings
    store: Store

    @property
    def profile(self) -> Profile:
        """The dealer's profile."""
        return self.settings.dealer

    @overload
    def local(self, at: datetime, rooftop: str | None = None) -> datetime: ...
    @overload
    def local(self, at: datetime | None, rooftop: str | None = None) -> datetime | None: ...

    def local(self, at: datetime | None, rooftop: str | None = None) -> datetime | None:
        """The time in the zone of a rooftop; without one, or if it is unknown, in the zone of the first rooftop."""
        if at is None:
            return None
        return at.astimezone(self._zone(rooftop))

    def _zone(self, rooftop: str | None) -> ZoneInfo:
        zones = {each.name: each.timezone for each in self.profile.rooftops}
        return ZoneInfo(zones.get(rooftop or "", self.profile.timezone))

    def start_of(self, day: date, rooftop: str | None = None) -> datetime:
        """The first instant of a day (UTC) in the zone that `local` uses."""
        return first_instant(day, time.min, self._zone(rooftop))

    def clock(self, rooftop: str | None) -> Callable[[datetime | None], datetime | None]:
        """`local` for one rooftop."""
        return lambda at: self.local(at, rooftop)

    def read(self, now: datetime | None = None) -> AbstractContextManager[Transaction]:
        """`Store.read` for this dealer."""
        return self.store.read(self.profile.id, now)

    def write(self, now: datetime | None = None) -> AbstractContextManager[Transaction]:
        """`Store.write` for this dealer."""
        return self.store.write(self.profile.id, now)

    def lock(self, now: datetime | None = None) -> AbstractContextManager[Transaction]:
        """`Store.lock` for this dealer."""
        return self.store.lock(self.profile.id, now)


def open_store(installation: Installation) -> Store:
    """The database of a process of the service. Raises StorageError."""
    return open_small_store(installation, installation.file.installation.database_connections - LISTENING_CONNECTIONS)


def open_small_store(installation: Installation, connections: int) -> Store:
    """The database, with at most so many connections to PostgreSQL. Raises StorageError."""
    many = installation.only is None
    return Store.open(installation.database_url, installation.cipher, many_dealers=many, most_connections=connections)


def url_for_changes(installation: Installation) -> str:
    """The URL of the database for changes of dealers: that of DATABASE_ADMIN_URL, if it is set. Raises StorageError.

    On PostgreSQL, the role of the service may not change dealers. SQLite has no roles.
    """
    url, admin_url = installation.database_url, os.environ.get(ADMIN_VARIABLE)
    if not admin_url or is_sqlite(url):
        return url
    require_same_database(url, admin_url)
    return admin_url


@contextmanager
def open_for_changes(installation: Installation) -> Iterator[Store]:
    """The database for changes of dealers, which the service's role of PostgreSQL may not make.

    Raises StorageError, which says what to set if the role may not.
    """
    url = url_for_changes(installation)
    with Store.open(url, installation.cipher, many_dealers=True) as store:
        try:
            yield store
        except DatabaseReadOnly as problem:
            if is_sqlite(url):
                raise
            raise DatabaseReadOnly(
                f"{problem}: this role may not change dealers; set {ADMIN_VARIABLE} to the address for commands, which "
                "dealer-agent database prepare shows"
            ) from None


def delete_files_of_removed(store: Store, folder: Path, served: Container[str] = frozenset()) -> None:
    """Deletes the folder and the snapshot of each removed dealer of the installation in `folder`.

    Every machine calls it for its own files, again and again: a process that was stopped may write a file after the
    removal.

    The database must have a record of the removal. So nothing is deleted if it cannot be reached, is empty, or has
    never had the dealer. The dealers in `served` are not removed, so it leaves them out. Raises StorageError and
    OSError.
    """
    folders = folder / DEALERS
    if not folders.is_dir():
        return
    found = {entry.name for entry in os.scandir(folders) if entry.name not in served and _ID.fullmatch(entry.name)}
    if found:
        with store.installation() as everything:
            found &= removed_dealers(everything)
    for dealer_id in sorted(found):
        # Nobody can add the dealer again meanwhile.
        with store.registration(dealer_id) as tx, suppress(FileNotFoundError):
            if was_removed(tx):
                (folders / dealer_id).rename(folders / f"{_BEING_DELETED}{dealer_id}.{new_ulid()}")
        for snapshot in (folder / SNAPSHOTS).glob(f"{dealer_id}.*"):
            snapshot.unlink(missing_ok=True)
    for unwanted in folders.glob(f"{_BEING_DELETED}*"):
        # Another process of this machine may delete it too.
        with suppress(FileNotFoundError):
            shutil.rmtree(unwanted)
