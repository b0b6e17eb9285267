"""A pytest plugin: every run ends with a list of the requirements that no test proves yet."""

import pytest
from tests.requirements.table import requirements


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    rows = requirements()
    gaps = [row for row in rows if row.kind == "gap"]
    if not gaps:
        return
    terminalreporter.section(f"requirements: {len(gaps)} gaps among {len(rows)}")
    width = max(len(row.id) for row in gaps)
    for row in gaps:
        terminalreporter.write_line(f"{row.id:<{width}}  {row.says}")
