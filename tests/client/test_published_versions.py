"""The client and every published version of the public protocol, each through its own card of one service."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.client.dealers import CONSENT, CUSTOMER
from tests.published_versions.conftest import published
from tests.server.dealership import Dealership

from dealer_agent.client import DealerAgent, SubmittedLead, errors
from dealer_agent.client.card import PREFERRED, Binding
from dealer_agent.protocol.published_versions import PUBLISHED_VERSIONS, VersionName

__all__ = ["published"]  # a fixture

pytestmark = pytest.mark.outside_protocol("the client library")

Use = Callable[[DealerAgent], Awaitable[Any]]

INTERFACES: list[tuple[VersionName, Binding]] = [
    (name, binding)
    for name, version in PUBLISHED_VERSIONS.items()
    for binding in (PREFERRED if version.has_http_json else PREFERRED[:1])
]
each_interface = pytest.mark.parametrize(("version", "binding"), INTERFACES)


def use(dealership: Dealership, version: VersionName, binding: Binding, use_agent: Use) -> Any:
    """What a function returns for the agent of a version, in the same process."""

    async def run() -> Any:
        url = f"http://agent.test{PUBLISHED_VERSIONS[version].path}"
        async with DealerAgent.discover(url, app=dealership.app, binding=binding) as agent:
            return await use_agent(agent)

    return dealership.portal.call(run)


@each_interface
def test_the_card_of_a_version_is_understood(published: Dealership, version: VersionName, binding: Binding) -> None:
    async def look(agent: DealerAgent) -> None:
        row = PUBLISHED_VERSIONS[version]
        assert (agent.card.extension, agent.card.vendor, agent.card.binding) == (
            row.extension_uri,
            "autoagent",
            binding,
        )
        assert agent.card.revision == (None if version == "next" else tuple(map(int, version.split("."))))
        assert agent.card.source_agent_is_object is not row.agent_is_text

    use(published, version, binding, look)


@each_interface
def test_the_client_reads_a_dealer_that_speaks_a_published_version(
    published: Dealership, version: VersionName, binding: Binding
) -> None:
    async def sample_dealer(agent: DealerAgent) -> None:
        every = [vehicle async for vehicle in agent.search_all(sort="price")]
        assert len(every) == (await agent.search(limit=1)).total > 100
        detail = await agent.vehicle(vehicle_id=every[0].vehicle_id)
        assert detail.price == every[0].price
        facets = await agent.facets(make=["Honda"])
        assert (facets.makes or [])[0].count == 1
        assert len((await agent.information()).rooftops) == 2

    use(published, version, binding, sample_dealer)


@each_interface
@pytest.mark.parametrize("agent_name", ["Test Agent", {"name": "Test Agent", "url": "https://agent.example"}])
def test_a_lead_has_the_form_of_the_version(
    published: Dealership, version: VersionName, binding: Binding, agent_name: Any
) -> None:
    async def submit(agent: DealerAgent) -> SubmittedLead:
        consent = CONSENT | {"granted_at": datetime.now(UTC).isoformat()}
        return await agent.submit_lead(customer=CUSTOMER, consent=consent, source_agent=agent_name)

    receipt = use(published, version, binding, submit)
    assert receipt.status in ("received", "duplicate")
    assert receipt.message


@each_interface
def test_errors_have_their_class_and_all_problems(
    published: Dealership, version: VersionName, binding: Binding
) -> None:
    async def fail(agent: DealerAgent) -> None:
        with pytest.raises(errors.VehicleNotFound):
            await agent.vehicle(vin="1HGCM82633A004352")
        with pytest.raises(errors.SchemaValidationFailed) as caught:
            await agent.search(limit=0, skip=-1)
        assert [problem.pointer for problem in caught.value.problems] == ["/pagination/limit", "/pagination/skip"]
        assert all(problem.message for problem in caught.value.problems)
        assert caught.value.error_id
        with pytest.raises(errors.InvalidConsent) as invalid:
            await agent.submit_lead(
                customer=CUSTOMER, consent=CONSENT | {"granted_at": "2999-01-01T00:00:00Z"}, source_agent="Me"
            )
        assert invalid.value.idempotency_key

    use(published, version, binding, fail)


@each_interface
def test_a_wrong_token_is_refused_in_every_version(
    published: Dealership, version: VersionName, binding: Binding
) -> None:
    async def ask() -> None:
        url = f"http://agent.test{PUBLISHED_VERSIONS[version].path}"
        async with DealerAgent.discover(url, app=published.app, binding=binding, token="wrong") as agent:
            with pytest.raises(errors.AuthRequired):
                await agent.information()

    published.portal.call(ask)
