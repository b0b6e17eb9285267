"""From a stranger's first lead through quarantine to its release, with the commands that the mails name: real service.

See docs/how-to/quarantine.md.
"""

import json
import shlex
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.asking import asked, lead
from tests.acceptance.dealers import stocked_dealer
from tests.acceptance.running import command_here, eventually, serving, succeed_here
from tests.delivery.receivers import MailReceiver, always, receiving_mail

from dealer_agent.alerts.observing_agents import observe_agents
from dealer_agent.alerts.rules import AlertMessage
from dealer_agent.alerts.texts import mail_text
from dealer_agent.alerts.watches import watch_of_dealer
from dealer_agent.config import load_settings
from dealer_agent.storage.alerts import AlertState
from dealer_agent.storage.store import Store

pytestmark = pytest.mark.outside_protocol("the commands of quarantine")

SETTINGS = """
[[rooftops.deliver.directory]]
name = "crm"
path = "crm"

[mail]
host = "smtp.example.com"
from_address = "store@example.com"

[alerts]
mail = ["owner@example.com"]
"""


def json_of(folder: Path, *words: str) -> Any:
    return json.loads(succeed_here(*words, "--dir", folder, "--json"))


def commands_of_the_mail(folder: Path) -> dict[str, list[str]]:
    """The commands in the mail about the leads that wait now, by their first two words."""
    settings, now = load_settings(folder, {}), datetime.now(UTC)
    watch = watch_of_dealer(settings, {})
    assert watch is not None
    with Store.open(settings.database_url, settings.cipher) as store, store.read(settings.dealer.id, now) as tx:
        (seen,) = observe_agents(tx, watch.agents)["leads_quarantined"]
    state = AlertState("leads_quarantined", seen_at=now, started_at=now, **seen._asdict())
    return commands_in(mail_text(AlertMessage("change", started=(state,)), watch.receivers.sender).text)


def commands_in(text: str) -> dict[str, list[str]]:
    """The commands in a mail, by their first two words."""
    lines = (line.strip() for line in text.splitlines())
    found = [shlex.split(line)[1:] for line in lines if line.startswith("dealer-agent ")]
    return {" ".join(words[:2]): words for words in found}


def test_a_stranger_is_quarantined_and_a_person_lets_it_through_with_what_the_mail_says(tmp_path: Path) -> None:
    folder = stocked_dealer(tmp_path / "my store", SETTINGS)
    crm = folder / "crm"
    succeed_here("agents", "quarantine", "anonymous", "--reason", "too much spam", "--dir", folder)
    with serving(folder) as running:
        first = asked(running.url, "lead.submit", **lead(1, vehicle_of_interest={"stock": "F1"}))
        assert first["status"] == "received"
        assert json_of(folder, "leads", "list") == []
        (waits,) = json_of(folder, "leads", "quarantined")
        assert "1 lead in quarantine: see dealer-agent leads quarantined" in succeed_here(
            "leads", "list", "--dir", folder
        )
        assert (waits["id"], waits["sender"]) == (first["lead_id"], "anonymous")
        assert not list(crm.glob("*"))
        examined = json.loads(command_here("doctor", "--dir", folder, "--json").stdout)
        (found,) = [each for each in examined if each["check"] == "quarantine"]
        assert found["status"] == "warning"
        commands = commands_of_the_mail(folder)
        shown = succeed_here(*commands["leads show"])
        assert "It waits in quarantine" in shown
        assert f"dealer-agent leads release --dir {shlex.quote(str(folder))} {first['lead_id']}" in shown
        assert "1 lead released" in succeed_here(*commands["leads release"])
        eventually("the lead arrives", lambda: list(crm.glob("*.xml")))
        succeed_here(*commands["agents allow"])

        numbers = count(2)

        def another_arrives() -> bool:
            """Each time another customer: what is added to a lead that waits, waits too."""
            asked(running.url, "lead.submit", **lead(next(numbers)))
            return len(json_of(folder, "leads", "list")) == 2

        eventually("the next lead is in the list", another_arrives, every=1)
    entries = [(each["what"], each["lead_id"]) for each in json_of(folder, "accesses", "list")]
    assert ("leads release", first["lead_id"]) in entries


STAFF = """
[rooftops.deliver]
notify = ["staff@example.com"]

[mail]
host = "127.0.0.1"
port = {port}
security = "none"
from_address = "store@example.com"
"""


def test_three_commands_of_the_mail_about_a_lead_lead_from_quarantine_to_release(tmp_path: Path) -> None:
    """The dealer types only what the mail to the staff about the first lead of a stranger has."""
    with receiving_mail(MailReceiver(always("take"))) as mails:
        # The last rooftop of the file has these settings.
        folder = stocked_dealer(tmp_path / "my store", STAFF.format(port=mails.port))
        with serving(folder) as running:
            asked(running.url, "lead.submit", **lead(1, vehicle_of_interest={"stock": "F1"}))
            (first,) = eventually("the staff get the mail", lambda: texts_of(mails))
            commands = commands_in(first)
            succeed_here(*commands["agents quarantine"])
            numbers = count(2)

            def one_waits() -> Any:
                asked(running.url, "lead.submit", **lead(next(numbers), vehicle_of_interest={"stock": "F1"}))
                return json_of(folder, "leads", "quarantined")

            (waits,) = eventually("the leads wait", one_waits, every=1)
            assert waits["id"] in succeed_here(*commands["leads quarantined"])
            assert "1 lead released" in succeed_here(*commands["leads release"])
            (released,) = eventually("the staff get the lead", lambda: texts_of(mails, "It waited in quarantine since"))
            assert waits["id"] in released
            succeed_here(*commands_in(released)["agents allow"])
            assert json_of(folder, "agents", "show", "anonymous")["state"] == "allow"


def texts_of(mails: MailReceiver, words: str = "") -> list[str]:
    """The texts of the mails that have these words."""
    return [text for mailed in list(mails.taken) if words in (text := mailed.message.get_content())]


def test_a_refused_lead_says_why_and_stays_refused_and_unknown_names_decide_nothing(tmp_path: Path) -> None:
    folder = stocked_dealer(tmp_path / "store", SETTINGS)
    succeed_here("agents", "quarantine", "anonymous", "--dir", folder)
    with serving(folder) as running:
        ids = [asked(running.url, "lead.submit", **lead(number))["lead_id"] for number in range(3)]
    unknown = command_here("leads", "refuse", ids[0], "NOBODY", "--reason", "spam", "--dir", folder)
    assert unknown.returncode == 1
    assert "There is no lead NOBODY" in unknown.stderr
    assert len(json_of(folder, "leads", "quarantined")) == 3, "nothing was decided"
    done = json_of(folder, "leads", "refuse", ids[0], "--reason", "asks for pills")
    assert done == {"refused": [ids[0]], "not_waiting": [], "cancelled_visits": []}
    assert json_of(folder, "leads", "refuse", ids[0], "--reason", "again")["not_waiting"] == [ids[0]]
    shown = json_of(folder, "leads", "show", ids[0])
    assert (shown["quarantine"], shown["decided_why"]) == ("refused", "asks for pills")
    assert "asks for pills" in succeed_here("leads", "show", ids[0], "--dir", folder)
    assert sorted(json_of(folder, "leads", "release", "--agent", "anonymous")["released"]) == sorted(ids[1:])
    misspelt = command_here("leads", "release", "--agent", "anonymus", "--dir", folder)
    assert misspelt.returncode == 1
    assert "anonymus" in misspelt.stderr


def test_a_mark_is_shown_and_another_one_replaces_it(tmp_path: Path) -> None:
    folder = stocked_dealer(tmp_path / "store", SETTINGS)
    with serving(folder) as running:
        ids = [asked(running.url, "lead.submit", **lead(number))["lead_id"] for number in range(2)]
    assert json_of(folder, "leads", "mark", ids[0], "wrong")["mark"] == "wrong"
    assert json_of(folder, "leads", "mark", ids[0], "reached")["mark"] == "reached"
    assert [each["id"] for each in json_of(folder, "leads", "list", "--mark", "reached")] == [ids[0]]
    assert json_of(folder, "leads", "list", "--mark", "wrong") == []
    assert json_of(folder, "leads", "show", ids[0])["mark"] == "reached"
    agent = json_of(folder, "agents", "show", "anonymous")
    assert (agent["in_quarantine"], agent["last_30_days"]["leads"], agent["last_365_days"]["reached"]) == (0, 2, 1)
    (listed,) = json_of(folder, "agents", "list")
    assert (listed["leads"], listed["reached"], listed["bad"]) == (2, 1, 0)
    assert "marked it on" in succeed_here("leads", "show", ids[0], "--dir", folder)
    assert command_here("leads", "mark", "NOBODY", "sold", "--dir", folder).returncode == 1
    assert command_here("leads", "mark", ids[0], "nice", "--dir", folder).returncode == 2
