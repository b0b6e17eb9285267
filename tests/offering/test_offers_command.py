"""`dealer-agent offers`: the same holds as in the console, on the command line."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from tests.acceptance.running import command_here, succeed_here
from tests.offering.conftest import Offered, data_of
from tests.server.dealership import ACCORD

pytestmark = pytest.mark.outside_protocol("commands")


def test_staff_list_show_extend_and_end_a_hold(offering: Offered) -> None:
    opened = offering(agents=1)
    (agent,), of = opened.agents, ("--dir", opened.dealership.folder)
    quote = agent.quote(vin=ACCORD)
    hold_id = data_of(agent.hold(quote["quote_id"], "one"))["hold_id"]
    assert [each["id"] for each in json.loads(succeed_here("offers", "list", "--json", *of))] == [hold_id]
    for offer_id in (hold_id, quote["quote_id"]):
        shown = json.loads(succeed_here("offers", "show", offer_id, "--json", *of))
        assert shown["quote"] == quote
        assert (shown["hold"] is None) == (offer_id != hold_id)
    extended = json.loads(succeed_here("offers", "extend", hold_id, "--hours", "10", "--json", *of))
    lasts = datetime.fromisoformat(extended["until"]) - datetime.now(UTC)
    assert timedelta(hours=9) < lasts < timedelta(hours=11)
    assert "active" in succeed_here("offers", "extend", hold_id, "--hours", "10", *of)
    assert "ended by dealer" in succeed_here("offers", "end", hold_id, "--reason", "Sold", *of)
    assert json.loads(succeed_here("offers", "list", "--json", *of)) == []
    (ended,) = json.loads(succeed_here("offers", "list", "--all", "--json", *of))
    assert (ended["status"], ended["why"]) == ("ended by dealer", "Sold")


def test_a_hold_that_cannot_be_changed_says_why(offering: Offered) -> None:
    opened = offering(agents=0)
    of = ("--dir", opened.dealership.folder)
    for arguments, words in (
        (("show", "nothing"), "there is no quote and no hold nothing"),
        (("end", "nothing"), "There is no hold nothing"),
        (("extend", "nothing", "--hours", "1"), "There is no hold nothing"),
    ):
        refused = command_here("offers", *arguments, *of)
        assert (refused.returncode, words in refused.stderr) == (1, True), refused.stderr
    assert command_here("offers", "end", "nothing", "--reason", "a" * 201, *of).returncode == 2
