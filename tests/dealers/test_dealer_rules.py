"""What the values of a dealer's profile must look like (docs/protocol.md#dealer-information)."""

from collections.abc import Callable
from typing import Any

import pytest

from dealer_agent.dealers import profile_checks
from dealer_agent.protocol.problems import Path


@pytest.mark.parametrize(
    ("reader", "written", "expected"),
    [
        (profile_checks.read_phone, "(202) 555-0123", "+12025550123"),
        (profile_checks.read_phone, "+1 202 555 0123", "+12025550123"),
        (profile_checks.read_email, "sales@example.com", "sales@example.com"),
        (profile_checks.read_time_zone, "America/Chicago", "America/Chicago"),
        (profile_checks.read_web_address, "https://www.example.com:8443/a?b=c", "https://www.example.com:8443/a?b=c"),
        (profile_checks.read_country, "CA", "CA"),
        (profile_checks.read_zip_prefix, "372", "372"),
        (profile_checks.read_slug, "main-street-2", "main-street-2"),
        (profile_checks.read_text, "Acme", "Acme"),
    ],
)
def test_a_sound_value_is_given_back_in_its_proper_form(
    reader: Callable[[str], object], written: str, expected: str
) -> None:
    assert reader(written) == expected


@pytest.mark.parametrize(
    ("reader", "written"),
    [
        (profile_checks.read_phone, "call us"),
        (profile_checks.read_phone, "555"),
        (profile_checks.read_phone, "+1 202 555 0123 0123 0123"),
        (profile_checks.read_email, "sales at example.com"),
        (profile_checks.read_email, "sales@"),
        (profile_checks.read_time_zone, "America/Chicgo"),
        (profile_checks.read_time_zone, "../etc/passwd"),
        (profile_checks.read_time_zone, ""),
        (profile_checks.read_web_address, "www.example.com"),
        (profile_checks.read_web_address, "ftp://example.com"),
        (profile_checks.read_web_address, "javascript:alert(1)"),
        (profile_checks.read_web_address, "https://"),
        (profile_checks.read_web_address, "https://exa mple.com"),
        (profile_checks.read_web_address, "https://example.com:x"),
        (profile_checks.read_country, "USA"),
        (profile_checks.read_country, "us"),
        (profile_checks.read_zip_prefix, "372031"),
        (profile_checks.read_zip_prefix, ""),
        (profile_checks.read_zip_prefix, "37x"),
        (profile_checks.read_slug, "Main Street"),
        (profile_checks.read_slug, "-a"),
        (profile_checks.read_slug, "a" * 64),
        (profile_checks.read_slug, "acme\n"),
        (profile_checks.read_date, "2026-02-30"),
        (profile_checks.read_date, "1999-12-31"),
        (profile_checks.read_date, "9999-12-31"),
        (profile_checks.read_text, " "),
    ],
)
def test_a_malformed_value_of_the_dealer_profile_is_refused_with_the_reason(
    reader: Callable[[str], object], written: str
) -> None:
    with pytest.raises(ValueError, match=r"is empty|must be|is no |is not an? "):
        reader(written)


def test_a_misspelled_time_zone_is_told_the_nearest_one() -> None:
    with pytest.raises(ValueError, match=r"did you mean America/Chicago\?$"):
        profile_checks.read_time_zone("America/Chicgo")


@pytest.mark.parametrize(
    ("rooftops", "paths"),
    [
        ([{"name": "North"}, {"name": "South"}], []),
        ([{"name": "North"}, {"name": "NORTH"}], [(1, "name")]),
        ([{"name": "North", "feed_ids": ["1", "North"]}, {"name": "South", "feed_ids": ["2"]}], []),
        ([{"name": "North", "feed_ids": ["a"]}, {"name": "South", "feed_ids": ["b", "A"]}], [(1, "feed_ids", 1)]),
        ([{"name": "North", "feed_ids": ["south"]}, {"name": "South"}], [(0, "feed_ids", 0)]),
        ([{"name": 3}, "South", {"feed_ids": 7}], []),
    ],
)
def test_no_two_rooftops_share_a_name_or_a_feed_id(rooftops: list[Any], paths: list[Path]) -> None:
    assert [defect.path for defect in profile_checks.rooftop_names_are_unique(rooftops)] == paths


@pytest.mark.parametrize(
    ("address", "sound"),
    [
        ({"zip": "37203"}, True),
        ({"zip": "37203-1234"}, True),
        ({"zip": "3720"}, False),
        ({"zip": "37203\n"}, False),
        ({"zip": "M4B 1B3"}, False),
        ({"zip": "M4B 1B3", "country": "US"}, False),
        ({"zip": "M4B 1B3", "country": "CA"}, True),
        ({}, True),
    ],
)
def test_a_zip_code_has_its_countrys_form(address: dict[str, str], sound: bool) -> None:
    assert [defect.path for defect in profile_checks.zip_fits_country(address)] == ([] if sound else [("zip",)])
