"""The well-known models belong to makes of the vocabulary."""

import pytest

from dealer_agent.inventory.canonical_words.tables import MODELS, TABLES, usual_model

pytestmark = pytest.mark.outside_protocol("daily counts")


def test_the_makes_of_the_models_are_canonical_words() -> None:
    assert {make for make, _ in MODELS} - TABLES["make"].spellings.keys() == set()


@pytest.mark.parametrize(
    ("make", "text", "model"),
    [
        ("Toyota", "rav 4", "RAV4"),
        ("Ford", "f150", "F-150"),
        ("Honda", "cr v", "CR-V"),
        ("Honda", "RAV4", None),
        ("Toyota", "jordan@example.com", None),
        ("Toyota", "RAV4" * 100, None),
    ],
)
def test_a_model_is_found_in_any_spelling_of_its_letters(make: str, text: str, model: str | None) -> None:
    assert usual_model(make, text) == model
