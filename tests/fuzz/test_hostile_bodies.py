"""Every body gets a response or the error envelope, never a 500 (docs/protocol.md#errors)."""

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from tests.acceptance.running import Running
from tests.fuzz.hostile import TARGETS, hostile_requests, valid_body, wrong_at_every_path
from tests.fuzz.judging import CheckRun
from tests.fuzz.sending import REQUESTS, post
from tests.protocol.bodies import STEMS
from tests.soak import SOAK

SHARE = REQUESTS // 2 if SOAK else 100


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("skill", STEMS)
def test_the_hostile_requests_are_answered_before_they_are_broken(
    service: Running, judge: CheckRun, skill: str, target: str
) -> None:
    whole = valid_body(skill, target)
    answer = post(service.port, target, whole)
    judge.judge(answer, target, sent=len(whole))
    if skill != "inventory.vehicle":
        assert answer.status == 200, answer.body
        assert b'"error"' not in answer.body[:60]


@pytest.mark.requirement("nothing-internal-leaves")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("skill", STEMS)
def test_a_wrong_value_at_any_path_gets_a_valid_reply_or_a_complete_error(
    service: Running, judge: CheckRun, skill: str, target: str, record_property: Any
) -> None:
    sent = 0
    for path, body in wrong_at_every_path(skill, target):
        answer = post(service.port, target, body)
        sent += 1
        try:
            judge.judge(answer, target, sent=len(body))
        except AssertionError as failure:
            raise AssertionError(f"at {path}: {body[:200]!r}") from failure
    record_property("requests_sent", sent)
    assert sent > 30
    judge.unharmed()


@pytest.mark.requirement("not-json")
@pytest.mark.requirement("error-body-members")
@pytest.mark.requirement("error-payload-fields")
@pytest.mark.requirement("nothing-internal-leaves")
@pytest.mark.requirement("failure-is-not-2xx")
@pytest.mark.requirement("error-details")
@pytest.mark.requirement("error-code-is-status")
@pytest.mark.requirement("error-payload-whole")
def test_a_broken_body_gets_a_valid_reply_or_a_complete_error(
    service: Running, judge: CheckRun, record_property: Any
) -> None:
    sent = 0

    @settings(
        max_examples=SHARE,
        deadline=None,
        phases=[Phase.reuse, Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(hostile=hostile_requests())
    def answered(hostile: tuple[str, bytes]) -> None:
        nonlocal sent
        target, body = hostile
        sent += 1
        judge.judge(post(service.port, target, body), target, sent=len(body))

    answered()
    record_property("requests_sent", sent)
    assert sent >= SHARE
    judge.unharmed()
