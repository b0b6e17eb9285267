"""The service keeps to its OpenAPI document, for valid and for invalid requests.

See docs/protocol.md#errors.
"""

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    status_code_conformance,
)
from tests.acceptance.running import Running
from tests.fuzz.judging import CheckRun
from tests.fuzz.sending import REQUESTS, Answer
from tests.soak import SOAK

HOT = dict.fromkeys(["sendMessage", "callSendMessage"], REQUESTS // 12 if SOAK else 6)
"""Requests for each operation and mode. The GET operations have few parameters, so a few requests are enough.

Schemathesis takes 30 ms of the processor to generate a body: the other tests of this folder send most of the requests.
"""
FEW = 3

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
]


@pytest.mark.requirement("same-error-body-everywhere")
@pytest.mark.requirement("error-code-is-status")
@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_every_operation_answers_as_documented(
    service: Running, judge: CheckRun, mode: GenerationMode, record_property: Any
) -> None:
    schema = schemathesis.openapi.from_url(f"{service.url}/openapi.json")
    sent = 0
    for result in schema.get_all_operations():
        assert isinstance(result, Ok), result.err()
        operation = result.ok()
        if mode is GenerationMode.NEGATIVE and not (operation.body or list(operation.iter_parameters())):
            continue  # A GET without parameters cannot be asked wrongly.
        name = operation.definition.raw["operationId"]

        @settings(
            max_examples=HOT.get(name, FEW),
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def conforms(case: Any) -> None:
            nonlocal sent
            response = case.call()
            sent += 1
            case.validate_response(response, checks=CHECKS)
            answer = Answer(response.status_code, {k: v[0] for k, v in response.headers.items()}, response.content)
            # Schemathesis converts `prefixItems` to the form of draft 7, and then reports an invalid schema.
            if answer.status != 304:
                judge.documented(case.path, case.method, answer)
            path = response.request.url.removeprefix(service.url)
            if answer.status >= 400 or case.method == "POST":
                judge.judge(answer, path, sent=len(response.request.body or b""))

        conforms()
    record_property("requests_sent", sent)
    assert sent >= sum(HOT.values())
    judge.unharmed()
