"""The client against the real demo: every skill, both bindings, both cards. And all code of the documentation runs."""

import ast
import asyncio
import inspect
import re
import types
from contextlib import chdir
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.acceptance.conftest import Guarded
from tests.acceptance.running import command_here
from tests.client.dealers import CONSENT, CUSTOMER

from dealer_agent.client import DealerAgent, errors
from dealer_agent.client.card import PREFERRED, Binding
from dealer_agent.protocol.requests import Sort
from dealer_agent.protocol.skill import SKILLS

pytestmark = pytest.mark.outside_protocol("the client library")

ROOT = Path(__file__).parents[2]
DEMO_URL = "http://127.0.0.1:8080"
OFFERS_URL = "https://dealer.example"


@pytest.mark.parametrize("binding", PREFERRED)
@pytest.mark.parametrize("place", ["", "/cards/0.1.0.json"])
def test_the_client_can_use_all_skills_of_the_demo_dealer(demo: str, place: str, binding: Binding) -> None:
    async def sample_dealer() -> None:
        async with DealerAgent.discover(f"{demo}{place}", binding=binding) as agent:
            assert {skill.id for skill in SKILLS} <= agent.card.skills
            facets = await agent.facets(make=["Honda"])
            page = await agent.search(make=["Honda"], sort="-price", limit=5)
            assert page.total == (facets.makes or [])[0].count
            prices = [vehicle.price or 0 for vehicle in page.vehicles]
            assert prices == sorted(prices, reverse=True)
            assert (page.skip, page.limit, len(page.vehicles)) == (0, 5, 5)
            assert await agent.search(make=["Honda"], sort=Sort("price", "desc"), limit=5) == page
            every = [vehicle async for vehicle in agent.search_all(page_size=60)]
            assert len({vehicle.vehicle_id for vehicle in every}) == len(every) == (await agent.search()).total
            detail = await agent.vehicle(vin=page.vehicles[0].vin, zip="37201")
            assert (detail.vehicle_id, detail.zip) == (page.vehicles[0].vehicle_id, "37201")
            rooftops = {rooftop.name for rooftop in (await agent.information()).rooftops}
            assert {vehicle.rooftop for vehicle in every} == rooftops

    asyncio.run(sample_dealer())


def test_a_lead_with_a_visit_is_stored_once_for_its_key(demo: str) -> None:
    lead: dict[str, Any] = {
        "customer": CUSTOMER,
        "consent": CONSENT | {"granted_at": datetime.now(UTC).isoformat()},
        "source_agent": {"name": "Test Agent", "url": "https://agent.example"},
        "appointment": {"appointment_type": "test_drive", "appointment_at": "2020-01-06T15:00:00Z"},
    }

    async def submit() -> None:
        async with DealerAgent.discover(demo) as agent:
            first = await agent.submit_lead(**lead)
            assert (first.status, first.appointment.status) == ("received", "proposed")  # type: ignore[union-attr]
            assert first.message
            assert await agent.submit_lead(**lead, idempotency_key=first.idempotency_key) == first
            with pytest.raises(errors.IdempotencyConflict) as caught:
                await agent.submit_lead(**lead, message="Another", idempotency_key=first.idempotency_key)
            assert caught.value.idempotency_key == first.idempotency_key
            with pytest.raises(errors.ContactConsentRequired):
                await agent.submit_lead(**lead | {"consent": lead["consent"] | {"scope": ["marketing"]}})

    asyncio.run(submit())


def test_all_problems_of_a_request_come_at_once(demo: str) -> None:
    async def ask() -> errors.Refused:
        async with DealerAgent.discover(demo) as agent:
            with pytest.raises(errors.SchemaValidationFailed) as caught:
                await agent.search(limit=0, skip=-1)
        return caught.value

    error = asyncio.run(ask())
    assert [problem.pointer for problem in error.problems] == ["/pagination/limit", "/pagination/skip"]
    assert error.error_id
    assert not error.retryable


@pytest.mark.parametrize(
    ("page", "backend"),
    [("client-library.md", "asyncio"), ("client-library.md", "trio"), ("buyer-agent.md", "asyncio")],
)
def test_the_code_of_a_guide_runs_as_it_is_written(
    demo: str,
    offering: Guarded,
    page: str,
    backend: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """All blocks of a page in their order, as in `python -m asyncio`. The demo makes no offers: another dealer does."""
    monkeypatch.setenv("DEALER_AGENT_TOKEN", offering.token)
    assert command_here("keys", "directory", "--new", tmp_path / "agent.pem").returncode == 0
    text = (ROOT / "docs" / "how-to" / page).read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert blocks

    async def run() -> None:
        names: dict[str, Any] = {}
        for block in blocks:
            source = block.replace(DEMO_URL, demo).replace(OFFERS_URL, offering.url)
            code = compile(source, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            result = types.FunctionType(code, names)()
            if inspect.isawaitable(result):
                await result

    with chdir(tmp_path):
        anyio.run(run, backend=backend)
    assert "Honda" in capsys.readouterr().out
