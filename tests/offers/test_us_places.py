"""The states of ZIP codes (docs/how-to/all-in-price.md)."""

import pytest

from dealer_agent.offers.us_places import PREFIXES, STATES, UsLocation, place_of, place_of_address, states_of

pytestmark = pytest.mark.outside_protocol("the all-in price")


@pytest.mark.parametrize(
    ("zip_code", "state"),
    [
        ("84115", "UT"),
        (" 84115-1234 ", "UT"),
        ("00501", "NY"),
        ("02108", "MA"),
        ("05501", "MA"),
        ("05601", "VT"),
        ("00601", "PR"),
        ("00802", "VI"),
        ("06390", "NY"),
        ("06391", "CT"),
        ("09012", "AE"),
        ("20001", "DC"),
        ("20101", "VA"),
        ("34002", "AA"),
        ("37203", "TN"),
        ("39901", "GA"),
        ("73301", "TX"),
        ("79936", "TX"),
        ("83414", "WY"),
        ("88510", "TX"),
        ("90210", "CA"),
        ("96799", "AS"),
        ("96813", "HI"),
        ("96913", "GU"),
        ("96941", "FM"),
        ("96950", "MP"),
        ("96960", "MH"),
        ("96940", "PW"),
        ("99501", "AK"),
    ],
)
def test_a_zip_code_is_in_its_state(zip_code: str, state: str) -> None:
    assert place_of(zip_code) == UsLocation(state, zip_code.strip()[:5])


@pytest.mark.parametrize("zip_code", ["", "8411", "841155", "84115-12", "8411a", "٨٤١١٥", "00012", "21301", "84115\n1"])
def test_another_text_is_not_a_zip_code(zip_code: str) -> None:
    with pytest.raises(ValueError, match="is not a ZIP code of the United States; write five digits"):
        place_of(zip_code)


def test_every_state_district_and_territory_has_zip_codes() -> None:
    assert len(STATES) == 50 + 1 + 8 + 3
    assert {"DC", "PR", "VI", "GU", "AS", "MP", "FM", "MH", "PW", "AA", "AE", "AP"} < STATES
    assert set().union(*map(states_of, PREFIXES)) == STATES


def test_the_postal_service_uses_933_prefixes() -> None:
    """Those of all 42,789 ZIP codes of a data set of 2026. Six prefixes have codes in further states, nine in all."""
    assert len(PREFIXES) == 933
    assert sum(len(states_of(prefix)) for prefix in PREFIXES) == 933 + 9


def test_a_prefix_is_in_all_states_of_its_zip_codes() -> None:
    assert states_of("841") == {"UT"}
    assert states_of("063") == {"CT", "NY"}
    assert states_of("000") == states_of("00012") == set()


def test_the_place_of_an_address_is_that_of_its_zip_code() -> None:
    assert place_of_address("Utah", "84115-0001", "US") == UsLocation("UT", "84115")
    assert place_of_address("UT", "21301", "US") == UsLocation("UT", None)
    assert place_of_address("Utah", "21301", "US") == UsLocation()
    assert place_of_address("ON", "M4B 1B3", "CA") == UsLocation()
