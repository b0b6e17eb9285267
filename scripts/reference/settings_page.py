"""`docs/reference/settings.md`: a person writes the meaning of each key, the types say the other columns."""

import json
import re
from collections.abc import Iterator
from typing import Any

from msgspec import NODEFAULT
from msgspec import inspect as types

from dealer_agent.config.installation import InstallationSettings
from dealer_agent.config.settings import DealerFile

NAMES_OF_TABLES = {"[rooftops.hours]": "DEPARTMENT", "[rooftops.visits]": "KIND"}
"""What the page calls the keys of tables that the dealer names."""

REPEATED = {"[feeds.checks]"}
"""Sections with the keys of another section. A person writes which."""

ROW = re.compile(r"\| `(\w+)` \|.*\| ([^|]*) \|")


def settings_page(text: str) -> str:
    """The page with one row for each setting. A new setting has the meaning `UNDOCUMENTED`: replace it."""
    sections = typed_sections(types.type_info(DealerFile), "")
    sections |= typed_sections(types.type_info(InstallationSettings), "[installation]")
    parts = re.split(r"(?m)^(?=##)", text)
    written = {_heading(part): part for part in parts[1:]}
    for heading, rows in sections.items():
        title = heading or "Top of the file"
        before = written.get(title, f"{'#' * (2 + title.count('.'))} {title}\n\n")
        if rows and heading not in REPEATED:
            written[title] = _with_rows(before, rows)
    return parts[0] + "".join(written.values())


def typed_sections(kind: types.Type, section: str) -> dict[str, dict[str, str]]:
    """Section to key to the cells that the types say: allowed values and default."""
    match kind:
        case types.Metadata(type=inner):
            return typed_sections(inner, section)
        case types.UnionType(types=members):
            return {name: rows for one in members for name, rows in typed_sections(one, section).items()}
        case types.VarTupleType(item_type=types.StructType() as inner):
            return typed_sections(inner, f"[{section}]")
        case types.DictType(value_type=types.StructType() | types.Metadata() as inner) if section in NAMES_OF_TABLES:
            return typed_sections(inner, f"{section.removesuffix(']')}.{NAMES_OF_TABLES[section]}]")
        case types.StructType(fields=fields):
            sections: dict[str, dict[str, str]] = {section: {}}
            for field in fields:
                name = ".".join(filter(None, (section.strip("[]"), field.encode_name)))
                inner_sections = typed_sections(field.type, f"[{name}]")
                if inner_sections:
                    sections |= inner_sections
                else:
                    values = ", ".join(_values(field.type)) or "-"
                    sections[section][field.encode_name] = f"{values} | {_default(field)}"
            return sections
        case _:
            return {}


def _heading(part: str) -> str:
    return part.partition("\n")[0].lstrip("# ")


def _with_rows(part: str, rows: dict[str, str]) -> str:
    """The section with its table written again; prose stays as it is."""
    meanings = dict(ROW.findall(part))
    before, _, rest = part.partition("\n| Key |")
    after = rest[rest.index("\n\n") + 1 :] if "\n\n" in rest else "\n"
    lines = ["| Key | Allowed | Default | Meaning |", "|---|---|---|---|"]
    lines += [f"| `{key}` | {cells} | {meanings.get(key, 'UNDOCUMENTED')} |" for key, cells in rows.items()]
    return f"{before.rstrip()}\n\n" + "\n".join(lines) + "\n" + after


def _values(kind: types.Type) -> Iterator[str]:
    match kind:
        case types.Metadata(type=inner):
            yield from _values(inner)
        case types.UnionType(types=members):
            for member in members:
                yield from _values(member)
        case types.LiteralType(values=values):
            yield " or ".join(f"`{json.dumps(value)}`" for value in values)
        case types.BoolType():
            yield "`true` or `false`"
        case types.IntType(ge=least, le=most) | types.FloatType(ge=least, le=most):
            number = "whole number" if isinstance(kind, types.IntType) else "number"
            yield f"{number}{_range(least, most)}"
        case types.StrType() | types.CustomType():
            yield "text"
        case types.DecimalType():
            yield "text: a decimal number"
        case types.VarTupleType(item_type=inner):
            yield f"list: {', '.join(_values(inner))}"
        case types.DictType(value_type=inner):
            yield f"section: {', '.join(_values(inner))}"


def _range(least: float | None, most: float | None) -> str:
    if most is not None and most < 2**62:
        return f", {least} to {most}"
    return "" if least is None else f", at least {least}"


def _default(field: types.Field) -> str:
    if field.required:
        return "required"
    default: Any = field.default if field.default_factory is NODEFAULT else field.default_factory()
    return "-" if default is NODEFAULT else f"`{json.dumps(default)}`"
