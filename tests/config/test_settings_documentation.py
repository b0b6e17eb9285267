"""An undocumented setting fails: docs/settings.md says of every key what the types say."""

import json
import re
from pathlib import Path

from msgspec import NODEFAULT
from msgspec import inspect as types

from dealer_agent.config.settings import DealerFile

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"

_KEYED_BY = {"[rooftops.hours]": "DEPARTMENT", "[rooftops.visits]": "KIND"}
"""What the page calls the keys of tables that the dealer names."""


def _typed(kind: types.Type, section: str) -> dict[str, dict[str, str]]:
    """Section heading to key to default, as the page should have them."""
    match kind:
        case types.Metadata(type=inner):
            return _typed(inner, section)
        case types.VarTupleType(item_type=types.StructType() as inner):
            return _typed(inner, f"[{section}]")
        case types.DictType(value_type=types.StructType() | types.Metadata() as inner) if section in _KEYED_BY:
            return _typed(inner, f"{section.removesuffix(']')}.{_KEYED_BY[section]}]")
        case types.StructType(fields=fields):
            sections: dict[str, dict[str, str]] = {section: {}}
            for field in fields:
                inner_name = ".".join(filter(None, (section.strip("[]"), field.encode_name)))
                inner_sections = _typed(field.type, f"[{inner_name}]")
                if inner_sections:
                    sections |= inner_sections
                else:
                    sections[section][field.encode_name] = _default(field)
            return sections
        case _:
            return {}


def _default(field: types.Field) -> str:
    if field.required:
        return "required"
    default = field.default if field.default_factory is NODEFAULT else field.default_factory()
    return "-" if default is NODEFAULT else f"`{json.dumps(default)}`"


def _documented() -> dict[str, dict[str, str]]:
    sections: dict[str, dict[str, str]] = {}
    for part in re.split(r"(?m)^##+ ", PAGE.read_text("utf-8"))[1:]:
        heading, _, text = part.partition("\n")
        rows = re.findall(r"(?m)^\| `(\w+)` \| (.+?) \| \S.* \|$", text)
        sections["" if heading == "Top of the file" else heading] = dict(rows)
    return sections


def test_every_setting_is_documented_with_its_section_and_default_and_nothing_else_is() -> None:
    assert _documented() == _typed(types.type_info(DealerFile), "")
