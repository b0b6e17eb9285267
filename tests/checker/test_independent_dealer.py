"""The published report of an independent dealer agent has the requirements that fail now."""

import re
from pathlib import Path

import pytest
from tests.checker.agents import HonestAgent
from tests.checker.independent_dealer import PAGE, check_independent_dealer

from dealer_agent.checker.requirement import requirements

pytestmark = [pytest.mark.outside_protocol("checker"), pytest.mark.soak]


def test_the_published_report_names_the_requirements_that_fail(honest: HonestAgent, tmp_path: Path) -> None:
    result = check_independent_dealer(honest, tmp_path)
    failed = {group.requirement.id for group in result.groups if group.outcome == "fail"}
    tables = PAGE.read_text("utf-8").partition("## MUST")[2].partition("## Skipped")[0]
    assert {*re.findall(r"`([\w.-]+)`", tables)} & requirements().keys() == failed, (
        "if this is meant, write the page again: .venv/bin/python -m tests.checker.independent_dealer"
    )
    assert not [each.sentence for each in result.verdicts if each.outcome == "could not check"]
    assert len(failed) > 30
