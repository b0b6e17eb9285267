"""The formats that a lead's members must have (docs/protocol.md#lead-submit)."""

from datetime import UTC

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dealer_agent.protocol.formats import FORMATS, normal_email, normal_phone
from dealer_agent.protocol.schemas import request_schema
from dealer_agent.protocol.skill import SKILLS
from dealer_agent.protocol.timestamps import parse_timestamp


@pytest.mark.requirement("phone", "deviation-identifiers")
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


@pytest.mark.requirement("email")
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


@pytest.mark.requirement("timestamp-offsets", "lead-submitted-at")
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
        ("0001-01-01T00:00:00+14:00", True, True),
        ("9999-12-31T23:59:59Z", True, True),
        ("9999-12-31T23:59:59-12:00", True, True),
        ("10000-01-01T00:00:00Z", False, False),
        ("2026-06-30T23:59:60Z", True, True),
        ("2026-06-30t23:59:60z", True, True),
        ("2026-06-30T23:59:60.25Z", True, True),
        ("2026-06-30T16:59:60-07:00", True, True),
        ("2026-07-01T05:29:60+05:30", True, True),
        ("20260630T235960Z", True, True),
        ("2026-06-30T23:59:60", False, True),
        ("2026-06-30T05:29:60", False, True),
        ("9999-12-31T23:59:60Z", True, True),
        ("2026-06-30T23:59:61Z", False, False),
        ("2026-06-30T23:58:60Z", False, False),
        ("2026-06-30T22:59:60Z", False, False),
        ("2026-06-30T23:59:60-07:00", False, False),
        ("2026-06-30T12:30:60", False, False),
        ("2026-06-30T23:60:00Z", False, False),
        ("tomorrow at ten", False, False),
        ("", False, False),
    ],
)
def test_a_timestamp_has_date_time_and_offset_and_a_local_one_may_do_without_the_offset(
    written: str, with_offset: bool, local: bool
) -> None:
    assert FORMATS["date-time"](written) == with_offset
    assert FORMATS["date-time-local"](written) == local


@pytest.mark.requirement("timestamp-any-year", "timestamp-leap-second")
@pytest.mark.parametrize(
    ("written", "utc"),
    [
        ("2026-06-30T16:59:60.7-07:00", "2026-06-30T23:59:59.999999+00:00"),
        ("2026-06-30T16:59:59.7-07:00", "2026-06-30T23:59:59.700000+00:00"),
        ("9999-12-31T23:59:60Z", "9999-12-31T23:59:59.999999+00:00"),
        ("9999-12-31T23:59:59-12:00", "9999-12-31T23:59:59.999999+00:00"),
        ("0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00+00:00"),
    ],
)
def test_a_moment_that_datetime_cannot_hold_is_the_nearest_one(written: str, utc: str) -> None:
    moment = parse_timestamp(written)
    assert moment is not None
    assert moment.astimezone(UTC).isoformat() == utc


@pytest.mark.requirement("timestamp-any-year", "timestamp-leap-second")
@pytest.mark.parametrize(
    "written", ["9999-12-31T23:59:59Z", "2026-06-30T23:59:60Z", "2026-06-30T16:59:60.25-07:00", "2026-06-30T23:59:61Z"]
)
def test_other_validators_of_the_published_schema_accept_the_same_moments(written: str) -> None:
    """An agent checks its request with the published schema, and does not have our functions for formats.

    Its validator knows the format `date-time` of RFC 3339. It must not refuse a leap second that we accept.
    """
    consent = {
        "granted_at": "2026-03-02T14:58:00Z",
        "allowed_channels": ["email"],
        "consent_text": "I agree.",
        "scope": ["lead_submission"],
        "expires_at": written,
    }
    lead = {
        "type": "lead.submit.request",
        "customer": {"first_name": "Jordan", "last_name": "Example", "email": "jordan@example.com"},
        "consent": consent,
        "source_agent": "Example Agent",
        "submitted_at": written,
        "appointment": {"appointment_type": "sales", "appointment_at": written},
    }
    schema = request_schema(next(skill for skill in SKILLS if skill.id == "lead.submit"))
    validator = jsonschema_rs.Draft202012Validator(schema, validate_formats=True)
    assert validator.is_valid(lead) == FORMATS["date-time"](written)


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
def test_a_format_accepts_or_rejects_any_text_without_an_exception(name: str, text: str) -> None:
    assert FORMATS[name](text) in (True, False)
