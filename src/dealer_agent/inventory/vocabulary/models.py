"""The well-known models of each make. Pure. The models are data: `models.toml`."""

from importlib.resources import files

import msgspec

from dealer_agent.inventory.vocabulary.tables import LONGEST
from dealer_agent.inventory.vocabulary.text import fold

_MODELS = {
    make: models.split(" | ")
    for make, models in msgspec.toml.decode(
        files("dealer_agent.inventory.vocabulary").joinpath("models.toml").read_text("utf-8"),
        type=dict[str, dict[str, str]],
    )["models"].items()
}
MAKES = frozenset(_MODELS)
"""The makes that have well-known models: canonical words of the vocabulary `make`."""
_BY_MAKE = {(make, fold(model)): model for make, models in _MODELS.items() for model in models}


def known_model(make: str, text: str) -> str | None:
    """The usual spelling of a well-known model of a make."""
    return _BY_MAKE.get((make, fold(text))) if len(text) <= LONGEST else None
