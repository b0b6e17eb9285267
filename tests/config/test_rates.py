"""Rate limits of `dealer.toml`: what is not a rate limit is refused before the service starts."""

import pytest

from dealer_agent.config.rates import MOST_REQUESTS, MOST_WINDOWS, windows_of


@pytest.mark.parametrize(
    ("rate", "windows"),
    [
        (" ", []),
        ("10/minute", [(10, 60)]),
        ("10/minute; 100/day", [(10, 60), (100, 86_400)]),
        ("10/minute; 5/60seconds", [(5, 60)]),
        (f"{MOST_REQUESTS}/136years", [(MOST_REQUESTS, 136 * 360 * 86_400)]),
    ],
)
def test_a_rate_has_one_window_for_each_length_of_time(rate: str, windows: list[tuple[int, int]]) -> None:
    assert windows_of(rate) == windows


@pytest.mark.parametrize(
    ("rate", "message"),
    [
        ("many", "is not a rate limit"),
        ("10", "is not a rate limit"),
        ("10/fortnight", "is not a rate limit"),
        ("-1/minute", "is not a rate limit"),
        ("10/minute;", "is not a rate limit"),
        ("10/minute; x", "is not a rate limit"),
        ("0/minute", "allows no request"),
        (f"{MOST_REQUESTS + 1}/minute", "too large"),
        ("1/2000years", "too large"),
        (";".join(f"9/{seconds}seconds" for seconds in range(1, MOST_WINDOWS + 2)), "more than 8 limits"),
    ],
)
def test_an_invalid_rate_is_refused_with_its_reason(rate: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        windows_of(rate)
