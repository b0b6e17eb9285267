"""Random requests to each published version: every response is valid by the schemas that this version publishes.

150 requests of each version in every run. With `SOAK=1`, as many as `SOAK_INPUTS` says, at most 100,000. A failure
names the seed and the number of the request.
"""

import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
from tests.protocol.bodies import STEMS
from tests.published_versions.conftest import open_published
from tests.published_versions.generating import Made, make
from tests.published_versions.schemas import defects, needs_schemas, schemas
from tests.published_versions.talking import VERSIONS, check_form, error_payload
from tests.server.dealership import NO_LIMITS, run_dealership
from tests.soak import SOAK, soak_count, soak_seed

MOST = 100_000
REQUESTS = min(soak_count("SOAK_INPUTS", MOST), MOST) if SOAK else 150
SEED = soak_seed()
"""Every long run has new requests. A short run always has the same."""
QUIET = '\n[logs]\nlevel = "error"\naccess = false\n'

pytestmark = needs_schemas


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.requirement("version-replies", "version-requests", "version-errors", "version-next-errors")
def test_every_reply_to_a_random_request_is_valid(version: str, tmp_path: Path, record_property: Any) -> None:
    folder, started = tmp_path / "dealer", time.monotonic()
    open_published(folder, NO_LIMITS + QUIET)
    outcomes: Counter[str] = Counter()
    with run_dealership(folder) as opened:

        async def send_all() -> None:
            for number in range(REQUESTS):
                made = make(Random(f"{SEED}/{version}/{number}"), version)
                answer = await answer_of(opened.app, version, made)
                try:
                    outcomes[judged(version, made, answer)] += 1
                except Exception as defect:
                    shown = f"{made}\n{answer.status_code} {answer.text[:3000]}"
                    raise AssertionError(f"request {number} of seed {SEED}: {defect!r}\n{shown}") from defect

        opened.portal.call(send_all)
    record_property("figure", f"{REQUESTS:,} requests to {version}, seed {SEED}, {time.monotonic() - started:.0f} s")
    record_property("figure", f"  {dict(outcomes.most_common())}")
    assert outcomes["accepted"] > REQUESTS / 5
    assert outcomes["SCHEMA_VALIDATION_FAILED"] > REQUESTS / 20


async def answer_of(app: Any, version: str, made: Made) -> httpx.Response:
    """The response of the application to one request."""
    sent: dict[str, Any] = {"headers": []}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": made.content, "more_body": False}

    async def send(event: dict[str, Any]) -> None:
        sent.update(event)

    headers = [(b"host", b"agent.test"), *((name.encode(), value.encode()) for name, value in made.headers.items())]
    path = f"/aap/{version}/{made.interface}"
    client = ("198.51.100.7", 40_000)
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers, "client": client}
    await app(scope, receive, send)
    return httpx.Response(sent["status"], headers=sent["headers"], content=sent["body"])


def judged(version: str, made: Made, answer: httpx.Response) -> str:
    """The outcome of a request: `accepted`, or the code of its error. Fails if the version forbids the response."""
    check_form(version, made.interface, answer)
    if answer.status_code == 401:
        return "401"
    if "error" in answer.json():
        code: str = error_payload(answer).get("code") or answer.json()["error"]["data"][0]["reason"]
        assert code != "INTERNAL_ERROR"
        return code
    _check_that_the_schema_accepts(version, made.payload)
    return "accepted"


def _check_that_the_schema_accepts(version: str, payload: Any) -> None:
    """A payload that the published schema refuses is never accepted."""
    stem = STEMS[payload["type"].removesuffix(".request")]
    found = defects(version, f"{stem}-request", payload)
    assert not found, f"accepted, but {found}"


@pytest.mark.requirement("version-replies")
def test_the_schemas_of_all_versions_are_there() -> None:
    assert all(len(schemas(version)) >= 18 for version in VERSIONS)
