"""`dealer-agent check --self-test`: the matrix of the defects, what the checker finds of them."""

import json

import pytest
from tests.acceptance.running import command_here

from dealer_agent.self_test.defect import broken

pytestmark = pytest.mark.outside_protocol("checker")


def test_the_matrix_names_each_chosen_defect_and_what_failed() -> None:
    done = command_here("check", "--self-test", "--only", "envelope.reply.role", "--only", "search.total", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [document["found"], document["of"]] == [3, 3]
    assert document["defects"][0] == {
        "name": "envelope.reply.role",
        "says": "Responds with the role `agent`.",
        "requirement": "envelope.reply.role",
        "level": "MUST",
        "found": "found",
        "others": [],
    }


def test_the_matrix_is_a_table_for_people() -> None:
    done = command_here("check", "--self-test", "--only", "authentication.missing")
    assert done.returncode == 0, done.stderr
    assert "1 of 1 defect found" in done.stdout
    assert "Answers 403 to a request without a token." in done.stdout


def test_a_name_of_no_defect_is_a_wrong_option() -> None:
    done = command_here("check", "--self-test", "--only", "envelope.reply.roll")
    assert done.returncode == 2
    assert "no defect has such a name" in done.stderr


def test_a_name_or_sentence_is_never_forgotten() -> None:
    with pytest.raises(KeyError, match="no sentence"):
        broken("no-such-subject.at-all")(None)  # type: ignore[arg-type]
