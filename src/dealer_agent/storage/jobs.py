"""Stores the jobs: when each is due, and which process does it now (see the package `jobs`).

A process has a job until its lease ends. A lease is a name that is never used twice. The clocks of machines may differ,
and a clock may be set back: a time that is further in the future than it can be counts as past. Deliveries have the
same leases (`storage.deliveries.outbox`).
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from random import random
from typing import Any, Literal, NamedTuple

from sqlalchemy import (
    Boolean,
    ColumnElement,
    FromClause,
    Integer,
    Select,
    and_,
    bindparam,
    delete,
    func,
    or_,
    select,
    union_all,
    update,
)

from dealer_agent.protocol.ids import new_ulid
from dealer_agent.storage.columns import ExternalText, UtcTime
from dealer_agent.storage.errors import LeaseLost
from dealer_agent.storage.schema import jobs, registered_dealers
from dealer_agent.storage.statements import of_dealer, upsert
from dealer_agent.storage.transaction import InstallationTransaction, Transaction

LEASE = timedelta(seconds=60)
"""A process renews its lease after a third of it. After a kill, another process takes over at its end."""

SETTINGS = "settings"
"""The kind of the job that stores the feeds and the other jobs of a dealer after its settings have changed."""

MOST_SCANNED = 2000
"""The most due jobs of a kind that one look reads, so that a backlog of 10,000 dealers costs no more."""

When = Literal["due", "unless it failed", "now"]
"""Which jobs `claim_job` takes: due ones; those and jobs whose last run did not fail; any job."""


class JobKey(NamedTuple):
    """A job of the dealer `dealer_id`, or of ALL_DEALERS. The subject is empty if the dealer has one such job."""

    dealer_id: str
    kind: str
    subject: str = ""


class Job(NamedTuple):
    """A job that this process claimed at `now`. `attempts` counts this one too.

    `is_due`: it was due. `result` is what the last run left for this one.
    """

    dealer_id: str
    kind: str
    subject: str
    lease: str
    now: datetime
    due_at: datetime
    is_due: bool
    attempts: int
    result: str | None = None

    @property
    def key(self) -> JobKey:
        """Which job it is."""
        return JobKey(self.dealer_id, self.kind, self.subject)


NO_LEASE = {"lease": None, "leased_until": None}
"""The columns of a row that no process has: a job or a delivery."""


def is_free(table: FromClause) -> ColumnElement[bool]:
    """The condition that no process has the lease of a row. Its parameters are those of `lease_times`."""
    now = bindparam("now", type_=UtcTime)
    until = table.c.leased_until
    return or_(until.is_(None), until <= now, until > bindparam("latest", type_=UtcTime))


def lease_times(now: datetime, lease: timedelta) -> dict[str, datetime]:
    """The time, and the latest end of a lease: two leases ahead, because the clock of another process may be ahead."""
    return {"now": now, "latest": now + 2 * lease}


_FREE = is_free(jobs)
_DUE = (jobs.c.due_at <= bindparam("now"), jobs.c.due_at > bindparam("longest_wait"))
THIS_JOB = of_dealer(jobs, kind="of_kind", subject="of_subject")
"""The condition that a row is the job of the parameters `of_kind` and `of_subject`."""
_HELD = of_dealer(jobs, kind="of_kind", subject="of_subject", lease="of_lease")

# Each condition of `_DUE` has a query of its own: an index has their rows in order, and not those of an OR.
_OLDEST = [
    select(jobs.c.dealer_id, jobs.c.subject, jobs.c.due_at)
    .join(registered_dealers, registered_dealers.c.dealer_id == jobs.c.dealer_id, isouter=True)
    .where(
        jobs.c.kind == bindparam("of_kind"),
        condition,
        _FREE,
        # The dealer of a folder is not registered.
        or_(
            registered_dealers.c.dealer_id.is_(None),
            registered_dealers.c.enabled,
            bindparam("of_disabled", type_=Boolean),
        ),
    )
    .order_by(jobs.c.due_at)
    .limit(MOST_SCANNED)
    for condition in _DUE
]


def _in_turn(oldest: Sequence[Select[Any]]) -> Select[Any]:
    """The statement that finds jobs among these, the longest overdue first, and not too many of one dealer."""
    due = union_all(*(select(each.subquery()) for each in oldest)).subquery()
    number = func.row_number().over(partition_by=due.c.dealer_id, order_by=(due.c.due_at, due.c.subject))
    numbered = select(due, number.label("of_dealer")).subquery()
    return (
        select(numbered.c.dealer_id, numbered.c.subject)
        .where(numbered.c.of_dealer <= bindparam("most_of_dealer"))
        .order_by(numbered.c.due_at, numbered.c.dealer_id, numbered.c.subject)
        .limit(bindparam("most"))
    )


FIND_ALL_DUE = _in_turn(_OLDEST)

FIND_DUE = _in_turn([each.where(of_dealer(jobs)) for each in _OLDEST])

CLAIM_JOB = (
    update(jobs)
    .where(
        THIS_JOB,
        _FREE,
        or_(
            *_DUE,
            bindparam("early", type_=Boolean),
            # A row with an old lease: its process died.
            and_(bindparam("unless_failed", type_=Boolean), or_(jobs.c.attempts == 0, jobs.c.lease.is_not(None))),
        ),
    )
    .values(lease=bindparam("new_lease"), leased_until=bindparam("until"), attempts=jobs.c.attempts + 1)
    .returning(jobs.c.due_at, jobs.c.attempts, jobs.c.result)
)

HOLD_JOB = update(jobs).where(_HELD).values(leased_until=bindparam("until"))

FINISH_JOB = (
    update(jobs)
    .where(_HELD)
    .values(
        **NO_LEASE,
        due_at=bindparam("next_due"),
        attempts=bindparam("counted", type_=Integer),
        result=bindparam("new_result", type_=ExternalText),
    )
)

REMOVE_JOB = delete(jobs).where(_HELD)

ADD_JOB = upsert(jobs, "UPDATE SET due_at = excluded.due_at, attempts = 0, lease = NULL, leased_until = NULL")

ADD_JOB_AT = upsert(
    jobs, "UPDATE SET due_at = CASE WHEN jobs.due_at < excluded.due_at THEN jobs.due_at ELSE excluded.due_at END"
)

BEGIN_JOB = upsert(jobs, "UPDATE SET due_at = :begins", bindparam("begins", type_=UtcTime))

REMOVE_OTHERS = delete(jobs).where(
    of_dealer(jobs, kind="of_kind"), jobs.c.subject.not_in(bindparam("subjects", expanding=True))
)


def add_jobs(tx: Transaction, kind: str, subjects: Iterable[str] = ("",)) -> None:
    """Adds jobs that are due now. One that is there begins anew: the process that works on it loses its lease."""
    rows = [{"kind": kind, "subject": subject, "due_at": tx.now, "attempts": 0} for subject in subjects]
    if rows:
        tx.execute_each(ADD_JOB, rows)


def add_job_at(tx: Transaction, kind: str, due_at: datetime, subject: str = "") -> None:
    """Adds a job that is due at a time. One that is due sooner stays as it is."""
    tx.execute(ADD_JOB_AT, {"kind": kind, "subject": subject, "due_at": due_at, "attempts": 0})


def begin_jobs(tx: Transaction, kinds: Iterable[str], new_within: timedelta = timedelta()) -> None:
    """Makes the only job of each kind due now. One that is being done stays so, and then waits for its next time.

    A job that is not there yet is first due at any time within `new_within`, so that jobs of many new dealers spread.
    """
    same = {"subject": "", "attempts": 0, "begins": tx.now}
    rows = [{"kind": kind, "due_at": tx.now + random() * new_within, **same} for kind in kinds]  # noqa: S311 - no secret
    if rows:
        tx.execute_each(BEGIN_JOB, rows)


def remove_other_jobs(tx: Transaction, kind: str, subjects: Sequence[str]) -> None:
    """Removes the jobs of a kind with other subjects."""
    tx.execute(REMOVE_OTHERS, {"of_kind": kind, "subjects": list(subjects)})


def find_due_jobs(
    tx: Transaction | InstallationTransaction,
    now: datetime,
    kind: str,
    longest_wait: timedelta,
    most: int,
    most_of_dealer: int,
    *,
    of_disabled: bool = False,
) -> list[JobKey]:
    """Up to `most` jobs of a kind that are due and that no process has, the longest overdue first.

    They are those of the transaction's dealer, or of all dealers. At most `most_of_dealer` are of one dealer, so that
    one dealer's jobs do not hide those of the others. Disabled dealers have none, unless `of_disabled`.
    """
    statement = FIND_DUE if isinstance(tx, Transaction) else FIND_ALL_DUE
    parameters = {"of_kind": kind, "most": most, "most_of_dealer": most_of_dealer, "of_disabled": of_disabled}
    rows = tx.execute(statement, parameters | _limits(now, longest_wait))
    return [JobKey(row.dealer_id, kind, row.subject) for row in rows]


def claim_job(tx: Transaction, kind: str, subject: str, longest_wait: timedelta, when: When = "due") -> Job | None:
    """Takes the lease of a job. None if another process has it, if `when` excludes it, or if there is no such job."""
    lease = new_ulid()
    values = {"of_kind": kind, "of_subject": subject, "new_lease": lease, "until": tx.now + LEASE}
    modes = {"early": when == "now", "unless_failed": when == "unless it failed"}
    row = tx.execute(CLAIM_JOB, values | modes | _limits(tx.now, longest_wait)).one_or_none()
    if row is None:
        return None
    # A due time beyond `longest_wait` was written while the clock was wrong.
    is_due = row.due_at <= tx.now or row.due_at > tx.now + longest_wait
    return Job(tx.dealer_id, kind, subject, lease, tx.now, row.due_at, is_due, row.attempts, row.result)


def hold_job(tx: Transaction, job: Job) -> None:
    """Renews the lease, and keeps it until the end of the transaction. Raises LeaseLost."""
    if tx.execute(HOLD_JOB, {**_key_of_lease(job), "until": tx.now + LEASE}).rowcount == 0:
        raise LeaseLost(f"another process has the job {' '.join(job.key)}, or it was removed")


def finish_job(tx: Transaction, job: Job, due_at: datetime | None, attempts: int, result: str | None) -> None:
    """Gives the lease back, and stores when the job is due again; None removes it. Does nothing without the lease."""
    if due_at is None:
        tx.execute(REMOVE_JOB, _key_of_lease(job))
    else:
        tx.execute(FINISH_JOB, {**_key_of_lease(job), "next_due": due_at, "counted": attempts, "new_result": result})


def _key_of_lease(job: Job) -> dict[str, str]:
    return {"of_kind": job.kind, "of_subject": job.subject, "of_lease": job.lease}


def _limits(now: datetime, longest_wait: timedelta) -> dict[str, datetime]:
    return lease_times(now, LEASE) | {"longest_wait": now + longest_wait}
