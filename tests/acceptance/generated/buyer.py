"""A buyer agent on the client that openapi-python-client generates: arguments are the service's address and a VIN.

It runs in a process of its own, with the generators' packages, and prints one JSON object: what the typed answers said.
"""

import json
import sys
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from agent_client import Client
from agent_client.api.discovery import get_card_100
from agent_client.api.health import get_health
from agent_client.api.skills import call_send_message, send_message
from agent_client.models import (
    AgentCard,
    Consent,
    ConsentAllowedChannelsItem,
    Customer,
    DealerInformationConfiguration,
    DealerInformationMessage,
    DealerInformationPart,
    DealerInformationReply,
    DealerInformationRequest,
    DealerInformationRequestMediaType,
    Error,
    ErrorInfo,
    ErrorPayload,
    Filters,
    Health,
    InventoryFacetsConfiguration,
    InventoryFacetsMessage,
    InventoryFacetsPart,
    InventoryFacetsReply,
    InventoryFacetsRequest,
    InventoryFacetsRequestMediaType,
    InventorySearchConfiguration,
    InventorySearchMessage,
    InventorySearchPart,
    InventorySearchReply,
    InventorySearchRequest,
    InventorySearchRequestMediaType,
    InventoryVehicleConfiguration,
    InventoryVehicleMessage,
    InventoryVehiclePart,
    InventoryVehicleReply,
    InventoryVehicleRequest,
    InventoryVehicleRequestMediaType,
    JsonRpcCall,
    JsonRpcError,
    JsonRpcResult,
    LeadSubmitConfiguration,
    LeadSubmitMessage,
    LeadSubmitPart,
    LeadSubmitReply,
    LeadSubmitRequest,
    LeadSubmitRequestMediaType,
    Pagination,
    SendDealerInformation,
    SendInventoryFacets,
    SendInventorySearch,
    SendInventoryVehicle,
    SendLeadSubmit,
    Sort,
    SortField,
    SortOrder,
    SourceAgent,
    VehicleOfInterest,
)
from agent_client.types import Unset

JSON_MODES = ["application/json"]


def search(filters: Filters) -> SendInventorySearch:
    """A search for the two newest vehicles."""
    payload = InventorySearchRequest(
        type_="inventory.search.request",
        filters=filters,
        pagination=Pagination(skip=0, limit=2),
        sort=Sort(field=SortField.YEAR, order=SortOrder.DESC),
    )
    media_type = InventorySearchRequestMediaType("application/vnd.proto.inventory-search-request+json")
    part = InventorySearchPart(data=payload, media_type=media_type)
    message = InventorySearchMessage(message_id=str(uuid4()), role="ROLE_USER", parts=[part])
    return SendInventorySearch(message, InventorySearchConfiguration(JSON_MODES))


def vehicle(vin: str) -> SendInventoryVehicle:
    """One vehicle."""
    payload = InventoryVehicleRequest(type_="inventory.vehicle.request", vin=vin)
    media_type = InventoryVehicleRequestMediaType("application/vnd.proto.vehicle-detail-request+json")
    part = InventoryVehiclePart(data=payload, media_type=media_type)
    message = InventoryVehicleMessage(message_id=str(uuid4()), role="ROLE_USER", parts=[part])
    return SendInventoryVehicle(message, InventoryVehicleConfiguration(JSON_MODES))


def facets() -> SendInventoryFacets:
    """Facets over the whole stock."""
    payload = InventoryFacetsRequest(type_="inventory.facets.request")
    media_type = InventoryFacetsRequestMediaType("application/vnd.proto.inventory-facets-request+json")
    part = InventoryFacetsPart(data=payload, media_type=media_type)
    message = InventoryFacetsMessage(message_id=str(uuid4()), role="ROLE_USER", parts=[part])
    return SendInventoryFacets(message, InventoryFacetsConfiguration(JSON_MODES))


def information() -> SendDealerInformation:
    """Who the dealer is."""
    payload = DealerInformationRequest(type_="dealer.information.request")
    media_type = DealerInformationRequestMediaType("application/vnd.proto.dealer-information-request+json")
    part = DealerInformationPart(data=payload, media_type=media_type)
    message = DealerInformationMessage(message_id=str(uuid4()), role="ROLE_USER", parts=[part])
    return SendDealerInformation(message, DealerInformationConfiguration(JSON_MODES))


def lead(vin: str, scope: str) -> SendLeadSubmit:
    """A lead whose consent covers the scope."""
    consent = Consent(
        granted_at=datetime.now(UTC) - timedelta(minutes=1),
        allowed_channels=[ConsentAllowedChannelsItem.EMAIL],
        consent_text="Share my name and e-mail address with this dealer.",
        scope=[scope],
    )
    payload = LeadSubmitRequest(
        type_="lead.submit.request",
        customer=Customer(first_name="Jordan", last_name="Example", email="jordan@example.com"),
        source_agent=SourceAgent(name="Generated Agent", url="https://agent.example.com"),
        consent=consent,
        vehicle_of_interest=VehicleOfInterest(vin=vin),
    )
    media_type = LeadSubmitRequestMediaType("application/vnd.proto.lead-submit-request+json")
    part = LeadSubmitPart(data=payload, media_type=media_type)
    message = LeadSubmitMessage(message_id=str(uuid4()), role="ROLE_USER", parts=[part])
    return SendLeadSubmit(message, LeadSubmitConfiguration(JSON_MODES))


def error_facts(error: object) -> dict[str, object]:
    """What an error envelope says."""
    assert isinstance(error, Error), error
    info, payload = error.error.details
    assert isinstance(info, ErrorInfo)
    assert isinstance(payload, ErrorPayload)
    pointer = None if isinstance(payload.details.instance_path, Unset) else payload.details.instance_path
    return {"status": error.error.code, "code": payload.code.value, "reason": info.reason.value, "pointer": pointer}


def main(url: str, vin: str) -> dict[str, object]:
    """Asks every skill over HTTP+JSON and one over JSON-RPC; a success and errors."""
    with Client(base_url=url, raise_on_unexpected_status=True) as client:
        health = get_health.sync(client=client)
        card = get_card_100.sync(client=client)
        assert isinstance(health, Health)
        assert isinstance(card, AgentCard)
        found = send_message.sync(client=client, body=search(Filters(year_min=2000)))
        assert isinstance(found, InventorySearchReply), found
        page = found.message.parts[0].data.data
        one = send_message.sync(client=client, body=vehicle(vin))
        assert isinstance(one, InventoryVehicleReply), one
        counted = send_message.sync(client=client, body=facets())
        assert isinstance(counted, InventoryFacetsReply), counted
        makes = counted.message.parts[0].data.data.makes
        assert not isinstance(makes, Unset)
        dealer = send_message.sync(client=client, body=information())
        assert isinstance(dealer, DealerInformationReply), dealer
        taken = send_message.sync(client=client, body=lead(vin, "lead_submission"))
        assert isinstance(taken, LeadSubmitReply), taken
        wrong_filter = send_message.sync(client=client, body=search(Filters(year_min=1)))
        no_vehicle = send_message.sync(client=client, body=vehicle("NO SUCH VIN"))
        no_consent = send_message.sync(client=client, body=lead(vin, "newsletter"))
        call = JsonRpcCall(jsonrpc="2.0", id="1", method="SendMessage", params=information())
        result = call_send_message.sync(client=client, body=call)
        assert isinstance(result, JsonRpcResult), result
        assert isinstance(result.result, DealerInformationReply)
        call = JsonRpcCall(jsonrpc="2.0", id="2", method="SendMessage", params=vehicle("NO SUCH VIN"))
        refused = call_send_message.sync(client=client, body=call)
        assert isinstance(refused, JsonRpcError), refused
        assert isinstance(refused.error.data, list)
        refusal = refused.error.data[1]
        assert isinstance(refusal, ErrorPayload)
        first, hours = page.vehicles[0], dealer.message.parts[0].data.data.rooftops[0].schedules
        assert not isinstance(hours, Unset)
        return {
            "health": health.status,
            "interfaces": [interface.protocol_binding for interface in card.supported_interfaces],
            "total": page.total,
            "shown": len(page.vehicles),
            "newest": [first.year, first.make, first.updated_at.tzinfo is not None],
            "vehicle": one.message.parts[0].data.data.model,
            "makes": {entry.value: entry.count for entry in makes},
            "rooftops": [rooftop.name for rooftop in dealer.message.parts[0].data.data.rooftops],
            "opens": hours[0].value.to_dict()["monday"],
            "lead": taken.message.parts[0].data.data.status.value,
            "errors": [error_facts(wrong_filter), error_facts(no_vehicle), error_facts(no_consent)],
            "over JSON-RPC": [result.result.message.parts[0].data.data.name, refusal.code.value],
        }


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
