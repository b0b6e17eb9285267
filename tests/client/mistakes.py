"""Mistakes in programs for the client. Nothing runs this file: `make check` fails if mypy accepts one of them.

Each comment names the error that mypy reports for its line, and mypy reports a comment without an error.
"""

from dealer_agent.client import DealerAgent, SyncDealerAgent, errors
from dealer_agent.client.arguments import Appointment, Consent, Customer, Filters


async def mistakes(agent: DealerAgent, consent: Consent) -> None:
    """Mistakes with the asynchronous client."""
    await agent.search(prcie_min=10_000)  # type: ignore[call-arg]
    await agent.search(make="Honda")  # type: ignore[arg-type]
    await agent.search(price_max="30000")  # type: ignore[arg-type]
    await agent.search(condition=["old"])  # type: ignore[list-item]
    await agent.search(sort="prize")  # type: ignore[arg-type]
    await agent.search(sort="price", limit="5")  # type: ignore[arg-type]
    await agent.facets(maker=["Honda"])  # type: ignore[call-arg]
    agent.search_all(makes=["Honda"])  # type: ignore[call-arg]
    await agent.vehicle(stock_number="A1")  # type: ignore[call-arg]
    page = await agent.search()
    print(page.vehicles[0].prize)  # type: ignore[attr-defined]
    print(page.vehicles[0].price + 500)  # type: ignore[operator]
    for count in (await agent.facets()).makes:  # type: ignore[union-attr]
        print(count.value)
    robin: Customer = {"first_name": "Robin", "last_name": "Example", "mail": "a@example.com"}  # type: ignore[typeddict-unknown-key]
    nobody: Customer = {"first_name": "Robin"}  # type: ignore[typeddict-item]
    await agent.submit_lead(customer=robin, source_agent="Me")  # type: ignore[call-arg]
    visit: Appointment = {"appointment_type": "testdrive"}  # type: ignore[typeddict-item]
    receipt = await agent.submit_lead(customer=nobody, consent=consent, source_agent="Me", appointment=visit)
    print(receipt.appointment.status)  # type: ignore[union-attr]
    try:
        await agent.information(timeout="5")  # type: ignore[arg-type]
    except errors.VehicleNotFond:  # type: ignore[attr-defined]
        print("It is gone.")


def synchronous_mistakes(agent: SyncDealerAgent) -> None:
    """Mistakes with the synchronous client."""
    agent.search(prcie_min=10_000)  # type: ignore[call-arg]
    cheap: Filters = {"price_maximum": 20_000}  # type: ignore[typeddict-unknown-key]
    for vehicle in agent.search_all(**cheap):
        vehicle.price = 1  # type: ignore[misc]
