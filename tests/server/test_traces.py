"""Traces of one application, which a real receiver of OTLP gets."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.acceptance.running import command_here, eventually
from tests.delivery.receivers import HttpReceiver, always, receiving_http
from tests.server.dealership import LEAF, NO_LIMITS, Dealership, message, run_dealership, set_up
from tests.servers.otlp import OtlpReceiver, otlp_receiver
from tests.storage.calls import read

from dealer_agent.config.keys import KEY_FILE_NAME
from dealer_agent.storage.deliveries.outbox import list_deliveries

pytestmark = pytest.mark.outside_protocol("traces")

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED, NOT_SAMPLED = (f"00-{TRACE}-{PARENT}-{flags}" for flags in ("01", "00"))
CHANNEL = '[[rooftops.deliver.http]]\nname = "crm"\nurl = "{url}"\nformat = "json"\n'


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with otlp_receiver() as running:
        yield running


@contextmanager
def traced(
    folder: Path, stocked: Path, receiver: OtlpReceiver, settings: str = "ratio = 1.0", more: str = ""
) -> Iterator[Dealership]:
    """A dealership whose spans arrive at the end of the block."""
    set_up(folder, f'{more}{NO_LIMITS}\n[traces]\nendpoint = "{receiver.url}"\n{settings}\n', stocked=stocked)
    with run_dealership(folder) as running:
        yield running


def test_a_request_and_its_skill_are_spans_of_the_clients_trace(
    tmp_path: Path, stocked: Path, receiver: OtlpReceiver
) -> None:
    with traced(tmp_path / "dealer", stocked, receiver) as dealership:
        answered = dealership.post(message("inventory.search"), headers={"traceparent": SAMPLED})
        refused = dealership.post(message("inventory.vehicle", vin="2HGCY2F57RA000009"))
    searched = next(span for span in receiver.spans if span.trace_id == TRACE and span.parent_id == PARENT)
    assert searched.name == "http+json"
    assert searched.attributes == {
        "dealer_agent.dealer": "test-motors",
        "dealer_agent.skill": "inventory.search",
        "dealer_agent.request_id": answered.headers["x-request-id"],
        "http.response.status_code": "200",
    }
    skill = receiver.named("inventory.search")
    assert (skill.trace_id, skill.parent_id) == (TRACE, searched.span_id)
    assert searched.started <= skill.started <= skill.ended <= searched.ended
    other = next(span for span in receiver.spans if span.name == "http+json" and span.trace_id != TRACE)
    assert other.attributes["dealer_agent.code"] == "VEHICLE_NOT_FOUND"
    assert other.attributes["dealer_agent.request_id"] == refused.headers["x-request-id"]
    assert other.parent_id == ""


def test_the_trace_of_a_lead_goes_on_to_the_crm_and_has_nothing_personal(
    tmp_path: Path, stocked: Path, receiver: OtlpReceiver
) -> None:
    customer = {"first_name": "Quintessa", "last_name": "Ashgrove", "email": "quintessa@example.com"}
    with (
        receiving_http(HttpReceiver(always("take"))) as crm,
        traced(tmp_path / "dealer", stocked, receiver, more=CHANNEL.format(url=crm.url)) as dealership,
    ):
        lead = message("lead.submit", customer=customer, vehicle_of_interest={"vin": LEAF})
        assert dealership.post(lead, headers={"traceparent": SAMPLED}).status_code == 200
        posted = eventually("the CRM has it", lambda: crm.taken)[0]
        eventually("it is recorded as sent", lambda: _is_sent(dealership))
    request, delivery = receiver.named("http+json"), receiver.named("delivery")
    assert receiver.named("lead.submit").parent_id == request.span_id
    assert [span.parent_id for span in receiver.spans if span.name == "transaction"].count(request.span_id) == 1
    assert (delivery.trace_id, delivery.parent_id) == (TRACE, request.span_id)
    assert posted.headers["traceparent"] == f"00-{TRACE}-{delivery.span_id}-01"
    assert delivery.attributes["dealer_agent.result"] == "sent"
    for value in (*customer.values(), "198.51.100.7", LEAF):
        assert value.encode() not in receiver.content


def _is_sent(dealership: Dealership) -> bool:
    with dealership.store() as store:
        return [row.state for row in read(store, "test-motors", list_deliveries, 10)] == ["sent"]


@pytest.mark.parametrize(
    ("settings", "traceparent", "is_sampled"),
    [
        ("ratio = 0.0", SAMPLED, False),
        ("ratio = 1.0", NOT_SAMPLED, True),
        ("ratio = 0.0\nfollow_parent = true", SAMPLED, True),
        ("ratio = 1.0\nfollow_parent = true", NOT_SAMPLED, False),
        ("ratio = 1.0\nfollow_parent = true", None, True),
        ("ratio = 0.0\nfollow_parent = true", None, False),
    ],
)
def test_the_client_decides_about_sampling_only_where_the_settings_allow_it(
    tmp_path: Path, stocked: Path, receiver: OtlpReceiver, settings: str, traceparent: str | None, is_sampled: bool
) -> None:
    with traced(tmp_path / "dealer", stocked, receiver, settings) as dealership:
        headers = {} if traceparent is None else {"traceparent": traceparent}
        dealership.post(message("inventory.facets"), headers=headers)
    assert [span.name for span in receiver.spans if span.name == "inventory.facets"] == [
        "inventory.facets"
    ] * is_sampled


def test_a_header_that_is_no_traceparent_begins_a_new_trace(
    tmp_path: Path, stocked: Path, receiver: OtlpReceiver
) -> None:
    wrong = ("", "x", f"ff-{TRACE}-{PARENT}-01", f"00-{'0' * 32}-{PARENT}-01", SAMPLED.upper(), "a" * 9000)
    with traced(tmp_path / "dealer", stocked, receiver) as dealership:
        for header in wrong:
            answered = dealership.post(message("inventory.search"), headers={"traceparent": header})
            assert answered.status_code == 200
    found = [span for span in receiver.spans if span.name == "http+json"]
    assert len(found) == len(wrong)
    assert {span.parent_id for span in found} == {""}


def test_without_an_endpoint_nothing_is_traced_or_forwarded(tmp_path: Path, stocked: Path) -> None:
    with receiving_http(HttpReceiver(always("take"))) as crm:
        set_up(tmp_path / "dealer", CHANNEL.format(url=crm.url) + NO_LIMITS, stocked=stocked)
        with run_dealership(tmp_path / "dealer") as dealership:
            assert dealership.service.traces is None
            lead = message("lead.submit", vehicle_of_interest={"vin": LEAF})
            dealership.post(lead, headers={"traceparent": SAMPLED})
            posted = eventually("the CRM has it", lambda: crm.taken)[0]
    assert "traceparent" not in posted.headers


def test_a_receiver_that_is_away_delays_no_request(tmp_path: Path, stocked: Path) -> None:
    with otlp_receiver() as gone:
        pass
    with traced(tmp_path / "dealer", stocked, gone) as dealership:
        assert dealership.post(message("inventory.search")).status_code == 200


class WithoutTheExtra:
    """An importer that does not find the packages of the extra."""

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> None:
        if name.partition(".")[0] == "opentelemetry":
            raise ModuleNotFoundError(name)


def test_without_the_extra_the_service_names_what_to_install(
    tmp_path: Path, stocked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(sys.modules):
        if name == "dealer_agent.server.traces" or name.partition(".")[0] == "opentelemetry":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [WithoutTheExtra(), *sys.meta_path])
    set_up(tmp_path / "dealer", '[traces]\nendpoint = "http://127.0.0.1:4318/v1/traces"\n', stocked=stocked)
    # Without keys it could not go on either.
    (tmp_path / "dealer" / KEY_FILE_NAME).unlink()
    done = command_here("serve", "--dir", tmp_path / "dealer")
    assert done.returncode == 1
    assert "pip install 'dealer-agent[traces]'" in " ".join(done.stderr.split())
