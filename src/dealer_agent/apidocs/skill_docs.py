"""The documentation of each skill, with an example: the content of skill_docs.json. Pure.

The people, phones and vehicles are invented. Replies are converted to the wire types, so they always have their shape.
"""

import json
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import Any

import msgspec

from dealer_agent.protocol.skill import INVENTORY_SEARCH, INVENTORY_VEHICLE, SKILL_BY_ID, Skill

EXAMPLE_VIN = "1HGCY2F57RA000001"


class SkillDocs(msgspec.Struct, frozen=True):
    """What the documentation says of one skill.

    `question` is what the skill answers, in a shopper's words. The example request has `message_id` and the members of
    `request` (`example_members`). The example reply has `reply` as its data, and `reply_message`.
    """

    question: str
    example_question: str
    message_id: str
    request: dict[str, Any]
    reply: Any
    reply_message: str | None = None


def _read() -> dict[Skill, SkillDocs]:
    text = files(__package__).joinpath("skill_docs.json").read_text("utf-8")
    docs = msgspec.json.decode(text, type=dict[str, SkillDocs])
    # The example of a vehicle is the one that the example of a search finds.
    docs[INVENTORY_VEHICLE.id].reply.update(docs[INVENTORY_SEARCH.id].reply["vehicles"][0])
    return {
        skill: msgspec.structs.replace(docs[skill_id], reply=msgspec.convert(docs[skill_id].reply, skill.data))
        for skill_id, skill in SKILL_BY_ID.items()
    }


SKILL_DOCS = _read()


def example_members(skill: Skill, now: datetime, vin: str) -> dict[str, Any]:
    """The members of an example request. `now` is when the customer of a lead consents. `vin` is the vehicle."""
    moment = now.astimezone(UTC).replace(microsecond=0)
    visit = (moment + timedelta(days=2)).replace(hour=19, minute=0, second=0)
    text = json.dumps(SKILL_DOCS[skill].request)
    for name, value in (
        ("NOW", f"{moment:%Y-%m-%dT%H:%M:%SZ}"),
        ("VISIT", f"{visit:%Y-%m-%dT%H:%M:%SZ}"),
        ("KEY", f"example-{moment:%Y%m%dT%H%M%S}-{vin}"),
        ("VIN", vin),
    ):
        text = text.replace(f'"{name}"', json.dumps(value))
    return json.loads(text)  # type: ignore[no-any-return]
