"""The errors of a dealer are in the vocabulary that its settings choose, also outside the skills."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.installation.platform import DEALERS, INSTALLATION_TOML, add, make_installation, run_installation
from tests.server.dealership import Dealership, error_of, message

from dealer_agent.server.request_pipeline import overload_response
from dealer_agent.server.served_dealers import BINDINGS

pytestmark = pytest.mark.requirement("default-vocabulary")

NORTH, SOUTH = DEALERS
TYPES = {NORTH: "aap.error", SOUTH: "proto.error"}


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Dealership]:
    """An installation whose default is `proto`. Its first dealer has chosen `autoagent`."""
    limits = """[rate_limits]\naddress = "20/hour"\n"""
    installation = make_installation(tmp_path / "installation", INSTALLATION_TOML + limits)
    add(installation, NORTH, more="""\n[service]\nvocabulary = "autoagent"\n""")
    add(installation, SOUTH)
    with run_installation(installation) as running:
        yield running


def error_type(response: httpx.Response) -> str:
    return str(error_of(response)["type"])


def test_unknown_paths_and_methods_and_operations_not_offered(platform: Dealership) -> None:
    asked = (("/nothing", 404), ("/message:send", 405), ("/message:stream", 400), ("/tasks/1", 404))
    for dealer_id, (path, status) in itertools.product(DEALERS, asked):
        refused = platform.get(f"/d/{dealer_id}{path}")
        assert (refused.status_code, error_type(refused)) == (status, TYPES[dealer_id]), refused.text


@pytest.mark.parametrize("dealer_id", DEALERS)
def test_a_refusal_by_rate_has_the_vocabulary_of_its_dealer(platform: Dealership, dealer_id: str) -> None:
    platform.get(f"/d/{dealer_id}/readyz")
    answers = [platform.get(f"/d/{dealer_id}/docs") for _ in range(21)]
    assert answers[-1].status_code == 429
    assert error_type(answers[-1]) == TYPES[dealer_id]


def test_a_refusal_in_an_overload_has_the_vocabulary_of_its_dealer(platform: Dealership) -> None:
    for dealer_id in DEALERS:
        platform.post(message("dealer.information"), f"/d/{dealer_id}/message:send")
        service = platform.app.dealers.opened[dealer_id]
        for binding in BINDINGS.values():
            refused = overload_response(service, binding, b"{}", b"")
            assert TYPES[dealer_id].encode() in refused, binding.name


def test_an_address_of_no_dealer_is_answered_in_the_vocabulary_of_the_installation(platform: Dealership) -> None:
    """The response is in the vocabulary of the installation."""
    assert error_type(platform.get("/nothing")) == "proto.error"
