"""Random calls of the tools of DMC-12, made from the published schemas of their arguments.

Most are valid or nearly so. Ids and VINs that were answered before are used again, by the same agent and by others.
"""

import json
import random
from typing import Any

from tests.dmc12.published import SCHEMAS, schema_of

ODD: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1.5,
    1e300,
    "",
    "x",
    "\x00",
    "é" * 40,
    "9" * 700,
    [],
    {},
    [[]],
    {"a": {}},
)
"""Values that few members accept."""
ALPHABET = "ABCDEFGHJKLMNPRSTUVWXYZ0123456789"


def _inputs() -> dict[str, dict[str, Any]]:
    common = json.loads((SCHEMAS / "common.json").read_text("utf-8"))["$defs"]
    found: dict[str, dict[str, Any]] = {}

    def resolved(node: Any, defs: dict[str, Any]) -> Any:
        if isinstance(node, list):
            return [resolved(each, defs) for each in node]
        if not isinstance(node, dict):
            return node
        if "$ref" in node:
            name = node["$ref"].rpartition("/")[2]
            return resolved((common if "common" in node["$ref"] else defs)[name], defs)
        return {key: resolved(value, defs) for key, value in node.items()}

    inventory = schema_of("inventory.json")
    for each in inventory["properties"]["input"]["oneOf"]:
        found[each["title"]] = resolved(each, inventory["$defs"])
    for tool, file in (
        ("request_quote", "quote.json"),
        ("list_stores", "stores.json"),
        ("initiate_deal_handoff", "deal-handoff.json"),
    ):
        found[tool] = resolved(schema_of(file)["properties"]["input"], {})
    for each in schema_of("reservation.json")["properties"]["input"]["oneOf"]:
        found |= dict.fromkeys(each["title"].split(" | "), each)
    found["get_pricing_disclosure"] = found["get_vehicle_by_vin"]
    for schema in found.values():
        schema.get("properties", {}).pop("tool", None)
    return found


class Calls:
    """Makes calls. `vins`, `quotes` and `reservations` are those that are known."""

    def __init__(self, seed: int, vins: list[str]) -> None:
        self.random = random.Random(seed)
        self.vins, self.quotes, self.reservations = (
            vins,
            ["01HZ9QK7M3V8P2S6T4W0Y1Z3X5"],
            ["rsv_01HZ9QK7M3V8P2S6T4W0Y1Z3X5"],
        )
        self._inputs = _inputs()
        self.tools = sorted(self._inputs)

    def next(self) -> tuple[str, Any]:
        """The name of a tool, and arguments for it."""
        tool = self.random.choice(self.tools)
        schema = self._inputs[tool]
        if self.random.random() < 0.02:
            return tool, self.random.choice(ODD)
        arguments = self._object(schema, "", 0.5)
        if self.random.random() < 0.25:
            self._mutate(arguments)
        return tool, arguments

    def _mutate(self, arguments: dict[str, Any]) -> None:
        names = sorted(arguments)
        match self.random.randrange(4):
            case 0 if names:
                del arguments[self.random.choice(names)]
            case 1 if names:
                arguments[self.random.choice(names)] = self.random.choice(ODD)
            case 2:
                arguments[self.random.choice(("tool", "unknown", "Vin", "é"))] = self.random.choice(ODD)
            case _:
                nested = [each for each in arguments.values() if isinstance(each, dict)]
                if nested:
                    self._mutate(self.random.choice(nested))

    def _object(self, schema: dict[str, Any], name: str, share: float) -> dict[str, Any]:
        required = schema.get("required", ())
        return {
            member: self._value(each, member)
            for member, each in schema.get("properties", {}).items()
            if member in required or self.random.random() < share
        }

    def _value(self, schema: dict[str, Any], name: str) -> Any:
        choose = self.random.choice
        known = {"quote_id": self.quotes, "reservation_token": self.reservations, "vin": self.vins}
        if name in known and self.random.random() < 0.9:
            return choose(known[name][-8:] if name != "vin" else self.vins)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return choose(schema["enum"])
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        match choose(kinds):
            case "null":
                return None
            case "boolean":
                return choose((True, False))
            case "object":
                return self._object(schema, name, 0.5)
            case "array":
                most = min(schema.get("maxItems", 4), 4)
                items = [
                    self._value(schema["items"], "vin")
                    for _ in range(self.random.randint(schema.get("minItems", 0), most))
                ]
                return sorted(set(items)) if schema.get("uniqueItems") else items
            case "integer" | "number" as kind:
                least, most = schema.get("minimum", 0), schema.get("maximum", 2_000_000)
                number = (
                    choose((least, most, least - 1, most + 1))
                    if self.random.random() < 0.1
                    else self.random.uniform(least, most)
                )
                return int(number) if kind == "integer" else choose((int(number), round(number, 2), number))
            case _:
                return self._text(schema, name)

    def _text(self, schema: dict[str, Any], name: str) -> str:
        if name == "phone":
            return f"+1555555{self.random.randrange(10_000):04}"
        if schema.get("format") == "email":
            return f"buyer{self.random.randrange(1000)}@example.com"
        if schema.get("format") == "date-time":
            return self.random.choice(
                ("2099-01-01T00:00:00Z", "2026-01-01T00:00:00+02:00", "2099-13-01", "2099-01-01T00:00:00")
            )
        if "pattern" in schema:
            return "USD" if "{3}" in schema["pattern"] else "".join(self.random.choices(ALPHABET, k=17))
        most = schema.get("maxLength", 60)
        length = self.random.choice((schema.get("minLength", 0), min(12, most), most))
        words = "toyota ford new red suv call me Jane O'Example <b> ' \" \\ "
        return (words * 50)[:length] if length else ""
