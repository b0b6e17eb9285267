"""The time zone of a rooftop is an area, so that its clock follows daylight saving (docs/protocol.md#rooftop)."""

from zoneinfo import ZoneInfo, available_timezones

import pytest

from dealer_agent.dealers.profile_checks import areas, read_time_zone
from dealer_agent.protocol.formats import is_timezone


def test_every_area_is_accepted_and_has_a_clock() -> None:
    assert len(areas()) > 400
    for area in areas():
        assert read_time_zone(area) == ZoneInfo(area).key == area


def test_every_other_name_of_the_database_is_refused() -> None:
    """Among them abbreviations, fixed offsets, and names of countries."""
    others = available_timezones() - set(areas())
    assert {"EST", "MST", "HST", "EST5EDT", "UTC", "GMT", "Etc/GMT+5", "US/Eastern", "Japan"} <= others
    for name in others:
        with pytest.raises(ValueError, match="is not an IANA area"):
            read_time_zone(name)
        assert is_timezone(name), "what a request may name is not narrowed"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("EST", "America/New_York (with daylight saving), America/Detroit (with daylight saving)"),
        ("edt", "America/New_York (with daylight saving)"),
        ("ET", "America/New_York (with daylight saving)"),
        ("EST5EDT", "America/New_York (with daylight saving)"),
        ("CST", "America/Chicago (with daylight saving)"),
        ("MST", "America/Boise (with daylight saving), America/Phoenix (without daylight saving)"),
        ("PST", "may mean America/Los_Angeles (with daylight saving)"),
        ("AKST", "America/Anchorage (with daylight saving)"),
        ("HST", "Pacific/Honolulu (without daylight saving)"),
        ("AST", "America/Puerto_Rico (without daylight saving)"),
        ("GMT", "Europe/London (with daylight saving)"),
        ("US/Eastern", "; write America/New_York"),
        ("Eastern Time", "; write America/New_York"),
        ("US/Arizona", "; write America/Phoenix"),
        ("America/Indianapolis", "; write America/Indiana/Indianapolis"),
        ("posix/America/Denver", "; write America/Denver"),
        ("right/America/Denver", "; write America/Denver"),
        ("UTC", "the area whose clocks the store shows"),
        ("Etc/GMT+5", "the area whose clocks the store shows"),
        ("America/Chicgo", "; did you mean America/Chicago?"),
        ("Mars/Olympus", "'Mars/Olympus' is not an IANA area"),
        ("", "'' is not an IANA area"),
    ],
)
def test_another_name_is_answered_with_the_area_to_write(name: str, says: str) -> None:
    with pytest.raises(ValueError, match="is not an IANA area") as refused:
        read_time_zone(name)
    assert says in str(refused.value)
