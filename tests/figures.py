"""A pytest plugin: a run ends with what its tests counted, which says more than that they passed.

A test tells it by `record_property("figure", "...")`; what a worker of xdist printed itself, nobody would see.
"""

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    told = [
        text
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for name, text in report.user_properties
        if name == "figure"
    ]
    if told:
        terminalreporter.section("figures")
    for text in told:
        terminalreporter.write_line(str(text))
