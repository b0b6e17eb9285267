"""The demo dealer: two rooftops in two time zones, fees given, offers by area, and nobody real."""

import re
from pathlib import Path

import phonenumbers
from msgspec import UNSET

from dealer_agent.config import load_settings
from dealer_agent.dealers.information import dealer_information
from dealer_agent.demo import demo_dealer_toml


def test_the_settings_of_the_demo_dealer_load_and_fill_all_members_of_a_rooftop(tmp_path: Path) -> None:
    (tmp_path / "dealer.toml").write_text(demo_dealer_toml(), "utf-8")
    dealer = load_settings(tmp_path, {}).dealer
    assert len(dealer.rooftops) == 2
    assert len({rooftop.timezone for rooftop in dealer.rooftops}) == 2
    assert all(rooftop.fees is not UNSET and rooftop.fees for rooftop in dealer.rooftops)
    assert ["motorcycle_sales" in rooftop.capabilities for rooftop in dealer.rooftops] == [False, True]
    assert dealer.area_offers
    told = dealer_information(dealer).rooftops
    assert all(rooftop.schedules and rooftop.address and rooftop.geo and rooftop.emails for rooftop in told)


def test_its_numbers_and_addresses_are_made_up() -> None:
    text = demo_dealer_toml()
    numbers = [match.number for match in phonenumbers.PhoneNumberMatcher(text, "US", leniency=0)]
    assert numbers
    assert all(re.fullmatch(r"20255501\d\d", str(number.national_number)) for number in numbers)
    assert all(host.endswith("example.com") for host in re.findall(r"(?:@|://)([\w.]+)", text))
