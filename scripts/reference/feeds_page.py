"""`docs/reference/feeds.md`: a person writes the page, the demo's feed gives the example."""

import csv
import re

from scripts.reference.markdown import code, table

from dealer_agent.demo import demo_inventory

MARK = "<!-- The first vehicle of the demo. Written by `make docs`. -->\n"
SHOWN = 100


def feeds_page(text: str) -> str:
    """The page with the cells of the demo's first vehicle."""
    header, first = list(csv.reader(demo_inventory().decode("utf-8").splitlines()))[:2]
    rows = [(code(name), code(_shortened(cell)) if cell else "") for name, cell in zip(header, first, strict=True)]
    before, _, rest = text.partition(MARK)
    after = re.sub(r"\A\n(\|[^\n]*\n)*\n*", "", rest)
    return f"{before}{MARK}\n{table(('Column', 'Cell'), rows)}\n\n{after}"


def _shortened(cell: str) -> str:
    return cell if len(cell) <= SHOWN else f"{cell[:SHOWN]}..."
