"""Compares the table of withdrawals with the chain of consent events, and writes its rows again from the chain.

The chain decides. Events of older versions do not have the hashes of the contact points. For such an event, a row of
its time is valid, and one contact point of its lead must have a row.
"""

from datetime import datetime
from typing import NamedTuple

import msgspec
from sqlalchemy import bindparam, delete, exists, select

from dealer_agent.leads.consent_events import EVEN_EXPIRED, GRANTED, channels_allowed
from dealer_agent.storage.consents import channel_events
from dealer_agent.storage.contact_points import contact_points_of, lasting_hash
from dealer_agent.storage.schema import consent_events, leads, of_dealer, same_lead, upsert, withdrawals
from dealer_agent.storage.transaction import Transaction
from dealer_agent.storage.withdrawals import KINDS, PURPOSE, hashes_in

Times = dict[tuple[bytes, str], datetime]
"""The last time of a withdrawal by contact hash and channel."""


RESTORE_COMMAND = "dealer-agent consent verify --restore-withdrawals"
"""The command that writes the rows again."""


class Differences(NamedTuple):
    """The rows that are not as the chain says.

    `lost` counts rows that nobody can make again: an older version recorded the withdrawal, and the person is erased.
    """

    missing: Times
    changed: Times
    added: frozenset[tuple[bytes, str]]
    lost: int

    @property
    def restored(self) -> Times:
        """The rows that `restore_withdrawals` writes."""
        return {**self.changed, **self.missing}

    @property
    def words(self) -> str | None:
        """What is different, for people; None if nothing is."""
        found = {
            "missing": len(self.missing) + self.lost,
            "changed": len(self.changed),
            "added by hand": len(self.added),
        }
        told = ", ".join(f"{number:,} {what}" for what, number in found.items() if number)
        return f"the table of withdrawals does not agree with the consent record (rows: {told})" if told else None


NO_DIFFERENCES = Differences({}, {}, frozenset(), 0)

_granted = consent_events.alias("granted")

# Without the withdrawals that older versions repeated beside an old consent, which added no row.
READ_WITHDRAWALS = (
    select(
        consent_events.c.lead_id,
        consent_events.c.at,
        consent_events.c.channels,
        consent_events.c.purpose,
    )
    .where(
        of_dealer(consent_events),
        # Written into the SQL: with parameters, SQLite would not use the index of these kinds.
        consent_events.c.kind.in_(bindparam("kinds", KINDS, expanding=True, literal_execute=True)),
        ~exists().where(
            same_lead(_granted, consent_events),
            _granted.c.kind == GRANTED,
            _granted.c.at == consent_events.c.at,
            consent_events.c.purpose == "",
        ),
    )
    .execution_options(yield_per=500)
)

READ_ROWS = select(withdrawals).where(of_dealer(withdrawals)).execution_options(yield_per=500)

WRITE_ROW = upsert(withdrawals, "UPDATE SET at = excluded.at")

DELETE_ROW = delete(withdrawals).where(
    of_dealer(withdrawals),
    withdrawals.c.contact_hash == bindparam("the_hash"),
    withdrawals.c.channel == bindparam("the_channel"),
)


FIND_LEADS_MEANWHILE = (
    select(consent_events.c.lead_id)
    .distinct()
    .join_from(consent_events, leads)
    .where(
        of_dealer(consent_events),
        consent_events.c.kind == GRANTED,
        consent_events.c.at > bindparam("first"),
        consent_events.c.granted_at <= bindparam("last"),
        leads.c.erased_at.is_(None),
    )
)


def compare_withdrawals(tx: Transaction) -> Differences:
    """Compares the rows with the chain, which the caller has verified. Raises UnknownKey and DecryptionFailed."""
    expected: Times = {}
    older: list[tuple[str, datetime, list[str]]] = []
    for event in tx.execute(READ_WITHDRAWALS):
        channels = msgspec.json.decode(event.channels, type=list[str])
        if event.purpose == "":
            older.append((event.lead_id, event.at, channels))
        for contact_hash in hashes_in(event.purpose):
            for channel in channels:
                key = contact_hash, channel
                expected[key] = max(event.at, expected.get(key, event.at))
    of_older = {(at, channel) for _, at, channels in older for channel in channels}
    rows: Times = {(bytes(row.contact_hash), row.channel): row.at for row in tx.execute(READ_ROWS)}
    changed: Times = {}
    added: set[tuple[bytes, str]] = set()
    for key, at in rows.items():
        should = expected.get(key)
        if at == should or ((at, key[1]) in of_older and (should is None or at > should)):
            continue
        if should is None:
            added.add(key)
        else:
            changed[key] = should
    missing = {key: at for key, at in expected.items() if key not in rows}
    as_recorded = {key: at for key, at in rows.items() if key not in added} | changed | missing
    lost = _compare_older(tx, older, as_recorded, missing)
    return Differences(missing, changed, frozenset(added), lost)


def _compare_older(tx: Transaction, older: list[tuple[str, datetime, list[str]]], rows: Times, missing: Times) -> int:
    """Adds the rows that events of older versions lack to `missing`. Returns for how many the person is erased."""
    newest: dict[str, datetime] = {}
    for (_, channel), at in rows.items():
        newest[channel] = max(at, newest.get(channel, at))
    lost = 0
    for lead_id, at, channels in older:
        hashes = [lasting_hash(tx, PURPOSE, contact) for contact in contact_points_of(tx, lead_id)]
        for channel in channels:
            keys = [(contact_hash, channel) for contact_hash in hashes]
            if not keys:
                lost += channel not in newest or newest[channel] < at
            elif all(key not in rows or rows[key] < at for key in keys):
                missing.update((key, max(at, missing.get(key, at))) for key in keys)
    return lost


def restore_withdrawals(tx: Transaction) -> Differences:
    """Writes the rows as the chain says. Returns what was different. The caller holds the dealer's lock."""
    found = compare_withdrawals(tx)
    if found.added:
        tx.execute_each(DELETE_ROW, [{"the_hash": each, "the_channel": channel} for each, channel in found.added])
    rows = [
        {"contact_hash": contact_hash, "channel": channel, "at": at}
        for (contact_hash, channel), at in found.restored.items()
    ]
    if rows:
        tx.execute_each(WRITE_ROW, rows)
    return found


def leads_meanwhile(tx: Transaction, restored: Times) -> list[str]:
    """The leads that came after one of these withdrawals with a consent from before one, and are not erased."""
    if not restored:
        return []
    sought = {"first": min(restored.values()), "last": max(restored.values())}
    return sorted(tx.execute(FIND_LEADS_MEANWHILE, sought).scalars())


def channels_withdrawn(tx: Transaction, lead_id: str, restored: Times) -> list[str]:
    """The channels that a lead allows, although one of these withdrawals came after the consent."""
    events = channel_events(tx, lead_id)

    def newest_grant(channel: str) -> datetime:
        return max(each.granted_at for each in events if each.granted_at is not None and channel in each.channels)

    hashes = [lasting_hash(tx, PURPOSE, contact) for contact in contact_points_of(tx, lead_id)]
    return sorted(
        channel
        for channel in channels_allowed(events, EVEN_EXPIRED)
        if any(restored.get((each, channel), EVEN_EXPIRED) >= newest_grant(channel) for each in hashes)
    )
