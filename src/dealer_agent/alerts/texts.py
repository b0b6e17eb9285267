"""The texts of messages about alerts: mails, and the JSON of webhooks. Pure. They have no customer data."""

import re
import shlex
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined

from dealer_agent.alerts.conditions import CONDITIONS, Condition
from dealer_agent.alerts.rules import AlertMessage
from dealer_agent.leads.plain_text import short, wrapped
from dealer_agent.leads.texts import paragraph
from dealer_agent.leads.us_formats import time_words
from dealer_agent.pasted_commands import Where
from dealer_agent.storage.alerts import AlertState

MOST_NAMED = 50
"""The most alerts that a message names in each of its lists."""


_PASTED = re.compile(r"dealer-agent |\[[a-z_]+\]$|[a-z_]+ = ")
"""How a line begins that a person pastes: a command, or a line of dealer.toml."""


class Sender(NamedTuple):
    """Whose alerts they are. `owner` is the id of a dealer, or `*` for the operator. `file` has the settings.

    `where` completes the commands in messages.
    """

    owner: str
    name: str
    zone: str
    file: str
    where: Where = Where()


class MailText(NamedTuple):
    """A mail without sender and recipients."""

    subject: str
    text: str


class _Entry(NamedTuple):
    """An alert in a mail. `changes` is how often it began or ended since the last message about it."""

    sentence: str
    detail: list[str]
    advice: str
    started: str
    ended: str
    changes: int


def sentence_of(state: AlertState, zone: str) -> str:
    """What is wrong, or that it is over."""
    condition = CONDITIONS.get(state.condition)
    if condition is None:
        return state.condition
    words = condition.sentence if state.is_open else condition.end_sentence
    return words.format(
        subject=short(state.subject, 120),
        amount=_amount(condition, state.amount),
        since="" if state.since is None else time_words(state.since, zone),
    )


def mail_text(message: AlertMessage, sender: Sender) -> MailText:
    """The mail of a message."""
    text = (
        _environment()
        .get_template("alert.txt")
        .render(
            kind=message.kind,
            started=_entries(message.started, sender),
            ended=_entries(message.ended, sender),
            open=_entries(message.open, sender),
            zone=sender.zone.replace("_", " "),
            file=sender.file,
            where=sender.where,
        )
    )
    lines = [line.rstrip() for line in text.strip().splitlines()]
    return MailText(
        f"{short(sender.name, 80)}: {_subject_of_message(message, sender.zone)}", "\n".join(_single_gaps(lines)) + "\n"
    )


def webhook_body(message: AlertMessage, sender: Sender, at: datetime) -> bytes:
    """The body of a message for a webhook: type, timestamp and data, as Standard Webhooks recommends."""
    zone = ZoneInfo(sender.zone)

    def entries(states: Sequence[AlertState]) -> list[dict[str, Any]]:
        return [_json_entry(state, sender, zone) for state in states[:MOST_NAMED]]

    lists = {"started": entries(message.started), "ended": entries(message.ended), "open": entries(message.open)}
    data = {"dealer_id": sender.owner, "dealer": sender.name, **lists}
    return msgspec.json.encode({"type": f"alerts.{message.kind}", "timestamp": at.isoformat(), "data": data})


def _subject_of_message(message: AlertMessage, zone: str) -> str:
    """What the subject of a mail says after the sender's name."""
    if message.kind == "test":
        return "test of the alerts"
    if message.kind == "digest":
        return f"daily digest, {len(message.open)} open"
    first = (*message.started, *message.ended)[0]
    more = len(message.started) + len(message.ended) - 1
    words = short(sentence_of(first, zone).partition(". ")[0].rstrip("."), 120)
    return words + (f", and {more} more" if more else "")


def advice_about(state: AlertState, where: Where) -> str:
    """What to do about an alert, with commands that work in this place."""
    condition = CONDITIONS.get(state.condition)
    if condition is None:
        return ""
    subject = short(state.subject, 120)
    # A subject has no braces of a format: it is inserted at the end.
    advice = where.complete(condition.advice).replace("{feed}", shlex.quote(subject.removeprefix("feed ")))
    return advice.replace("{subject}", subject)


def _entries(states: Sequence[AlertState], sender: Sender) -> list[_Entry]:
    """What the mail shows of each alert, for the first MOST_NAMED."""
    zone = sender.zone
    return [
        _Entry(
            sentence_of(state, zone),
            sender.where.complete(state.detail).splitlines() if state.is_open else [],
            advice_about(state, sender.where),
            "" if state.started_at is None else time_words(state.started_at, zone),
            "" if state.ended_at is None else time_words(state.ended_at, zone),
            state.unreported,
        )
        for state in states[:MOST_NAMED]
    ]


def _json_entry(state: AlertState, sender: Sender, zone: ZoneInfo) -> dict[str, Any]:
    """An alert as the webhook sends it."""
    times = {"started_at": state.started_at, "ended_at": state.ended_at, "since": state.since}
    return {
        "condition": state.condition,
        "subject": state.subject,
        "sentence": sentence_of(state, sender.zone),
        "detail": sender.where.complete(state.detail),
        "advice": advice_about(state, sender.where),
        **{name: None if at is None else at.astimezone(zone).isoformat() for name, at in times.items()},
    }


def _amount(condition: Condition, amount: int | None) -> str:
    one, several = condition.unit
    return "" if amount is None else f"{amount:,} {one if amount == 1 else several}"


def _advice_lines(text: str, indent: str = "") -> str:
    """The sentences of an advice in wrapped lines. A command, or a line of dealer.toml, is one line: it is pasted."""
    lines = []
    for line in text.splitlines():
        lines += [f"{indent}  {line}"] if _PASTED.match(line) else wrapped(f"{indent}{line}", hanging=indent)
    return "\n".join(lines)


def _single_gaps(lines: list[str]) -> list[str]:
    return [line for before, line in zip(["", *lines], lines, strict=False) if line or before]


@cache
def _environment() -> Environment:
    """The templates of the texts, with their filters."""
    # The texts are not HTML.
    environment = Environment(  # noqa: S701
        loader=PackageLoader("dealer_agent.alerts"), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["paragraph"] = paragraph
    environment.filters["advice"] = _advice_lines
    environment.filters["hanging"] = lambda text: "\n".join(wrapped(text, hanging="  "))
    environment.filters["detail"] = lambda line: _advice_lines(line, "  ")
    return environment
