"""Parses documents with the pydantic models that datamodel-code-generator makes. Runs with the generators' packages.

Reads one JSON array of [model name, document, whether the model takes it] and prints how many documents it parsed.
"""

import importlib
import json
import sys

from pydantic import BaseModel, RootModel, ValidationError

models = importlib.import_module("agent_models")
parsed = 0
for name, document, sound in json.load(sys.stdin):
    model: type[BaseModel] = getattr(models, name)
    try:
        value = model.model_validate(document)
    except ValidationError:
        if sound:
            raise
        continue
    assert sound, (name, document)
    if isinstance(value, RootModel):
        value = value.root
    # What the model writes is what it read: nothing was dropped, and no branch of a union was mistaken for another.
    again = value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert model.model_validate(again) == model.model_validate(document), (name, document)
    parsed += 1
print(parsed)
