"""Rate limits as `dealer.toml` has them. Pure."""

MOST_WINDOWS = 8
LONGEST_WINDOW = 2**32 - 1
"""Seconds."""
MOST_REQUESTS = 2**64 - 1


def windows_of(rate: str) -> list[tuple[int, int]]:
    """The limits of a rate as (requests, seconds), one for each length of window. Blank is no limit.

    Raises ValueError with a message for the dealer.
    """
    if not rate.strip():
        return []
    # Imported here: the library takes 0.05 s, and most files set no rate limit.
    from limits import parse_many

    try:
        limits = parse_many(rate)
    except ValueError:
        raise ValueError(f"'{rate}' is no rate limit; write it as '600/minute' or '10/minute; 100/day'") from None
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
