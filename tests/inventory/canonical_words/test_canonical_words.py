"""Values become canonical words (docs/protocol.md#canonical-words)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dealer_agent.inventory.canonical_words.tables import WordTable, canonical, find_canonical, value_key, wanted_keys
from dealer_agent.inventory.canonical_words.text import fold, words

SPELLINGS: list[tuple[str, str, tuple[str, ...]]] = [
    (
        "driveline",
        "awd",
        (
            "AWD",
            "All-Wheel Drive",
            "All Wheel Drive",
            "AWD/All-Wheel Drive",
            "quattro",
            "4MATIC",
            "xDrive",
            "AllWheelDrive",
        ),
    ),
    ("driveline", "4wd", ("4WD", "4x4", "4X4", "Four-Wheel Drive", "4 wheel drive", "4WD/4-Wheel Drive/4x4")),
    ("driveline", "fwd", ("FWD", "Front-Wheel Drive", "2 wheel drive - front")),
    ("driveline", "rwd", ("RWD", "Rear-Wheel Drive", "2 wheel drive - rear")),
    ("driveline", "2wd", ("2WD", "4x2")),
    ("fuel", "gas", ("Gasoline", "Gas", "Gasoline Fuel", "G", "Petrol", "Regular unleaded", "Premium unleaded")),
    ("fuel", "hybrid", ("Hybrid", "Hybrid Fuel", "Hybrid Gas/Electric", "Gas/Electric Hybrid")),
    ("fuel", "phev", ("Plug-In Hybrid", "Plug-In Electric/Gas", "PHEV")),
    ("fuel", "bev", ("Electric", "All-Electric", "Electric Fuel System", "E", "BEV")),
    ("fuel", "flex", ("Flex Fuel", "E85 Flex Fuel", "Flexible Fuel")),
    ("fuel", "diesel", ("Diesel", "Diesel Fuel", "D", "Biodiesel")),
    ("fuel", "hydrogen", ("Hydrogen", "Fuel Cell")),
    (
        "transmission",
        "automatic",
        (
            *(
                "Automatic",
                "AUT",
                "8-speed automatic",
                "9-Speed Automatic with Overdrive",
                "8-Speed Shiftable Automatic",
            ),
            *(
                "6-Speed Aisin Automatic",
                "9-Speed 948TE Automatic",
                "6-Speed Automatic with Shiftronic",
                "10-Speed A/T",
            ),
        ),
    ),
    ("transmission", "cvt", ("CVT", "CVT Xtronic", "Continuously Variable (CVT)", "Variable", "Automatic CVT")),
    ("transmission", "dct", ("7-Speed Dual Clutch", "DCT", "8-Speed Automatic Dual Clutch", "PDK")),
    ("transmission", "manual", ("Manual", "MAN", "6-Speed Manual", "5-Speed Manual with Overdrive")),
    ("transmission", "single_speed", ("Single-Speed", "1-Speed Automatic", "Direct Drive")),
    ("body", "suv", ("4D Sport Utility", "Sport Utility", "SUV", "Crossover", "Crossover Utility Vehicle")),
    (
        "body",
        "truck",
        ("4D Crew Cab", "Extended Cab", "Quad Cab", "Crew Cab Pickup", "SuperCrew", "4D CrewMax", "Pickup", "Truck"),
    ),
    ("body", "sedan", ("4D Sedan", "4dr Car", "Saloon")),
    ("body", "coupe", ("2D Coupe", "2dr Car", "Coupé")),
    ("body", "hatchback", ("4D Hatchback", "Hatch", "Liftback")),
    ("body", "convertible", ("Convertible", "2D Convertible", "Cabriolet", "Roadster")),
    ("body", "wagon", ("4D Wagon", "Station Wagon", "Estate")),
    ("body", "minivan", ("Minivan", "Mini-van, Passenger")),
    ("body", "van", ("Cargo Van", "3D Cargo Van", "Passenger Van", "4D Extended Cargo Van")),
    ("body", "cruiser", ("Cruiser",)),
    ("body", "sport", ("Sport", "Sportbike", "Super Sport")),
    ("body", "touring", ("Touring", "Bagger")),
    ("body", "adventure", ("Adventure", "Dual Sport")),
    ("body", "standard", ("Standard", "Naked")),
    ("body", "scooter", ("Scooter", "Moped")),
    ("charge_port", "nacs", ("NACS", "Tesla Supercharger/NACS", "NACS (J3400)", "Tesla")),
    ("charge_port", "ccs", ("CCS", "CCS1", "CCS Combo 1 (J1772)", "SAE Combo")),
    ("charge_port", "j1772", ("J1772", "J-1772", "SAE J1772", "Type 1")),
    ("charge_port", "chademo", ("CHAdeMO",)),
    ("make", "Chevrolet", ("Chevy", "CHEVROLET", "chevrolet truck")),
    ("make", "Volkswagen", ("VW", "volkswagen")),
    ("make", "Mercedes-Benz", ("Mercedes", "MB", "Mercedes Benz", "MERCEDES-BENZ")),
    ("make", "Land Rover", ("LandRover", "LAND ROVER")),
    ("make", "BMW", ("bmw",)),
    ("make", "GMC", ("Gmc",)),
    ("make", "MINI", ("Mini",)),
    ("make", "Ram", ("RAM", "Ram Truck")),
    ("make", "INFINITI", ("Infiniti",)),
    ("make", "Fiat", ("FIAT",)),
    ("make", "Harley-Davidson", ("HARLEY DAVIDSON", "Harley")),
    ("condition", "new", ("N", "n", "new", "NEW", "NewCondition")),
    ("condition", "used", ("U", "u", "used", "Pre-Owned", "UsedCondition")),
    ("condition", "cpo", ("CPO", "Certified", "Certified Pre-Owned", "Certified Used")),
    ("vehicle_type", "motorcycle", ("Motorcycle", "Motorcycles")),
    ("vehicle_type", "car", ("Car", "SUV", "4WD Sport Utility Vehicles", "Light Truck")),
    ("vehicle_type", "rv", ("RV", "Motorhome")),
    ("status", "available", ("In Stock", "in_stock", "InStock", "available", "Active")),
    ("status", "intransit", ("In Transit", "intransit", "PreOrder", "On Order")),
    ("status", "pending", ("Pending", "Sale Pending", "On Hold")),
    ("status", "sold", ("Sold", "SoldOut", "out of stock", "not_available")),
]


@pytest.mark.parametrize(
    ("field", "spelled", "word"), [(field, text, word) for field, word, texts in SPELLINGS for text in texts]
)
@pytest.mark.requirement(
    "word-transmission",
    "word-driveline",
    "word-fuel",
    "word-body",
    "word-charge-port",
    "makes-spelled",
)
def test_dealers_spellings_become_the_canonical_word(field: str, spelled: str, word: str) -> None:
    assert canonical(field, spelled) == word


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("transmission", "5-Speed"),
        ("transmission", "6-Speed"),
        ("transmission", "Automated Manual"),
        ("fuel", "Compressed Natural Gas"),
        ("body", "Hearse"),
        ("make", "Zastava"),
        ("driveline", "6x6"),
    ],
)
@pytest.mark.requirement("unknown-word-kept")
def test_an_unknown_word_is_kept(field: str, text: str) -> None:
    assert find_canonical(field, text) is None
    assert canonical(field, f"  {text} ") == text


@pytest.mark.parametrize(
    ("field", "wanted", "listed", "found"),
    [
        ("driveline", "2wd", "fwd", True),
        ("driveline", "4x2", "rwd", True),
        ("driveline", "2wd", "2wd", True),
        ("driveline", "2wd", "4wd", False),
        ("driveline", "fwd", "2wd", False),
        ("driveline", "AWD", "All-Wheel Drive", True),
        ("fuel", "hybrid", "phev", False),
        ("fuel", "gas", "Gasoline Fuel", True),
        ("transmission", "automatic", "cvt", False),
        ("transmission", "automatic", "dct", False),
        ("transmission", "8-speed automatic", "automatic", True),
        ("body", "suv", "Sport Utility", True),
        ("model", "F150", "F-150", True),
        ("model", "f 150", "F-150", True),
        ("model", "F-15", "F-150", False),
        ("trim", "Étoile", "etoile", True),
    ],
)
@pytest.mark.requirement("whole-values", "synonyms", "synonyms-2wd", "hybrid-not-phev")
def test_a_filter_finds_the_spellings_of_its_word(field: str, wanted: str, listed: str, found: bool) -> None:
    assert (value_key(field, listed) in wanted_keys(field, wanted)) is found


@pytest.mark.parametrize("text", ["F-150", "f150", "F 150", "  f-150!", "Ｆ１５０"])  # noqa: RUF001
@pytest.mark.requirement("without-case-accents-punctuation")
def test_comparison_ignores_case_accents_spacing_and_punctuation(text: str) -> None:
    assert fold(text) == "f150"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("F-150", ["f150", "f", "150"]),
        ("All-Wheel Drive", ["allwheel", "all", "wheel", "drive"]),
        ("Red/Black", ["red", "black"]),
        ("Citroën  DS", ["citroen", "ds"]),
        (" - ", []),
    ],
)
def test_joined_words_are_found_whole_and_in_parts(text: str, found: list[str]) -> None:
    assert words(text) == found


@given(st.text())
def test_folding_twice_changes_nothing(text: str) -> None:
    assert fold(fold(text)) == fold(text)


@given(st.text())
def test_every_word_of_a_text_is_in_its_fold(text: str) -> None:
    assert all(word in fold(text) for word in words(text))


@given(st.sampled_from(["make", "transmission", "fuel", "driveline", "body", "charge_port", "condition"]), st.text())
def test_a_canonical_word_is_its_own_canonical_word(field: str, text: str) -> None:
    word = find_canonical(field, text)
    if word is not None:
        assert canonical(field, word) == word


def test_a_table_refuses_one_spelling_for_two_words_and_names_both() -> None:
    with pytest.raises(ValueError, match="'Estate' is a spelling of both 'wagon' and 'van'"):
        WordTable({"wagon": ("estate",), "van": ("Estate",)})
