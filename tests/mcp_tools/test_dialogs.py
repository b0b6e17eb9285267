"""The recorded dialogs of the documentation are what the tools say now."""

import pytest
from tests.mcp_tools.dialogs import PAGE, page

pytestmark = pytest.mark.outside_protocol("MCP")


def test_the_dialogs_of_the_documentation_are_true() -> None:
    made = page()
    assert PAGE.read_text("utf-8") == made, "write it anew: .venv/bin/python -m tests.mcp_tools.dialogs"
