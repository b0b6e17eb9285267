"""`docs/explanation/layers.svg`: the layers of the import law in `pyproject.toml`, highest first."""

import re
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
WIDTH, ROW, BOX = 720, 52, 36
STYLE = "font-family: sans-serif; font-size: 15px"


def layers_diagram() -> str:
    """One row of boxes for each layer."""
    contracts = tomllib.loads(PYPROJECT.read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    (law,) = [contract for contract in contracts if contract["type"] == "layers"]
    rows = [[re.sub(r"[()]", "", name).strip() for name in re.split(r"[|:]", layer)] for layer in law["layers"]]
    height = ROW * len(rows)
    boxes = [box for number, names in enumerate(rows) for box in _boxes(names, number * ROW)]
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" style="{STYLE}" role="img">',
            "<title>The packages, in layers. A package imports only packages below it.</title>",
            *boxes,
            "</svg>\n",
        )
    )


def _boxes(names: list[str], top: int) -> list[str]:
    width = WIDTH / len(names)
    return [
        f'<rect x="{number * width + 4:.0f}" y="{top + 8}" width="{width - 8:.0f}" height="{BOX}" rx="5" '
        f'fill="#e8eef7" stroke="#4a6da7"/><text x="{(number + 0.5) * width:.0f}" y="{top + 31}" '
        f'text-anchor="middle" fill="#1b2a41">{name}</text>'
        for number, name in enumerate(names)
    ]
