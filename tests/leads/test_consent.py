"""Consent to be contacted (docs/protocol.md#consent): two codes, and nothing about it ever answers 422."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from tests.leads.json_values import json_values

from dealer_agent.leads.consent import Grant, check_consent
from dealer_agent.protocol.errors import ContactConsentRequired, InvalidConsent, ProtocolError
from dealer_agent.protocol.requests import Customer

NOW = datetime(2026, 3, 2, 15, 0, tzinfo=UTC)
GOOD: dict[str, Any] = {
    "granted_at": "2026-03-02T14:58:00Z",
    "allowed_channels": ["email", "sms"],
    "consent_text": "I agree to be contacted about this vehicle.",
    "scope": ["lead_submission"],
}

REQUIRED, INVALID = ContactConsentRequired, InvalidConsent


def but(**members: Any) -> dict[str, Any]:
    """A good consent with other members; `...` leaves one out."""
    return {name: value for name, value in (GOOD | members).items() if value is not ...}


def person(preferred: Any = UNSET, points: str = "email phone") -> Customer:
    """A customer with these contact points."""
    all_points = {"email": "jordan@example.com", "phone": "+12025550123"}
    given: dict[str, Any] = {name: all_points[name] for name in points.split()}
    return Customer("Jordan", "Example", preferred_contact=preferred, **given)


def refused(consent: Any, preferred: Any = UNSET, points: str = "email phone") -> ProtocolError:
    with pytest.raises(ProtocolError) as caught:
        check_consent(consent, person(preferred, points), NOW)
    return caught.value


def seconds_from_now(seconds: float) -> str:
    return (NOW + timedelta(seconds=seconds)).isoformat()


@pytest.mark.requirement(
    "error-contact-consent-required",
    "consent-absent",
    "consent-scope",
    "consent-preferred-channel",
)
@pytest.mark.parametrize(
    ("consent", "preferred", "pointer"),
    [
        pytest.param(UNSET, UNSET, "/consent", id="no consent"),
        pytest.param(UNSET, "email", "/consent", id="no consent, and a preferred channel"),
        pytest.param(but(scope=...), UNSET, "/consent/scope", id="no scope"),
        pytest.param(but(scope=[]), UNSET, "/consent/scope", id="empty scope"),
        pytest.param(but(scope=["marketing"]), UNSET, "/consent/scope", id="another scope"),
        pytest.param(but(scope=["lead_submission "]), UNSET, "/consent/scope", id="a scope that only looks like it"),
        pytest.param(but(scope=["Lead_Submission"]), UNSET, "/consent/scope", id="a scope in other case"),
        pytest.param(but(scope=[7, None]), UNSET, "/consent/scope", id="a scope of no strings lacks it too"),
        pytest.param(GOOD, "phone", "/consent/allowed_channels", id="the preferred channel is not allowed"),
        pytest.param(but(allowed_channels=[]), "email", "/consent/allowed_channels", id="no channel is allowed"),
        pytest.param(but(allowed_channels=...), "sms", "/consent/allowed_channels", id="channels are not named"),
        pytest.param(but(allowed_channels=["fax"]), "sms", "/consent/allowed_channels", id="an unknown one is allowed"),
        pytest.param(but(allowed_channels=[["sms"]]), "sms", "/consent/allowed_channels", id="channels of wrong type"),
    ],
)
def test_insufficient_consent_asks_for_consent(consent: Any, preferred: Any, pointer: str) -> None:
    error = refused(consent, preferred)
    assert type(error) is REQUIRED
    assert (error.http, error.details["instancePath"], error.details["in"]) == (403, pointer, "payload")
    assert all(one["instancePath"].startswith("/consent") for one in error.details["errors"])
    first = error.details["errors"][0]
    missing = consent is UNSET or pointer.removeprefix("/consent/") not in consent
    assert (first["instancePath"], first["keyword"]) == (pointer, "required" if missing else "contains")


@pytest.mark.requirement(
    "error-invalid-consent",
    "consent-members-required",
    "consent-channels",
    "consent-defects",
    "consent-future",
    "consent-expired",
)
@pytest.mark.parametrize(
    ("consent", "pointer", "keyword"),
    [
        (None, "/consent", "type"),
        (True, "/consent", "type"),
        ("I agree", "/consent", "type"),
        ([GOOD], "/consent", "type"),
        (but(granted_at=...), "/consent/granted_at", "required"),
        (but(granted_at=1772463480), "/consent/granted_at", "type"),
        (but(granted_at="2026-03-02"), "/consent/granted_at", "format"),
        (but(granted_at="2026-03-02T14:58:00"), "/consent/granted_at", "format"),
        (but(granted_at="yesterday"), "/consent/granted_at", "format"),
        (but(granted_at=seconds_from_now(301)), "/consent/granted_at", "formatMaximum"),
        (but(allowed_channels=...), "/consent/allowed_channels", "required"),
        (but(allowed_channels=None), "/consent/allowed_channels", "type"),
        (but(allowed_channels="email"), "/consent/allowed_channels", "type"),
        (but(allowed_channels=[]), "/consent/allowed_channels", "minItems"),
        (but(allowed_channels=["email", "fax"]), "/consent/allowed_channels/1", "enum"),
        (but(allowed_channels=["any"]), "/consent/allowed_channels/0", "enum"),
        (but(consent_text=...), "/consent/consent_text", "required"),
        (but(consent_text=""), "/consent/consent_text", "minLength"),
        (but(consent_text=" \n\t"), "/consent/consent_text", "minLength"),
        (but(consent_text=["yes"]), "/consent/consent_text", "type"),
        (but(scope="lead_submission"), "/consent/scope", "type"),
        (but(scope=None), "/consent/scope", "type"),
        (but(scope={"lead_submission": True}), "/consent/scope", "type"),
        (but(scope=["lead_submission", 7]), "/consent/scope/1", "type"),
        (but(source_agent=7), "/consent/source_agent", "type"),
        (but(source_agent=None), "/consent/source_agent", "type"),
        (but(expires_at=None), "/consent/expires_at", "type"),
        (but(expires_at="never"), "/consent/expires_at", "format"),
        (but(expires_at=seconds_from_now(0)), "/consent/expires_at", "formatMinimum"),
        (but(expires_at=seconds_from_now(-86400)), "/consent/expires_at", "formatMinimum"),
        (but(marketing=True), "/consent/marketing", "additionalProperties"),
    ],
)
def test_any_other_defect_is_an_invalid_consent(consent: Any, pointer: str, keyword: str) -> None:
    error = refused(consent)
    assert type(error) is INVALID
    assert error.http == 403
    assert [(one["instancePath"], one["keyword"]) for one in error.details["errors"]] == [(pointer, keyword)]


@pytest.mark.requirement("consent-members", "consent-members-required", "consent-channels")
@pytest.mark.parametrize(
    ("consent", "preferred"),
    [
        (GOOD, UNSET),
        (GOOD, "email"),
        (GOOD, "sms"),
        (GOOD, "any"),
        (but(allowed_channels=["phone"]), "phone"),
        (but(allowed_channels=["phone"]), "any"),
        (but(allowed_channels=["phone", "phone"]), UNSET),
        (but(scope=["marketing", "lead_submission"]), UNSET),
        (but(granted_at="2026-03-02T10:00:00-05:00"), UNSET),
        (but(granted_at="2019-01-01T00:00:00Z"), UNSET),
        (but(granted_at=seconds_from_now(300)), UNSET),
        (but(expires_at=seconds_from_now(1)), UNSET),
        (but(source_agent="Example Agent"), UNSET),
        (but(source_agent=""), UNSET),
    ],
)
def test_a_good_consent_is_granted(consent: Any, preferred: Any) -> None:
    assert isinstance(check_consent(consent, person(preferred), NOW), Grant)


@pytest.mark.requirement("consent-reachable")
@pytest.mark.parametrize(
    ("channels", "points", "reached"),
    [
        (["email"], "email", True),
        (["email"], "phone", False),
        (["phone"], "email", False),
        (["sms"], "email", False),
        (["phone"], "phone", True),
        (["sms"], "phone", True),
        (["phone", "sms"], "email", False),
        (["phone", "sms", "email"], "email", True),
        (["email"], "email phone", True),
    ],
)
@pytest.mark.parametrize("defect", [{}, {"granted_at": None}])
def test_a_consent_whose_channels_do_not_reach_the_customer_is_rejected(
    channels: list[str], points: str, reached: bool, defect: dict[str, Any]
) -> None:
    consent = but(allowed_channels=channels, **defect)
    if not reached:
        error = refused(consent, points=points)
        assert (type(error), error.details["instancePath"]) == (REQUIRED, "/consent/allowed_channels")
        assert error.details["errors"][0]["keyword"] == "contains"
        assert "customer.email" in error.details["errors"][0]["message"]
    elif defect:
        assert type(refused(consent, points=points)) is INVALID
    else:
        assert isinstance(check_consent(consent, person(points=points), NOW), Grant)


@pytest.mark.requirement("consent-reachable")
def test_a_preferred_channel_that_is_not_allowed_is_reported_once() -> None:
    error = refused(but(allowed_channels=["email"]), "phone", "phone")
    assert [one["instancePath"] for one in error.details["errors"]] == ["/consent/allowed_channels"]
    assert "preferred" in error.message


@pytest.mark.requirement("timestamp-any-year", "timestamp-leap-second")
@pytest.mark.parametrize("never", ["9999-12-31T23:59:59Z", "9999-12-31T23:59:60Z", "9999-12-31T23:59:59-12:00"])
def test_a_consent_may_last_until_the_last_year(never: str) -> None:
    expires_at = check_consent(but(expires_at=never), person(), NOW).expires_at
    assert expires_at is not None
    assert expires_at.astimezone(UTC).isoformat().startswith("9999-12-31T23:59:59")


@pytest.mark.requirement("consent-members")
def test_a_grant_holds_all_that_was_agreed_to() -> None:
    expiry = seconds_from_now(3600)
    scope = ["lead_submission", "marketing"]
    consent = but(source_agent="Example Agent", expires_at=expiry, scope=scope, granted_at="2026-03-02T09:58:00-05:00")
    assert check_consent(consent, person("sms"), NOW) == Grant(
        granted_at=datetime(2026, 3, 2, 9, 58, tzinfo=timezone(-timedelta(hours=5))),
        channels=("email", "sms"),
        scope=("lead_submission", "marketing"),
        text="I agree to be contacted about this vehicle.",
        source_agent="Example Agent",
        expires_at=NOW + timedelta(hours=1),
    )
    assert check_consent(GOOD, person(), NOW).source_agent is None
    assert check_consent(GOOD, person(), NOW).expires_at is None


@pytest.mark.requirement("consent-scope", "deviation-scope", "consent-preferred-channel")
@pytest.mark.parametrize(
    "defect", [{"consent_text": ""}, {"granted_at": None}, {"extra": 1}, {"expires_at": NOW.isoformat()}]
)
@pytest.mark.parametrize(
    ("lack", "preferred"), [({"scope": ...}, UNSET), ({"scope": ["other"]}, UNSET), ({"allowed_channels": []}, "email")]
)
def test_what_was_not_agreed_to_outweighs_what_is_malformed(defect: Any, lack: Any, preferred: Any) -> None:
    assert type(refused(but(**defect, **lack), preferred)) is REQUIRED


@pytest.mark.requirement("consent-defects")
def test_all_defects_of_a_consent_are_reported_at_once_and_sorted() -> None:
    consent = {"granted_at": seconds_from_now(900), "expires_at": NOW.isoformat(), "consent_text": " ", "scope": ["x"]}
    error = refused(consent | {"note": 1}, "sms")
    assert [(one["instancePath"], one["keyword"]) for one in error.details["errors"]] == [
        ("/consent/allowed_channels", "required"),
        ("/consent/consent_text", "minLength"),
        ("/consent/expires_at", "formatMinimum"),
        ("/consent/granted_at", "formatMaximum"),
        ("/consent/note", "additionalProperties"),
        ("/consent/scope", "contains"),
    ]


@pytest.mark.parametrize(
    ("consent", "words"),
    [
        (UNSET, "/consent: is required: a lead needs the customer's consent"),
        (but(scope=...), "/consent/scope: is required and must hold lead_submission"),
        (but(scope=[]), "/consent/scope: must hold lead_submission"),
        (
            but(allowed_channels=...),
            "/consent/allowed_channels: is required and must hold the preferred channel, email",
        ),
        (but(allowed_channels=["sms"]), "/consent/allowed_channels: must hold the preferred channel, email"),
        (but(consent_text=" "), "/consent/consent_text: must not be empty"),
        (but(consent_text=7), "/consent/consent_text: must be a string"),
        (but(granted_at=seconds_from_now(301)), "/consent/granted_at: lies in the future"),
        (but(expires_at=seconds_from_now(0)), "/consent/expires_at: has passed: the consent is expired"),
    ],
)
def test_a_refusal_says_what_is_wrong_in_plain_words(consent: Any, words: str) -> None:
    error = refused(consent, "email")
    assert error.message == words
    assert words.endswith(error.details["errors"][0]["message"])


def test_a_refusal_repeats_nothing_of_the_consent() -> None:
    """Personal data is not echoed (docs/protocol.md#consent)."""
    secret = "SECRET-555-0123"
    for consent in (secret, but(scope=[secret]), but(consent_text=[secret]), but(granted_at=secret), but(x=secret)):
        error = refused(consent)
        assert secret not in error.message + json.dumps(error.details)


consent_members = st.fixed_dictionaries(
    {},
    optional={
        name: st.one_of(json_values, st.just(GOOD.get(name, seconds_from_now(60))))
        for name in (*GOOD, "source_agent", "expires_at", "other")
    },
)


@pytest.mark.requirement("consent-never-422")
@given(
    consent=st.one_of(json_values, consent_members),
    preferred=st.sampled_from([UNSET, "email", "phone", "sms", "any"]),
)
def test_any_json_is_a_grant_or_one_of_the_two_codes(consent: Any, preferred: Any) -> None:
    verdict = judged(consent, preferred)
    if isinstance(verdict, Grant):
        assert "lead_submission" in verdict.scope
        assert preferred in (UNSET, "any", *verdict.channels)
    else:
        assert verdict.details["errors"]
        msgspec.json.encode(verdict.details)
    if preferred is UNSET:
        lacks_scope = isinstance(consent, dict) and (
            "scope" not in consent or (isinstance(consent["scope"], list) and "lead_submission" not in consent["scope"])
        )
        assert isinstance(verdict, ContactConsentRequired) == lacks_scope


def judged(consent: Any, preferred: Any) -> Grant | ContactConsentRequired | InvalidConsent:
    try:
        return check_consent(consent, person(preferred), NOW)
    except (ContactConsentRequired, InvalidConsent) as error:
        return error
