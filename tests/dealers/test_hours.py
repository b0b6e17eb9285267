"""How a day's hours are written in `dealer.toml`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dealer_agent.dealers.opening import DAY, SPANS_A_DAY, Spans, hours_text, read_hours

NINE_TO_EIGHT = ((540, 1200),)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("09:00-20:00", NINE_TO_EIGHT),
        ("9:00 - 20:00", NINE_TO_EIGHT),
        ("09:00\u201320:00", NINE_TO_EIGHT),
        ("00:00-23:59", ((0, 1439),)),
        ("closed", ()),
        (" Closed ", ()),
        # Several spans, in any order; those that touch are one.
        ("09:00-12:00, 13:00-18:00", ((540, 720), (780, 1080))),
        ("13:00-18:00,09:00-12:00", ((540, 720), (780, 1080))),
        ("09:00-12:00, 12:00-20:00", NINE_TO_EIGHT),
        ("00:00-01:00, 02:00-03:00, 04:00-05:00, 06:00-07:00", ((0, 60), (120, 180), (240, 300), (360, 420))),
        # To midnight and past it.
        ("18:00-24:00", ((1080, 1440),)),
        ("18:00-00:00", ((1080, 1440),)),
        ("06:00-00:00", ((360, 1440),)),
        ("18:00-02:00", ((1080, 1560),)),
        ("01:00-03:00, 18:00-02:00", ((60, 180), (1080, 1560))),
        ("10:00-02:00", ((600, 1560),)),
        ("00:00-24:00", ((0, 1440),)),
    ],
)
def test_hours_are_read_as_a_person_writes_them(written: str, expected: Spans) -> None:
    assert read_hours(written) == expected


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("", "'' must be hours on the 24-hour clock"),
        (
            "9-20",
            "must be hours on the 24-hour clock, such as '09:00-20:00' or '09:00-12:00, 13:00-18:00', or 'closed'",
        ),
        ("9am-8pm", "must be hours on the 24-hour clock"),
        ("09:00", "must be hours on the 24-hour clock"),
        ("shut", "must be hours on the 24-hour clock"),
        ("09:00-12:00, closed", "must be hours on the 24-hour clock"),
        ("09:00-12:00,", "must be hours on the 24-hour clock"),
        ("09:00-25:00", "'09:00-25:00' has a time that does not exist; times go from 00:00 to 24:00"),
        ("09:00-24:01", "has a time that does not exist"),
        ("09:60-10:00", "has a time that does not exist"),
        ("09:00-10:75", "has a time that does not exist"),
        ("24:00-02:00", "'24:00-02:00' opens at 24:00; write it on the next day, where it opens at 00:00"),
        ("09:00-09:00", "'09:00-09:00' has no length; write '00:00-24:00' for the whole day, or 'closed'"),
        ("00:00-00:00", "'00:00-00:00' has no length"),
        (
            "09:00-05:00",
            "'09:00-05:00' closes on the next day, after more than 16 hours; 5 in the afternoon is 17:00, ",
        ),
        ("09:00-12:00, 11:59-18:00", "'09:00-12:00' and '11:59-18:00' overlap; end the first before the second begins"),
        ("18:00-02:00, 20:00-21:00", "'18:00-02:00' and '20:00-21:00' overlap"),
        ("18:00-02:00, 23:00-01:00", "'18:00-02:00' and '23:00-01:00' overlap"),
        ("0:00-1:00, 2:00-3:00, 4:00-5:00, 6:00-7:00, 8:00-9:00", "has 5 spans; a day has at most 4"),
    ],
)
def test_hours_that_cannot_be_kept_are_refused(written: str, message: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the message is compared whole
        read_hours(written)
    assert message in str(refused.value)


@given(st.lists(st.integers(0, DAY), min_size=2, max_size=2 * SPANS_A_DAY, unique=True).map(sorted))
def test_what_is_written_of_hours_is_read_as_the_same_hours(minutes: list[int]) -> None:
    spans = tuple(zip(minutes[::2], minutes[1::2], strict=False))
    assert read_hours(hours_text(spans)) == spans
