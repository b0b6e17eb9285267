"""Which values a check calls clearly different, and by which value it filters."""

import pytest

from dealer_agent.checker.differences import are_clearly_different, typical_value

pytestmark = pytest.mark.outside_protocol("checker")


@pytest.mark.parametrize(
    ("member", "one", "other"),
    [
        ("make", "Honda", "Toyota"),
        ("model", "Civic", "Accord"),
        ("trim", "Limited", "Premium"),
        ("condition", "new", "used"),
        ("vehicle_type", "car", "rv"),
        ("transmission", "manual", "cvt"),
        ("fuel", "gas", "diesel"),
        ("fuel", "Electric", "Gasoline Fuel"),
        ("driveline", "awd", "Front-Wheel Drive"),
        ("body", "Crew Cab Pickup", "Sport Utility"),
        ("charge_port", "nacs", "chademo"),
        ("exterior_color", "Oxford White", "Magnetic Black Metallic"),
        ("rooftop", "Juniper Hollow Nashville", "Juniper Hollow Knoxville"),
    ],
)
def test_values_that_cannot_mean_the_same_are_clearly_different(member: str, one: str, other: str) -> None:
    assert are_clearly_different(member, one, other)
    assert are_clearly_different(member, other, one)


@pytest.mark.parametrize(
    ("member", "one", "other"),
    [
        ("make", "Chevrolet", "Chevy"),
        ("make", "Mercedes-Benz", "MERCEDES"),
        ("make", "Citroën", "citroen"),
        ("model", "F-150", "F150 Lightning"),
        ("model", "3 Series", "330i"),
        ("trim", "SE", "SEL"),
        ("condition", "used", "cpo"),
        ("transmission", "automatic", "8-speed dual clutch"),
        ("fuel", "hybrid", "gas"),
        ("fuel", "phev", "Electric"),
        ("driveline", "awd", "4x4"),
        ("driveline", "2wd", "rwd"),
        ("body", "suv", "Crossover"),
        ("body", "van", "minivan"),
        ("body", "suv", "Shooting Brake"),
        ("charge_port", "ccs", "j1772"),
        ("exterior_color", "Ruby Red", "Black Cherry"),
        ("exterior_color", "Silver", "Gray"),
        ("exterior_color", "Oxford White", "Ice Cap"),
        ("rooftop", "Main Street", "main-street"),
        ("make", "Honda", 7),
        ("make", "Honda", None),
    ],
)
def test_values_that_a_dealer_may_match_are_not(member: str, one: object, other: object) -> None:
    assert not are_clearly_different(member, one, other)
    assert not are_clearly_different(member, other, one)


def test_a_filter_has_the_most_frequent_value_that_fits_on_a_page() -> None:
    listings = [{"make": make} for make in (*["Ford"] * 5, *["Honda"] * 3, "Kia", "", None, 7)]
    assert typical_value("make", listings, 5) == "Ford"
    assert typical_value("make", listings, 4) == "Honda"
    assert typical_value("make", listings[:8], 2) == "Honda"


def test_there_is_no_value_to_filter_by_if_all_may_mean_the_same() -> None:
    assert typical_value("fuel", [{"fuel": "gas"}, {"fuel": "hybrid"}, {"fuel": "Unknown"}], 100) is None
    assert typical_value("make", [{"make": "Ford"}], 100) is None
