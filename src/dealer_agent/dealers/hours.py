"""Reads and writes the opening hours of a day in the notation of `dealer.toml`. Pure.

A span is its begin and its end, in minutes from midnight in the rooftop's local time. A span belongs to the day on
which it begins. It may end on the next day: `18:00-02:00` is (1080, 1560), and `24:00` is 1440.
"""

import re
from itertools import pairwise

Span = tuple[int, int]
Spans = tuple[Span, ...]
"""The spans of one day, in order. They do not touch. Empty: closed."""

DAY = 24 * 60
SPANS_A_DAY = 4
LONGEST_PAST_MIDNIGHT = 16 * 60
"""In minutes. A longer span past midnight is probably a mistake: `09:00-05:00` for 5 in the afternoon."""

_SPAN = re.compile(r"([0-9]{1,2}):([0-9]{2})\s*[-\u2013]\s*([0-9]{1,2}):([0-9]{2})")


def read_hours(value: str) -> Spans:
    """The spans of one day: `09:00-20:00`, `09:00-12:00, 13:00-18:00`, or `closed`.

    Spans that touch are joined. Raises ValueError.
    """
    if value.strip().casefold() == "closed":
        return ()
    texts = value.split(",")
    if len(texts) > SPANS_A_DAY:
        raise ValueError(f"'{value}' has {len(texts)} spans; a day has at most {SPANS_A_DAY}")
    spans = sorted(_read_span(text.strip(), value) for text in texts)
    for (opens, closes), later in pairwise(spans):
        if later[0] < closes:
            overlapping = f"'{span_text((opens, closes))}' and '{span_text(later)}' overlap"
            raise ValueError(f"{overlapping}; end the first before the second begins, or write one span")
    return _joined(spans)


def clock_text(minutes: int) -> str:
    """The time of day: `24:00` at the end of the day, then the time of the next day."""
    shown = minutes if minutes <= DAY else minutes - DAY
    return f"{shown // 60:02}:{shown % 60:02}"


def span_text(span: Span) -> str:
    """A span in the notation of `dealer.toml`."""
    return f"{clock_text(span[0])}-{clock_text(span[1])}"


def hours_text(spans: Spans) -> str:
    """The hours of a day in the notation of `dealer.toml`."""
    return ", ".join(map(span_text, spans)) or "closed"


def minutes_past_midnight(spans: Spans) -> int:
    """The minutes by which the last span continues into the next day."""
    return max(0, spans[-1][1] - DAY) if spans else 0


def _read_span(text: str, value: str) -> Span:
    found = _SPAN.fullmatch(text)
    if not found:
        examples = "such as '09:00-20:00' or '09:00-12:00, 13:00-18:00', or 'closed'"
        raise ValueError(f"'{value}' must be hours on the 24-hour clock, {examples}")
    hours, minutes = (int(found[1]), int(found[3])), (int(found[2]), int(found[4]))
    opens, closes = (60 * hour + minute for hour, minute in zip(hours, minutes, strict=True))
    if max(minutes) > 59 or max(opens, closes) > DAY:
        raise ValueError(f"'{text}' has a time that does not exist; times go from 00:00 to 24:00")
    if opens == DAY:
        raise ValueError(f"'{text}' opens at 24:00; write it on the next day, where it opens at 00:00")
    if opens == closes:
        raise ValueError(f"'{text}' has no length; write '00:00-24:00' for the whole day, or 'closed'")
    if closes < opens:
        closes += DAY
        if closes > DAY and closes - opens > LONGEST_PAST_MIDNIGHT:
            hours_long = f"'{text}' closes on the next day, after more than {LONGEST_PAST_MIDNIGHT // 60} hours"
            raise ValueError(f"{hours_long}; 5 in the afternoon is 17:00, or divide the span at 24:00")
    return opens, closes


def _joined(spans: list[Span]) -> Spans:
    joined: list[Span] = []
    for opens, closes in spans:
        if joined and joined[-1][1] == opens:
            joined[-1] = (joined[-1][0], closes)
        else:
            joined.append((opens, closes))
    return tuple(joined)
