"""When an alert starts and ends, and which message says so. Pure.

A start is sent at once if the condition was quiet for a day, and so is its end. All other starts and ends are in the
digest, which is sent at most once a day. So a condition that comes and goes causes no more than the digest.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from dealer_agent.storage.alerts import AlertState, MessageKind

DAY = timedelta(days=1)

MOST_CHANGES = 12
"""The most messages about starts and ends in 24 hours. What begins or ends later is in the digest."""

KEPT = timedelta(days=90)
"""How long an ended alert and a message are remembered."""


class Observation(NamedTuple):
    """A condition is observed now. `subject` is what it is about, such as a channel. The others are facts.

    `detail` is the reason, in lines.
    """

    subject: str = ""
    amount: int | None = None
    since: datetime | None = None
    detail: str = ""


class Timing(NamedTuple):
    """How long a condition is observed before its alert starts, and not observed before it ends."""

    after: timedelta
    quiet: timedelta


class AlertMessage(NamedTuple):
    """The content of a message: what started, what ended, and what else is open. A digest also has counts."""

    kind: MessageKind
    started: tuple[AlertState, ...] = ()
    ended: tuple[AlertState, ...] = ()
    open: tuple[AlertState, ...] = ()


class AlertChanges(NamedTuple):
    """What to store, what to forget and what to send after a check."""

    stored: list[AlertState]
    forgotten: list[AlertState]
    messages: list[AlertMessage]
    digest_at: datetime | None


def _are_apart(one: datetime, other: datetime, time: timedelta) -> bool:
    """Whether two moments are at least `time` apart. A clock that was set back counts like one that moved on."""
    return abs(one - other) >= time


def observe(state: AlertState, seen: Observation | None, now: datetime, timing: Timing) -> AlertState:
    """The state after a condition was observed, or observed to be absent (None)."""
    if seen is None:
        state = state._replace(seen_at=None)
        if not state.is_open:
            return state
        cleared_at = state.cleared_at or now
        ends = _are_apart(now, cleared_at, timing.quiet)
        return state._replace(cleared_at=cleared_at, ended_at=now if ends else None)
    state = state._replace(seen_at=state.seen_at or now, cleared_at=None, **seen._asdict())
    assert state.seen_at is not None
    if state.is_open or not _are_apart(now, state.seen_at, timing.after):
        return state
    return state._replace(started_at=now, ended_at=None, start_reported=False)


def check(
    before: Iterable[AlertState],
    seen: Mapping[str, Sequence[Observation]],
    timing_of: Callable[[str], Timing],
    *,
    now: datetime,
    digest_at: datetime | None,
    changes_today: int,
    off: Iterable[str] = (),
) -> AlertChanges:
    """The result of a check. `seen` has the observations by condition. A condition that is not in it is unknown now.

    `digest_at` is the time of the last digest. `changes_today` counts the messages about starts and ends of the last 24
    hours. Conditions in `off` are forgotten without a message.
    """
    old = {state.key: state for state in before}
    forgotten = [state for state in old.values() if state.condition in off]
    states = {key: state for key, state in old.items() if state.condition not in off}
    for condition, observations in seen.items():
        if condition in off:
            continue
        found = {(condition, each.subject): each for each in observations}
        for key in dict.fromkeys((*(key for key in states if key[0] == condition), *found)):
            state = states.get(key, AlertState(*key))
            states[key] = observe(state, found.get(key), now, timing_of(condition))
    messages = [*_report_changes(states, old, now, changes_today)]
    if _digest_is_due(states.values(), now, digest_at):
        messages.append(_report_all(states, now))
        digest_at = now
    kept = {key: state for key, state in states.items() if _is_needed(state, now)}
    forgotten += [state for key, state in old.items() if key in states and key not in kept]
    stored = [state for key, state in kept.items() if old.get(key) != state]
    return AlertChanges(stored, forgotten, messages, digest_at)


_States = dict[tuple[str, str], AlertState]


def _report_changes(states: _States, old: _States, now: datetime, changes_today: int) -> Iterator[AlertMessage]:
    """The message about alerts that started or ended, if there are any, and notes in `states` what it reports.

    An alert that starts again within a day, and any beyond MOST_CHANGES messages a day, waits for the digest.
    """
    started, ended = [], []
    for key, state in states.items():
        earlier = old.get(key, AlertState(*key))
        if state.is_open and not earlier.is_open:
            quiet = earlier.ended_at is None or _are_apart(now, earlier.ended_at, DAY)
            if quiet and changes_today < MOST_CHANGES:
                states[key] = state._replace(start_reported=True)
                started.append(key)
            else:
                states[key] = state._replace(unreported=state.unreported + 1)
        elif earlier.is_open and not state.is_open:
            if state.start_reported and state.unreported == 0 and changes_today < MOST_CHANGES:
                ended.append(key)
            else:
                states[key] = state._replace(unreported=state.unreported + 1)
    if started or ended:
        changed = {*started, *ended}
        for key in changed:
            states[key] = states[key]._replace(reported_at=now)
        yield AlertMessage(
            "change",
            tuple(states[key] for key in started),
            tuple(states[key] for key in ended),
            tuple(state for key, state in states.items() if state.is_open and key not in changed),
        )


def _report_all(states: _States, now: datetime) -> AlertMessage:
    """The digest of all open alerts and of changes that no message has reported. Notes in `states` that it has them."""
    named = [state for state in states.values() if state.is_open or state.unreported]
    states |= {state.key: state._replace(reported_at=now, unreported=0) for state in named}
    return AlertMessage(
        "digest",
        ended=tuple(state for state in named if not state.is_open),
        open=tuple(state for state in named if state.is_open),
    )


def _digest_is_due(states: Iterable[AlertState], now: datetime, digest_at: datetime | None) -> bool:
    """Whether a day has passed, and something is open or was not reported."""
    if digest_at is not None and not _are_apart(now, digest_at, DAY):
        return False
    return any(
        state.unreported
        or (state.is_open and state.reported_at is not None and _are_apart(now, state.reported_at, DAY))
        for state in states
    )


def _is_needed(state: AlertState, now: datetime) -> bool:
    if state.seen_at is not None or state.is_open or state.unreported:
        return True
    return state.ended_at is not None and not _are_apart(now, state.ended_at, KEPT)
