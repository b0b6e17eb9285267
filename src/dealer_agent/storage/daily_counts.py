"""Counts what agents asked a dealer on each day, without data of customers and without texts of strangers.

A row counts one item of one subject on one day of the dealer's time zone. Processes add their numbers about once a
minute. The rows of a day and subject are bounded: items that come after MOST_ITEMS others count as OTHER.
"""

from collections.abc import Mapping
from datetime import date
from typing import Literal, get_args

from sqlalchemy import bindparam, delete, func, select

from dealer_agent.storage.schema import daily_counts
from dealer_agent.storage.statements import of_dealer, upsert
from dealer_agent.storage.transaction import Transaction

Subject = Literal[
    # Requests. An item is a skill and an outcome: `inventory.search OK`.
    "requests",
    # Answered requests by agent. An item is an agent and a skill: `01KE7... inventory.search`.
    "agents",
    # SearchCount.
    "searches",
    # Words of searches, and the words and filters of the searches that found nothing.
    "make",
    "model",
    "body",
    "price",
    "nothing_make",
    "nothing_model",
    "nothing_body",
    "nothing_price",
    "nothing_filter",
    # Vehicle ids: units that answered inventory.vehicle, and units that only a price limit excluded.
    "viewed",
    "no_price",
    "outside_price",
]
SUBJECTS: tuple[Subject, ...] = get_args(Subject)

SearchCount = Literal[
    "examined", "found_nothing", "with_price", "price_checked", "no_price_units", "outside_price_units"
]
"""Items of the subject `searches`. `price_checked` are searches with a price for which the last two were counted."""

Tally = Mapping[Subject, Mapping[str, int]]
"""Numbers by subject and item."""

MOST_ITEMS = 100
"""The most items of a subject that a day has rows for, besides OTHER."""
OTHER = "other"
OK = "OK"
"""The outcome of a request without an error code. A lead is then new."""
DUPLICATE = "DUPLICATE"
"""The outcome of a lead that was added to an earlier lead of the same sender."""
REPEATED = "REPEATED"
"""The outcome of a lead that repeats an idempotency key. Nothing is stored."""

_counts = daily_counts.c

ADD_COUNT = upsert(daily_counts, "UPDATE SET number = daily_counts.number + excluded.number")

LIST_ITEMS = select(_counts.subject, _counts.item).where(of_dealer(daily_counts), _counts.day == bindparam("on"))

SUM_COUNTS = (
    select(_counts.subject, _counts.item, func.sum(_counts.number))
    .where(of_dealer(daily_counts), _counts.day >= bindparam("first"), _counts.day <= bindparam("last"))
    .group_by(_counts.subject, _counts.item)
)

SUM_DAYS = (
    select(_counts.day, func.sum(_counts.number))
    .where(
        of_dealer(daily_counts),
        _counts.day >= bindparam("first"),
        _counts.day <= bindparam("last"),
        _counts.subject == "requests",
    )
    .group_by(_counts.day)
)

FIND_FIRST_DAY = select(func.min(_counts.day)).where(of_dealer(daily_counts))

FIND_OLDEST = (
    select(_counts.day, _counts.subject)
    .where(of_dealer(daily_counts), _counts.day < bindparam("before"))
    .order_by(_counts.day, _counts.subject)
    .limit(1)
)

DELETE_SUBJECT = delete(daily_counts).where(
    of_dealer(daily_counts), _counts.day == bindparam("on"), _counts.subject == bindparam("about")
)


def add_counts(tx: Transaction, day: date, tally: Tally) -> None:
    """Adds numbers to those of a day. An item above the bound of its subject counts as OTHER."""
    stored_items: dict[str, set[str]] = {}
    for subject, item in tx.execute(LIST_ITEMS, {"on": day.isoformat()}):
        stored_items.setdefault(subject, set()).add(item)
    rows = []
    for subject, numbers in sorted(tally.items()):
        stored = stored_items.get(subject, set())
        # OTHER does not count against the bound.
        room = MOST_ITEMS - len(stored - {OTHER})
        sums: dict[str, int] = {}
        # The most frequent items get the free rows.
        for item, number in sorted(numbers.items(), key=lambda entry: (-entry[1], entry[0])):
            if item not in stored and item != OTHER:
                room -= 1
                if room < 0:
                    sums[OTHER] = sums.get(OTHER, 0) + number
                    continue
            sums[item] = sums.get(item, 0) + number
        rows += [
            # Processes add rows in one order. Otherwise two of them could wait for each other.
            {"day": day.isoformat(), "subject": subject, "item": item, "number": number}
            for item, number in sorted(sums.items())
        ]
    if rows:
        tx.execute_each(ADD_COUNT, rows)


def sum_counts(tx: Transaction, first: date, last: date) -> dict[Subject, dict[str, int]]:
    """The numbers from the day `first` to the day `last`, both included, of every subject."""
    sums: dict[Subject, dict[str, int]] = {subject: {} for subject in SUBJECTS}
    for subject, item, number in tx.execute(SUM_COUNTS, {"first": first.isoformat(), "last": last.isoformat()}):
        # A newer version of the service may count more subjects.
        if subject in sums:
            sums[subject][item] = int(number)
    return sums


def requests_by_day(tx: Transaction, first: date, last: date) -> dict[date, int]:
    """The requests of each day that has any."""
    rows = tx.execute(SUM_DAYS, {"first": first.isoformat(), "last": last.isoformat()})
    return {date.fromisoformat(day): int(number) for day, number in sorted(map(tuple, rows))}


def first_day(tx: Transaction) -> date | None:
    """The oldest day that has counts."""
    day: str | None = tx.execute(FIND_FIRST_DAY).scalar()
    return None if day is None else date.fromisoformat(day)


def delete_oldest(tx: Transaction, before: date) -> bool:
    """Deletes the counts of one subject on the oldest day, if that day is before `before`. Returns whether it was.

    One subject of a day at a time, so that no transaction is long. Call it until it returns False.
    """
    oldest = tx.execute(FIND_OLDEST, {"before": before.isoformat()}).one_or_none()
    if oldest is None:
        return False
    tx.execute(DELETE_SUBJECT, {"on": oldest.day, "about": oldest.subject})
    return True
