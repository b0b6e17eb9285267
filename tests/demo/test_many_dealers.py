"""The invented dealers of `demo --dealers`: valid, different from each other, and the same each time."""

from pathlib import Path

import pytest
import vininfo
from tests.installation.platform import make_installation

from dealer_agent.demo.many import MOST_DEALERS, invented_dealers
from dealer_agent.feeds.files.reader import read_feed

pytestmark = pytest.mark.outside_protocol("the command `demo`")

COUNT = 20


def test_each_dealer_is_valid_and_has_its_own_name_and_vehicles(tmp_path: Path) -> None:
    installation = make_installation(tmp_path / "platform")
    names, vins = set(), set[str]()
    vehicles = 0
    for dealer in invented_dealers(COUNT):
        profile = installation.dealer_settings(dealer.dealer_toml).dealer
        assert profile.id == dealer.dealer_id
        names.add(profile.name)
        feed = read_feed(dealer.inventory)
        assert feed.counts.refused == feed.counts.warnings == 0
        units = [row.unit for row in feed.units]
        assert 40 <= len(units) <= 160
        assert {hint for unit in units for hint in unit.rooftop_hints} == {profile.name}
        vehicles += len(units)
        vins |= {unit.vin for unit in units if unit.vin}
        assert b"Nashville" not in dealer.inventory
        assert b"Knoxville" not in dealer.inventory
    assert len(names) == COUNT
    assert len(vins) == vehicles
    assert all(vininfo.Vin(vin).verify_checksum() for vin in vins)


def test_the_dealers_are_the_same_each_time() -> None:
    assert list(invented_dealers(3)) == list(invented_dealers(5))[:3]


def test_invented_dealers_have_different_ids_up_to_the_bound() -> None:
    assert len({dealer.dealer_id for dealer in invented_dealers(MOST_DEALERS)}) == MOST_DEALERS
