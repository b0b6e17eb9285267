"""Calls of one function of storage, each in a transaction of its own."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Concatenate, ParamSpec, TypeVar

from dealer_agent.encryption import Cipher
from dealer_agent.leads.records import LeadRecord
from dealer_agent.storage.leads.lead_search import LeadFilter, find_leads
from dealer_agent.storage.privacy.reencryption import reencrypt
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import OneCipher, Transaction

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Function = Callable[Concatenate[Transaction, Arguments], Result]


def read(
    store: Store,
    dealer_id: str,
    function: Function[Arguments, Result],
    *args: Arguments.args,
    **options: Arguments.kwargs,
) -> Result:
    """Calls a function that reads."""
    with store.read(dealer_id) as tx:
        return function(tx, *args, **options)


def read_at(
    now: datetime,
    store: Store,
    dealer_id: str,
    function: Function[Arguments, Result],
    *args: Arguments.args,
    **options: Arguments.kwargs,
) -> Result:
    """Calls a function that reads, at a time."""
    with store.read(dealer_id, now) as tx:
        return function(tx, *args, **options)


def write(
    store: Store,
    dealer_id: str,
    function: Function[Arguments, Result],
    *args: Arguments.args,
    **options: Arguments.kwargs,
) -> Result:
    """Calls a function that writes what does not belong to leads."""
    with store.write(dealer_id) as tx:
        return function(tx, *args, **options)


def write_at(
    now: datetime,
    store: Store,
    dealer_id: str,
    function: Function[Arguments, Result],
    *args: Arguments.args,
    **options: Arguments.kwargs,
) -> Result:
    """Calls a function that writes what does not belong to leads, at a time."""
    with store.write(dealer_id, now) as tx:
        return function(tx, *args, **options)


def lock_at(
    now: datetime,
    store: Store,
    dealer_id: str,
    function: Function[Arguments, Result],
    *args: Arguments.args,
    **options: Arguments.kwargs,
) -> Result:
    """Calls a function that writes what belongs to leads, at a time."""
    with store.lock(dealer_id, now) as tx:
        return function(tx, *args, **options)


def reencrypt_all(store: Store, dealer_id: str, most: int) -> int:
    """Encrypts all values again, `most` in a transaction. Returns their number."""
    return sum(reencrypt(store, dealer_id, most))


def at_time(tx: Transaction, now: datetime) -> Transaction:
    """The transaction at another time."""
    return replace(tx, now=now)


def with_cipher(tx: Transaction, cipher: Cipher) -> Transaction:
    """The transaction with other keys, which are not checked."""
    return replace(tx, ciphers=OneCipher(cipher), check_cipher=None)


def of_dealer(tx: Transaction, dealer_id: str) -> Transaction:
    """The transaction of another dealer."""
    return replace(tx, dealer_id=dealer_id)


def list_leads(tx: Transaction, limit: int, before: str | None = None) -> list[LeadRecord]:
    """The newest leads; with `before`, those older than that lead."""
    return find_leads(tx, LeadFilter(before=before), limit).leads
