"""An answered lead is delivered at once, and again after an addition (docs/protocol.md#duplicate-adds)."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lxml import etree
from tests.skills.sample_dealers import SampleDealer, a_lead, open_sample_dealer

from dealer_agent.delivery import loop

pytestmark = pytest.mark.outside_protocol("deliveries")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def sample_dealer(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SampleDealer]:
    """A dealer whose leads go to a folder, and whose loop does not look for work unless it is told of some."""
    monkeypatch.setattr(loop, "POLL_SECONDS", 3600)
    channel = f'[[rooftops.deliver.directory]]\nname = "folder"\npath = "{folder}"\n'
    with open_sample_dealer(f"sqlite:///{tmp_path}/dealer.db", rooftop_settings=channel) as opened:
        yield opened


def arrived(folder: Path, count: int) -> dict[str, etree._Element]:
    """The prospects that are in the folder once there are so many, by delivery."""
    for _ in range(6000):
        files = sorted(folder.glob("*.xml"))
        if len(files) >= count:
            return {file.stem: etree.fromstring(file.read_bytes())[0] for file in files}
        time.sleep(0.02)
    raise AssertionError("nothing arrived")


def test_an_answered_lead_is_delivered_at_once(sample_dealer: SampleDealer, folder: Path) -> None:
    lead = sample_dealer.send(a_lead(message="Is it still there?")).data
    assert lead is not None
    ((_, prospect),) = arrived(folder, 1).items()
    assert (prospect.get("status"), prospect.findtext("id")) == ("new", lead["lead_id"])


def test_what_a_duplicate_adds_is_delivered_too_with_the_same_lead_id(
    sample_dealer: SampleDealer, folder: Path
) -> None:
    first = a_lead(message="Is it still there?")
    sample_dealer.send(first)
    arrived(folder, 1)
    again = sample_dealer.send(first | {"message": "I could come on Monday."}).data
    assert again is not None
    prospects = arrived(folder, 2).values()
    assert {prospect.get("status") for prospect in prospects} == {"new", "resend"}
    assert {prospect.findtext("id") for prospect in prospects} == {again["lead_id"]}
    (resent,) = [prospect for prospect in prospects if prospect.get("status") == "resend"]
    assert "I could come on Monday." in (resent.findtext("customer/comments") or "")


def test_what_a_duplicate_repeats_is_not_delivered_again(sample_dealer: SampleDealer, folder: Path) -> None:
    first = a_lead(message="Is it still there?")
    for _ in range(3):
        sample_dealer.send(first)
    arrived(folder, 1)
    assert len(sample_dealer.deliveries()) == 1
