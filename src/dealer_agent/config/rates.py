"""The types of skills and of rate limits in settings. Pure."""

from typing import Annotated

from dealer_agent.dealers.profile_checks import read_by
from dealer_agent.protocol.did_you_mean import did_you_mean
from dealer_agent.protocol.skill import SKILL_BY_ID

MOST_WINDOWS = 8
LONGEST_WINDOW = 2**32 - 1
"""Seconds."""
MOST_REQUESTS = 2**64 - 1


def read_skill(value: str) -> str:
    """The id of a skill."""
    if value not in SKILL_BY_ID:
        known = list(SKILL_BY_ID)
        raise ValueError(f"'{value}' must be one of {', '.join(known)}" + did_you_mean(value, known))
    return value


def windows_of(rate: str) -> list[tuple[int, int]]:
    """The limits of a rate as (requests, seconds), one for each length of window. Blank means no limit.

    Raises ValueError with a message for the dealer.
    """
    if not rate.strip():
        return []
    # Imported here: the library takes 0.05 s, and most files set no rate limit.
    from limits import parse_many

    try:
        limits = parse_many(rate)
    except ValueError:
        raise ValueError(f"'{rate}' is not a rate limit; write it as '600/minute' or '10/minute; 100/day'") from None
    strictest: dict[int, int] = {}
    for limit in limits:
        window = limit.get_expiry()
        strictest[window] = min(limit.amount, strictest.get(window, limit.amount))
    if min(strictest.values()) < 1:
        raise ValueError(f"'{rate}' allows no request; to switch a skill off, name it in skills_off")
    if max(strictest) > LONGEST_WINDOW or max(strictest.values()) > MOST_REQUESTS:
        raise ValueError(f"'{rate}' has a number that is too large; limit at most 2^64 - 1 requests in 136 years")
    if len(strictest) > MOST_WINDOWS:
        raise ValueError(f"'{rate}' has more than {MOST_WINDOWS} limits with different times; leave some out")
    return [(amount, window) for window, amount in strictest.items()]


def read_rate(value: str) -> str:
    """A rate limit in the notation of the library `limits`, or several with `;` between them. Blank means no limit."""
    windows_of(value)
    return value


Skills = tuple[Annotated[str, read_by(read_skill)], ...]
Rate = Annotated[str, read_by(read_rate)]
