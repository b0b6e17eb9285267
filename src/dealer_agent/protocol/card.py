"""Makes the agent cards of both protocol revisions and of the published versions (docs/protocol.md#cards). Pure."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from dealer_agent.protocol.offers import OFFERS_EXTENSION
from dealer_agent.protocol.published_versions import VOCABULARIES, PublishedVersion
from dealer_agent.protocol.skill import SCOPES, Skill
from dealer_agent.protocol.vocabulary import Vocabularies

A2A_VERSION = "1.0"
BEARER_SCHEME = "bearer"
TOKEN_VARIABLE = "DEALER_AGENT_TOKEN"  # noqa: S105 - the name of a variable, not a token
"""The environment variable with the bearer token, for the example commands and for `dealer-agent ask`."""
HOLDERS: Final = ("token", "signed", "issued")
"""The classes of callers that can hold a vehicle: all that prove who they are."""
_IDEMPOTENT = {"idempotency": True}
"""Declares that a lead is stored once for each idempotency key (docs/protocol.md#card-idempotency)."""


@dataclass(frozen=True)
class CardIssuer:
    """An issuer whose access tokens the dealer accepts. `token_url` is empty if only its metadata has the URL.

    `scheme` is the name of its security scheme.
    """

    scheme: str
    openid_url: str
    token_url: str = ""


@dataclass(frozen=True)
class OfferTerms:
    """How long quotes and holds last, in seconds, and whether quotes have estimates of taxes."""

    quote_seconds: int
    hold_seconds: int
    estimates_taxes: bool


@dataclass(frozen=True)
class CardFacts:
    """The content of the card of one service. URLs are absolute, without a trailing slash.

    `skills` are switched on. `bearer_skills` are the ids of those that require a token. `issuers` give tokens besides
    the dealer. `consent_text` is what a tool shows to a person before it sends a lead (docs/how-to/mcp.md#consent).
    `offers` are the terms of the offers extension (docs/protocol.md#offers); None if the dealer does not have it.
    """

    name: str
    description: str
    version: str
    organization: str
    website: str
    http_json_url: str
    json_rpc_url: str
    schemas_url: str
    documentation_url: str
    skills: tuple[Skill, ...]
    bearer_skills: frozenset[str]
    consent_text: str = ""
    issuers: tuple[CardIssuer, ...] = ()
    offers: OfferTerms | None = None

    @property
    def scopes(self) -> dict[str, str]:
        """The scopes of the skills, with their meaning."""
        needed = {skill.scope for skill in self.skills}
        return {scope: meaning for scope, meaning in SCOPES.items() if scope in needed}

    @property
    def auth_type(self) -> str:
        """The value in revision 0.1.0: `bearer` if every skill requires a token, else `none`."""
        return "bearer" if self.skills and all(skill.id in self.bearer_skills for skill in self.skills) else "none"

    def at(self, base: str) -> "CardFacts":
        """The same facts of a service whose URLs start with `base`."""

        def moved(url: str) -> str:
            return base + url.removeprefix(self.http_json_url) if url.startswith(self.http_json_url) else url

        return replace(
            self,
            website=moved(self.website),
            http_json_url=base,
            json_rpc_url=moved(self.json_rpc_url),
            schemas_url=moved(self.schemas_url),
            documentation_url=moved(self.documentation_url),
        )


def card_1_0_0(facts: CardFacts, vocabularies: Vocabularies) -> dict[str, Any]:
    """The camelCase card of revision 1.0.0."""
    uris = [each.extension_1_0_0 for each in vocabularies.both]
    return _with_extension_id(_card(facts, vocabularies, uris, _consent_text(facts)))


def card_0_1_0(facts: CardFacts, vocabularies: Vocabularies) -> dict[str, Any]:
    """The snake_case card of revision 0.1.0. It has `auth_type` at its top and in the extension."""
    auth_type = {"auth_type": facts.auth_type}
    uris = [each.extension_0_1_0 for each in vocabularies.both if each.extension_0_1_0 is not None]
    card = _card(facts, vocabularies, uris, auth_type | _consent_text(facts))
    return _with_extension_id(auth_type | _in_snake_case(card))


def published_card(facts: CardFacts, version: PublishedVersion) -> dict[str, Any]:
    """The card of a published version: that of revision 1.0.0, with the addresses, the extension and the schemas of
    the version."""
    facts = replace(facts, skills=tuple(skill for skill in facts.skills if not skill.is_extension), offers=None)
    card = _card(facts, VOCABULARIES, [version.extension_uri], {})
    root = facts.http_json_url + version.path
    json_rpc, http_json = card["supportedInterfaces"]
    json_rpc["url"] = root + facts.json_rpc_url.removeprefix(facts.http_json_url)
    http_json["url"] = root
    if not version.has_http_json:
        card["supportedInterfaces"].remove(http_json)
    (extension,) = card["capabilities"]["extensions"]
    extension["required"] = version.needs_headers
    extension["params"] = {
        **_consent_text(facts),
        **_IDEMPOTENT,
        "version": version.name,
        "schema_base_url": version.schemas,
        "skills": {
            skill.id: {
                "request_schema": version.schema_url(skill, "request"),
                "response_schema": version.schema_url(skill, "response"),
            }
            for skill in facts.skills
        },
    }
    return _with_extension_id(card)


def _consent_text(facts: CardFacts) -> dict[str, str]:
    return {"consent_text": facts.consent_text} if facts.consent_text else {}


def _card(facts: CardFacts, vocabularies: Vocabularies, uris: list[str], params: dict[str, str]) -> dict[str, Any]:
    """The members that all cards have. `params` are those of the extension, under each of `uris`."""
    schemas = _schemas(facts, [skill for skill in facts.skills if not skill.is_extension])
    # The same profile under the names of both vocabularies: a buyer looks for the name that it knows.
    extensions = [
        {
            "uri": uri,
            "description": "Automotive retail: dealer information, inventory and leads.",
            "required": False,
            "params": {**params, **_IDEMPOTENT, "skills": schemas},
        }
        for uri in uris
    ]
    if facts.offers is not None:
        extensions.append(_offers_extension(facts, facts.offers))
    card: dict[str, Any] = {
        "name": facts.name,
        "description": facts.description,
        "version": facts.version,
        "provider": {"organization": facts.organization, "url": facts.website},
        "documentationUrl": facts.documentation_url,
        # JSON-RPC is first: every agent supports it.
        "supportedInterfaces": [
            {"url": facts.json_rpc_url, "protocolBinding": "JSONRPC", "protocolVersion": A2A_VERSION},
            {"url": facts.http_json_url, "protocolBinding": "HTTP+JSON", "protocolVersion": A2A_VERSION},
        ],
        "capabilities": {"streaming": False, "pushNotifications": False, "extensions": extensions},
        "defaultInputModes": [mode for skill in facts.skills for mode in vocabularies.request_types(skill)],
        "defaultOutputModes": [mode for skill in facts.skills for mode in vocabularies.response_types(skill)],
        "skills": [_skill_entry(skill, facts, vocabularies) for skill in facts.skills],
    }
    if facts.bearer_skills or facts.issuers:
        bearer = {BEARER_SCHEME: {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}
        card["securitySchemes"] = bearer | {each.scheme: _scheme_of(each, facts) for each in facts.issuers}
    if facts.auth_type == "bearer":
        card["securityRequirements"] = _requirements(facts, [*facts.scopes])
    return card


def _schemas(facts: CardFacts, skills: Iterable[Skill]) -> dict[str, dict[str, str]]:
    """The URLs of the schemas of each skill."""
    return {
        skill.id: {
            "request_schema": f"{facts.schemas_url}/{skill.request_type}.json",
            "response_schema": f"{facts.schemas_url}/{skill.response_type}.json",
        }
        for skill in skills
    }


def _offers_extension(facts: CardFacts, terms: OfferTerms) -> dict[str, Any]:
    """The offers extension (docs/protocol.md#offers)."""
    return {
        "uri": OFFERS_EXTENSION,
        "description": "Signed quotes with all-in prices, holds of vehicles, and what follows a lead.",
        "required": False,
        "params": {
            "quote_seconds": terms.quote_seconds,
            "hold_seconds": terms.hold_seconds,
            "holders": [*HOLDERS],
            "estimates_taxes": terms.estimates_taxes,
            "skills": _schemas(facts, [skill for skill in facts.skills if skill.is_extension]),
        },
    }


def _scheme_of(issuer: CardIssuer, facts: CardFacts) -> dict[str, Any]:
    """The security scheme of an issuer, as A2A 1.0 has it."""
    if not issuer.token_url:
        return {"openIdConnectSecurityScheme": {"openIdConnectUrl": issuer.openid_url}}
    flow = {"tokenUrl": issuer.token_url, "scopes": facts.scopes}
    return {"oauth2SecurityScheme": {"flows": {"clientCredentials": flow}}}


def _requirements(facts: CardFacts, scopes: list[str]) -> list[dict[str, Any]]:
    """The schemes of which a caller needs one: a token of the dealer, or one of an issuer with these scopes."""
    schemes = {BEARER_SCHEME: [], **{issuer.scheme: scopes for issuer in facts.issuers}}
    return [{"schemes": {name: {"list": needed}}} for name, needed in schemes.items()]


def _skill_entry(skill: Skill, facts: CardFacts, vocabularies: Vocabularies) -> dict[str, Any]:
    """A skill as the card lists it."""
    entry = {
        "id": skill.id,
        "name": skill.name,
        "description": skill.description,
        "tags": skill.tags,
        "inputModes": vocabularies.request_types(skill),
        "outputModes": vocabularies.response_types(skill),
    }
    if skill.id not in facts.bearer_skills:
        return entry
    return entry | {"securityRequirements": _requirements(facts, [skill.scope])}


def _in_snake_case(node: Any) -> Any:
    """A JSON value whose member names are in snake case, as on cards of revision 0.1.0. Other texts do not change."""
    if isinstance(node, dict):
        # Skill ids have no capitals, so they do not change.
        return {
            re.sub("[A-Z]", lambda m: "_" + m[0].lower(), name): _in_snake_case(item) for name, item in node.items()
        }
    if isinstance(node, list | tuple):
        return [_in_snake_case(item) for item in node]
    return node


def _with_extension_id(card: dict[str, Any]) -> dict[str, Any]:
    """The card with `params.id` in its extensions. The id changes when any value on the card changes."""
    digest = hashlib.sha256(msgspec.json.encode(card)).hexdigest()[:16]
    for extension in card["capabilities"]["extensions"]:
        extension["params"]["id"] = digest
    return card
