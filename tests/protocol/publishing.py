"""Every document that an invented dealer's agent publishes, and the files in `published/` that keep what it said last.

`.venv/bin/python -m tests.protocol.publishing` writes the files anew.
"""

from pathlib import Path
from typing import Any

from tests.keeping import keep

from dealer_agent.apidocs.examples import (
    STATUSES,
    curl_command,
    example_body,
    example_call,
    example_error,
    example_json_rpc_error,
    example_json_rpc_response,
    example_response,
    json_text,
)
from dealer_agent.apidocs.openapi import JSON_RPC_STATUSES, openapi_document
from dealer_agent.protocol.card import CardFacts, card_0_1_0, card_1_0_0
from dealer_agent.protocol.schemas import published_schemas
from dealer_agent.protocol.skill import SKILL_BY_ID, SKILLS, Skill
from dealer_agent.protocol.vocabulary import AUTOAGENT, proto, vocabularies_of

KEPT = Path(__file__).parent / "published"

EVERY_SKILL = frozenset(SKILL_BY_ID)


def facts(
    skills: tuple[Skill, ...] = SKILLS,
    *,
    root: str = "https://agent.example.com",
    below: str = "",
    bearer: frozenset[str] = frozenset(),
) -> CardFacts:
    """An invented dealer's facts: interfaces at the root of the service or below a base path."""
    return CardFacts(
        name="Example Motors",
        description="New and used cars in two towns.",
        version="1.2.3",
        organization="Example Motors Inc.",
        website="https://www.example.com",
        http_json_url=root + below,
        json_rpc_url=f"{root}{below}/rpc",
        schemas_url=f"{root}/schemas",
        documentation_url=f"{root}/docs",
        skills=skills,
        bearer_skills=bearer,
    )


def documents() -> dict[str, str]:
    """File name to text, made now: cards of every auth mode, the OpenAPI document, all schemas, all examples."""
    proto_first, autoagent_first = (vocabularies_of(first, proto()) for first in ("proto", "autoagent"))
    files: dict[str, Any] = {"openapi.json": openapi_document(facts(), proto_first)}
    for name, card in (("1.0.0", card_1_0_0), ("0.1.0", card_0_1_0)):
        files[f"cards/{name}.json"] = card(facts(), proto_first)
        files[f"cards/{name}.token-for-leads.json"] = card(facts(bearer=frozenset({"lead.submit"})), proto_first)
        files[f"cards/{name}.token-for-all.json"] = card(facts(below="/agents/7", bearer=EVERY_SKILL), autoagent_first)
    for name, schema in published_schemas().items():
        files[f"schemas/{name}"] = schema
    for vocabulary in (proto(), AUTOAGENT):
        replies = {skill.id: example_response(skill, vocabulary) for skill in SKILLS}
        files[f"examples/{vocabulary.name}.http-json.json"] = {
            **replies,
            **{str(status): example_error(status, vocabulary) for status in STATUSES},
        }
        calls = {skill.id: example_call(example_body(skill, vocabulary)) for skill in SKILLS}
        files[f"examples/{vocabulary.name}.json-rpc.json"] = {
            **calls,
            "reply": example_json_rpc_response(vocabulary),
            "refusal": example_json_rpc_error(vocabulary),
            **{
                str(status): example_json_rpc_error(vocabulary, status) for status in JSON_RPC_STATUSES if status != 405
            },
        }
    texts = {name: json_text(document) + "\n" for name, document in files.items()}
    commands = [
        curl_command(facts().http_json_url, skill, proto(), bearer=bearer, compact=compact)
        for skill in SKILLS
        for bearer, compact in ((False, False), (True, True))
    ]
    return texts | {"examples/curl.txt": "\n\n".join(commands) + "\n"}


if __name__ == "__main__":
    keep(KEPT, documents())
