"""The records of the skills."""

import pytest
from msgspec.inspect import StructType, type_info

from dealer_agent.protocol.skill import SKILLS, Skill

pytestmark = pytest.mark.requirement("request-type")


@pytest.mark.parametrize("skill", SKILLS, ids=lambda skill: skill.id)
def test_the_type_of_a_payload_has_the_id_of_its_skill(skill: Skill) -> None:
    payload = type_info(skill.payload)
    assert isinstance(payload, StructType)
    assert (payload.tag_field, payload.tag) == ("type", skill.request_type)
