"""A pytest plugin: every run ends with the requirements that nothing proves yet, so that nobody overlooks them."""

import pytest
from tests.requirements.table import requirements


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    rows = requirements()
    gaps = [row for row in rows if row.gap is not None]
    if not gaps:
        return
    terminalreporter.section(f"requirements: {len(gaps)} gaps among {len(rows)}")
    width = max(len(row.id) for row in gaps)
    for reason in dict.fromkeys(row.gap for row in gaps):
        terminalreporter.write_line(f"{reason}:")
        for row in gaps:
            if row.gap == reason:
                terminalreporter.write_line(f"  {row.id:<{width}}  {row.says}")
