"""The keys to customer data of a dealer or an installation: their rows, their replacement, and their end."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from dealer_agent.config import Settings
from dealer_agent.config.installation import Installation, installation_of, load_installation
from dealer_agent.config.keys import KEY_FILE_NAME, KEYS_VARIABLE, KeyFile, from_environment
from dealer_agent.encryption import Cipher
from dealer_agent.open_installation import owner_of
from dealer_agent.operations import OperationError
from dealer_agent.privacy.key_rotation import KeyRotation, KeyTable, changeable_key_file, rotation_of_dealer
from dealer_agent.storage.errors import DatabaseUnreachable, SchemaOutdated
from dealer_agent.storage.isolation import ALL_DEALERS
from dealer_agent.storage.privacy.keys import KeyUse, key_uses
from dealer_agent.storage.privacy.reencryption import delete_unused_keys, values_by_key
from dealer_agent.storage.store import Store

OnProgress = Callable[[int], None]
"""Gets the number of values that were encrypted again."""


class KeyRow(NamedTuple):
    """A key: whose it is, its id, its use in words, since when, and how many values are encrypted with it."""

    owner: str
    key_id: str
    use: str
    since: datetime | None
    values: int


class KeyChange(NamedTuple):
    """A replaced key. `completed`: it was an earlier change that was interrupted. `destroyed` are ids of keys."""

    active: str
    completed: bool
    destroyed: list[str]


def rotations_of(settings: Settings, store: Store, on_progress: OnProgress) -> list[KeyRotation]:
    """The rotation of a dealer's keys, then of those of its installation."""
    if settings.installation is None:
        # The folder of one dealer is its own installation: there is one set of keys.
        return [rotation_of_installation(installation_of(settings, os.environ), store, on_progress)]
    return [
        replace(rotation_of_dealer(settings, store), on_progress=on_progress),
        rotation_of_installation(load_installation(settings.installation, os.environ), store, on_progress),
    ]


def rotation_of_installation(installation: Installation, store: Store, on_progress: OnProgress) -> KeyRotation:
    """The rotation of an installation's keys: they encrypt the keys of all dealers, or the data of the only one."""
    owner, days = owner_of(installation), installation.file.installation.rotate_keys_days
    location = None if from_environment(os.environ) else KeyFile(installation.folder / KEY_FILE_NAME)
    return KeyRotation(store, store.check_keys(owner), owner, location, days, on_progress=on_progress)


def require_cipher(cipher: Cipher | None) -> None:
    """Raises OperationError without keys."""
    if cipher is None:
        raise OperationError(
            f"There is no key: put {KEY_FILE_NAME} back from your backup or set {KEYS_VARIABLE}; "
            "dealer-agent doctor says whether customer data needs it"
        )


def key_rows(rotation: KeyRotation) -> Iterator[KeyRow]:
    """The keys of a rotation, the active one first."""
    with rotation.store.read(rotation.dealer_id) as tx:
        value_counts, uses = values_by_key(tx), key_uses(tx)
    keyring = rotation.cipher.keyring
    owner = "the installation" if rotation.dealer_id == ALL_DEALERS else rotation.dealer_id
    for key_id in keyring.ids:
        use = uses.get(key_id)
        words = _use_text(use, active=key_id == keyring.active)
        yield KeyRow(owner, key_id, words, use.since if use else None, value_counts.get(key_id, 0))


def _use_text(use: KeyUse | None, *, active: bool) -> str:
    """What a key is used for."""
    if active:
        return "active: encrypts and reads"
    if use is not None and use.state == "next":
        return "next: reads" if use.missing_on is None else f"next: reads; {use.missing_on} lacks it"
    return "not needed" if use is not None and use.state == "unused" else "reads"


def source_of(rotations: Sequence[KeyRotation]) -> str:
    """Where the keys come from: the last rotation is that of the keys outside the database."""
    location = rotations[-1].location
    source = location.path if isinstance(location, KeyFile) else KEYS_VARIABLE
    return str(source) if len(rotations) == 1 else f"the database and {source}"


def due_sentence(rotation: KeyRotation, now: datetime) -> str | None:
    """When the key is replaced, and by whom; None if it is never replaced by age."""
    with rotation.store.read(rotation.dealer_id) as tx:
        use = key_uses(tx).get(rotation.cipher.keyring.active)
    if not rotation.days or use is None:
        return None
    due, location = use.since + timedelta(days=rotation.days), rotation.location
    if isinstance(location, KeyTable):
        return f"The running service replaces the dealer's key on {due:%Y-%m-%d}."
    if location is not None and changeable_key_file(location.path.parent, os.environ) is not None:
        return f"The running service replaces the key on {due:%Y-%m-%d}. Back up the file before then."
    if due <= now:
        return f"The key is due for replacement since {due:%Y-%m-%d}: see dealer-agent keys rotate --help."
    return f"Replace the key by {due:%Y-%m-%d}: see dealer-agent keys rotate --help."


def change_key(rotation: KeyRotation, *, destroy: bool) -> KeyChange:
    """Creates a new key and encrypts everything with it. The caller holds `changing_keys`."""
    is_new = rotation.rotate(datetime.now(UTC))
    return KeyChange(rotation.cipher.keyring.active, not is_new, rotation.destroy_unused() if destroy else [])


def destroy_keys(rotation: KeyRotation) -> Iterator[KeyChange]:
    """Replaces the keys until none of the current ones is left. Raises OperationError if one is still needed."""
    if rotation.location is None:
        raise OperationError(
            f"This command cannot change the keys in {KEYS_VARIABLE}: change the variable where you set it"
        )
    with changing_keys(rotation):
        rotation.cipher.refresh()
        before = set(rotation.cipher.keyring.ids)
        yield change_key(rotation, destroy=True)
        if rotation.cipher.keyring.active in before:  # It only completed a change that was interrupted.
            yield change_key(rotation, destroy=True)
        left = sorted(before.intersection(rotation.cipher.keyring.ids))
    if left:
        raise OperationError(
            f"The erasure is not final: the key {', '.join(left)} is still needed, because a value cannot be "
            "encrypted with the new key. dealer-agent consent verify says what was changed in the database"
        )


@contextmanager
def changing_keys(rotation: KeyRotation) -> Iterator[None]:
    """Locks the keys for a `with` block. Raises OperationError if another process has the lock."""
    location = rotation.location
    assert location is not None, "the operator changes these keys"
    try:
        with location.changing():
            yield
    except BlockingIOError:
        raise OperationError("Another process is rotating the keys: try again later") from None
    except PermissionError:
        where = location.path if isinstance(location, KeyFile) else location.folder
        raise OperationError(
            f"{where} belongs to another user, or its folder is not writable: run this command as the file's owner"
        ) from None


def when_final(settings: Settings, store: Store, now: datetime) -> str:
    """When an erasure becomes final, or what makes it final, as the end of a sentence."""
    rotations = rotations_of(settings, store, lambda _: None)
    by = _replaced_by(rotations, now)
    if from_environment(os.environ):
        when = f"when you have replaced the key in {KEYS_VARIABLE} and removed the old one there "
        when += "(dealer-agent keys rotate --help)"
        return f"{when}, after {by:%Y-%m-%d}: the running service replaces the dealer's own key by then" if by else when
    if changeable_key_file(settings.installation or settings.folder, os.environ) and by:
        return f"by {by:%Y-%m-%d}: the running service destroys the key by then"
    return (
        "when the key is destroyed. The service does not do this by itself here: run dealer-agent leads erase --final"
    )


def _replaced_by(rotations: Sequence[KeyRotation], now: datetime) -> datetime | None:
    """When the running service will have destroyed the keys that it may change; None if it leaves one of them."""
    by = None
    for rotation in rotations:
        if rotation.location is not None and (by := rotation.final_by(now, by)) is None:
            return None
    return by


def drop_lost_key(database_url: str, dealer_id: str) -> None:
    """Forgets the keys of a database without encrypted data.

    Raises OperationError if the database has data that needs a lost key: a new key cannot decrypt it.
    """
    # Without a database, or with a database that has no keys yet, nothing is encrypted.
    with suppress(DatabaseUnreachable, SchemaOutdated), Store.open(database_url) as store:
        with store.read(dealer_id) as tx:
            used = values_by_key(tx)
        if used:
            raise OperationError(
                f"The database holds customer data under the key {', '.join(sorted(used))}: put the file "
                f"{KEY_FILE_NAME} back from your backup. Without a backup this data cannot be read again: rename the "
                "database (with PostgreSQL, set DATABASE_URL to a new one), create a key, and import the inventory"
            )
        with store.lock(dealer_id) as tx:
            delete_unused_keys(tx)
