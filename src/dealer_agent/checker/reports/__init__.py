"""The reports of a result, by the suffix of their file."""

from collections.abc import Callable

from dealer_agent.checker.reports.badge import badge
from dealer_agent.checker.reports.html_page import html_page
from dealer_agent.checker.reports.json_document import json_document
from dealer_agent.checker.reports.junit import junit
from dealer_agent.checker.result import Result

REPORTS: dict[str, Callable[[Result], str]] = {
    ".json": json_document,
    ".xml": junit,
    ".html": html_page,
    ".svg": badge,
}
"""Makes the text of a report."""
