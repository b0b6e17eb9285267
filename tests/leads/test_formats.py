"""The formats that a lead's members must have (Contract 10)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dealer_agent.protocol.formats import FORMATS, normal_email, normal_phone


@pytest.mark.requirement("contract-10-phone")
@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("+12025550123", "+12025550123"),
        ("+1 (202) 555-0123", "+12025550123"),
        ("+1.202.555.0123", "+12025550123"),
        (" +1 202 555 0123 ", "+12025550123"),
        ("+44 20 7946 0018", "+442079460018"),
        ("2025550123", None),
        ("(202) 555-0123", None),
        ("0012025550123", None),
        ("+1 202 555", None),
        ("+1 202 555 0123 4567 8901", None),
        ("+999 202 555 0123", None),
        ("+", None),
        ("", None),
        ("call me", None),
        ("tel:+12025550123", None),
    ],
)
def test_a_phone_number_is_possible_has_a_plus_and_is_kept_as_e164(written: str, kept: str | None) -> None:
    assert normal_phone(written) == kept
    assert FORMATS["phone"](written) == (kept is not None)


@pytest.mark.requirement("contract-10-email")
@pytest.mark.parametrize(
    ("written", "compared"),
    [
        ("jordan@example.com", "jordan@example.com"),
        ("Jordan@EXAMPLE.com", "jordan@example.com"),
        ("jordan+cars@example.com", "jordan+cars@example.com"),
        ("jordan@no-such-domain-anywhere.example", "jordan@no-such-domain-anywhere.example"),
        ("jordan@store.test", "jordan@store.test"),
        ("jördan@example.com", "jördan@example.com"),
        ("jordan@localhost", None),
        ("jordan", None),
        ("jordan@", None),
        ("@example.com", None),
        ("jordan@example..com", None),
        ("jordan@exam ple.com", None),
        ("jordan@example.com, sam@example.com", None),
        ("Jordan <jordan@example.com>", None),
        ("jordan@example.com\n", None),
        ("", None),
    ],
)
def test_an_email_address_is_checked_by_its_syntax_alone(written: str, compared: str | None) -> None:
    assert normal_email(written) == compared
    assert FORMATS["email"](written) == (compared is not None)


@pytest.mark.requirement("contract-10-offsets", "spec-2.7-submitted-at")
@pytest.mark.parametrize(
    ("written", "with_offset", "local"),
    [
        ("2026-03-02T14:58:00Z", True, True),
        ("2026-03-02T14:58:00.123456+05:30", True, True),
        ("2026-03-02T14:58Z", True, True),
        ("2026-03-02t14:58:00z", True, True),
        ("2026-03-02T14:58:00", False, True),
        ("2026-03-02 14:58:00Z", False, False),
        ("2026-03-02", False, False),
        ("2026-02-30T14:58:00Z", False, False),
        ("2026-03-02T25:00:00Z", False, False),
        ("0001-01-01T00:00:00+14:00", False, False),
        ("9999-12-31T23:59:59-12:00", False, False),
        ("tomorrow at ten", False, False),
        ("", False, False),
    ],
)
def test_a_timestamp_has_date_time_and_offset_and_a_local_one_may_do_without_the_offset(
    written: str, with_offset: bool, local: bool
) -> None:
    assert FORMATS["date-time"](written) == with_offset
    assert FORMATS["date-time-local"](written) == local


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("America/Chicago", True),
        ("UTC", True),
        ("america/chicago", False),
        ("CST6", False),
        ("../UTC", False),
        ("", False),
    ],
)
def test_a_time_zone_is_a_name_of_the_iana_database(name: str, known: bool) -> None:
    assert FORMATS["timezone"](name) == known


@pytest.mark.parametrize("name", FORMATS)
@given(text=st.text(max_size=60))
def test_no_text_breaks_a_format(name: str, text: str) -> None:
    assert FORMATS[name](text) in (True, False)
