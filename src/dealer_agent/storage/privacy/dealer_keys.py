"""Stores the keys of each dealer of an installation, encrypted with the active key of the installation.

An encrypted key is bound to its dealer and its id. The keys of the installation are in its key file or in
DEALER_AGENT_KEYS. The database records which of them is active, as for a dealer's keys (`storage.privacy.keys`), with
ALL_DEALERS as the dealer id. So a process with an old key file cannot encrypt with a retired key.
"""

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from threading import Lock

from sqlalchemy import Engine, LargeBinary, bindparam, delete, func, insert, select, tuple_, update

from dealer_agent.encryption import Cipher, Keyring, new_key, new_permanent_secret
from dealer_agent.encryption.errors import DecryptionFailed, InvalidKeys, UnknownKey
from dealer_agent.encryption.keyring import PERMANENT
from dealer_agent.storage.connections import begin
from dealer_agent.storage.errors import KeyMissing, KeysChanged, WrongKey, translating
from dealer_agent.storage.isolation import ALL_DEALERS
from dealer_agent.storage.leads.prepared_statements import Prepared
from dealer_agent.storage.privacy.event_chain import lock_dealer
from dealer_agent.storage.privacy.keys import READ_PROOFS, check_keys_to_encrypt, start_use
from dealer_agent.storage.schema import dealer_keys, revisions
from dealer_agent.storage.statements import of_dealer, upsert
from dealer_agent.storage.transaction import OneCipher, Transaction

MOST_CIPHERS = 4096
"""The most ciphers that a process keeps. Each takes a few kilobytes."""

PERMANENT_POSITION = -1

FIRST_KEY = ("", "")
"""Less than the ids of a dealer and of its key."""

READ_KEYS = Prepared(
    select(dealer_keys.c.key_id, dealer_keys.c.wrapped).where(of_dealer(dealer_keys)).order_by(dealer_keys.c.position)
)

ADD_KEY = insert(dealer_keys)

MOVE_KEY = update(dealer_keys).where(of_dealer(dealer_keys, key_id="of_key")).values(position=bindparam("place"))

DELETE_OTHER_KEYS = delete(dealer_keys).where(
    of_dealer(dealer_keys), dealer_keys.c.key_id.not_in(bindparam("kept", expanding=True))
)

_OTHERS = bindparam("header", type_=LargeBinary)
_WRAPPED = dealer_keys.c.wrapped

FIND_OTHERS = (
    select(dealer_keys.c.dealer_id, dealer_keys.c.key_id, _WRAPPED)
    .where(
        tuple_(dealer_keys.c.dealer_id, dealer_keys.c.key_id)
        > tuple_(bindparam("after_dealer"), bindparam("after_key")),
        func.substr(_WRAPPED, 1, func.length(_OTHERS)) != _OTHERS,
    )
    .order_by(dealer_keys.c.dealer_id, dealer_keys.c.key_id)
    .limit(bindparam("most"))
)
"""The keys of all dealers that are not encrypted with the active key of the installation."""

SET_WRAPPED = update(dealer_keys).where(of_dealer(dealer_keys, key_id="of_key")).values(wrapped=bindparam("renewed"))

COUNT_CHANGE = upsert(revisions, "UPDATE SET settings_counter = revisions.settings_counter + 1").values(
    stock_counter=0, token_counter=0, settings_counter=1
)
"""Announces to all processes that the settings, hosts, keys or state of a dealer have changed.

Each process reads the counters (`server.refresh`)."""


@dataclass
class DealerCiphers:
    """The ciphers of the dealers of an installation, read when they are first needed. Threads may share it.

    A cipher reads its keys again when a value names a key that it does not have.
    """

    reader: Engine
    installation: Cipher | None
    # By dealer id, the most recently used last.
    _known: OrderedDict[str, Cipher] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def of(self, tx: Transaction) -> Cipher | None:
        """The cipher of the transaction's dealer; None for a dealer without keys, or an installation without keys.

        That of ALL_DEALERS is the installation's. Raises KeyMissing and WrongKey.
        """
        dealer_id = tx.dealer_id
        if self.installation is None or dealer_id == ALL_DEALERS:
            return self.installation
        with self._lock:
            if dealer_id in self._known:
                self._known.move_to_end(dealer_id)
                return self._known[dealer_id]
        keyring = read_keyring(tx, self.installation)
        if keyring is None:
            return None
        cipher = Cipher(keyring, lambda: self._read_again(dealer_id))
        if tx.changes_keys:
            # The transaction may still fail. Then nobody may encrypt with these keys.
            return cipher
        with self._lock:
            self._known[dealer_id] = cipher
            if len(self._known) > MOST_CIPHERS:
                self._known.popitem(last=False)
        return cipher

    def forget(self, dealer_id: str) -> None:
        """Reads the dealer's keys again when they are needed next."""
        with self._lock:
            self._known.pop(dealer_id, None)

    def _read_again(self, dealer_id: str) -> Keyring:
        """The keys of a dealer, after another process has changed them. Raises InvalidKeys."""
        assert self.installation is not None
        with translating(), begin(self.reader, dealer_id) as connection:
            tx = Transaction(connection, dealer_id, datetime.now(UTC), OneCipher(None))
            keyring = read_keyring(tx, self.installation)
        if keyring is None:
            raise InvalidKeys(f"the dealer {dealer_id} has no keys any more")
        return keyring


def read_keyring(tx: Transaction, cipher_of_installation: Cipher) -> Keyring | None:
    """The dealer's keys; None if it has none. Raises KeyMissing and WrongKey if the installation's key does not fit."""
    # In the order of their positions: after the permanent secret, the active key is the first.
    rows = READ_KEYS.read(tx, {})
    if not rows:
        return None
    keys = {row.key_id: _decrypted(tx.dealer_id, row.key_id, row.wrapped, cipher_of_installation) for row in rows}
    permanent = keys.pop(PERMANENT, None)
    return Keyring(tuple(keys.items()), permanent)


def _decrypted(dealer_id: str, key_id: str, wrapped: bytes, cipher_of_installation: Cipher) -> bytes:
    """A dealer's key, decrypted with a key of the installation. Raises KeyMissing and WrongKey."""
    try:
        return cipher_of_installation.decrypt(wrapped, *_context(dealer_id, key_id))
    except UnknownKey as problem:
        raise KeyMissing(
            f"the keys of the dealer {dealer_id} are encrypted with the installation's key {problem.key_id}, which "
            "is not among the keys here: put it back from your backup, into dealer-agent.keys or DEALER_AGENT_KEYS"
        ) from None
    except DecryptionFailed:
        raise WrongKey(
            f"the key {key_id} of the dealer {dealer_id} cannot be decrypted: it was changed in the database, or "
            "the key of the installation is another one; put the right dealer-agent.keys or DEALER_AGENT_KEYS back "
            "from your backup"
        ) from None


def create_keys(tx: Transaction) -> None:
    """Makes the keys of a dealer that has none. Does nothing in a store without keys of an installation.

    If several processes call it at once, one of them makes the keys. Raises KeyMissing if the dealer's keys were lost.
    """
    if tx.ciphers.installation is None:
        return
    _lock_keys(tx)
    if READ_KEYS.read(tx, {}):
        return
    if READ_PROOFS.read(tx, {}):
        raise KeyMissing(
            f"the keys of the dealer {tx.dealer_id} are gone from the database: put the rows of the table dealer_keys "
            "back from your backup"
        )
    keyring = Keyring((new_key(),), new_permanent_secret())
    change_keyring(tx, (), keyring)
    start_use(replace(tx, ciphers=OneCipher(Cipher(keyring))))


def change_keyring(tx: Transaction, before: Sequence[str], keyring: Keyring) -> None:
    """Replaces the keys of the dealer. `before` are the ids of its keys, the active one first; empty for no keys.

    Raises KeysChanged if the dealer has other keys, and KeyMissing or WrongKey if the installation's active key is
    missing or retired.
    """
    cipher_of_installation = _lock_keys(tx)
    current = [row.key_id for row in READ_KEYS.read(tx, {}) if row.key_id != PERMANENT]
    if current != list(before):
        raise KeysChanged(f"another process has changed the keys of the dealer {tx.dealer_id}: try again")
    tx.execute(DELETE_OTHER_KEYS, {"kept": [*keyring.ids, PERMANENT]})
    added = [(position, *key) for position, key in enumerate(keyring.keys)]
    if not current and keyring.permanent is not None:
        added.append((PERMANENT_POSITION, PERMANENT, keyring.permanent))
    for position, key_id, key in added:
        if key_id in current:
            tx.execute(MOVE_KEY, {"of_key": key_id, "place": position})
        else:
            wrapped = cipher_of_installation.encrypt(key, *_context(tx.dealer_id, key_id))
            row = {"key_id": key_id, "position": position, "wrapped": wrapped, "created_at": tx.now}
            tx.execute(ADD_KEY, row)
    tx.execute(COUNT_CHANGE)
    tx.changes_keys = True


def encrypt_keys_again(tx: Transaction, after: tuple[str, str], most: int) -> tuple[int, tuple[str, str] | None]:
    """Encrypts keys of dealers with the active key of the installation: at most `most`, after this dealer and key.

    Returns their number, and where to continue; None at the end. A key that cannot be decrypted stays as it is. The
    transaction is that of ALL_DEALERS and holds its lock.
    """
    cipher = tx.cipher
    parameters = {"after_dealer": after[0], "after_key": after[1], "header": cipher.header, "most": most}
    rows = tx.execute(FIND_OTHERS, parameters).all()
    renewed = 0
    for row in rows:
        with suppress(KeyMissing, WrongKey):
            key = _decrypted(row.dealer_id, row.key_id, row.wrapped, cipher)
            wrapped = cipher.encrypt(key, *_context(row.dealer_id, row.key_id))
            of_dealer_tx = Transaction(tx.connection, row.dealer_id, tx.now, tx.ciphers)
            of_dealer_tx.execute(SET_WRAPPED, {"of_key": row.key_id, "renewed": wrapped})
            renewed += 1
    return renewed, (rows[-1].dealer_id, rows[-1].key_id) if len(rows) == most else None


def _lock_keys(tx: Transaction) -> Cipher:
    """Locks the keys of all dealers until the end of the transaction. Returns the cipher of the installation.

    Its active key may encrypt. Raises KeyMissing and WrongKey.
    """
    everything = Transaction(tx.connection, ALL_DEALERS, tx.now, tx.ciphers)
    lock_dealer(everything)
    check_keys_to_encrypt(everything)
    return everything.unchecked_cipher


def _context(dealer_id: str, key_id: str) -> tuple[str, ...]:
    return "dealer_keys", "wrapped", dealer_id, key_id
