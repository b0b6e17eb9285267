"""Defects for the checks of tokens: agents that treat tokens wrongly. Every skill needs one, unless said otherwise."""

from collections.abc import Callable

from dealer_agent.self_test.changing import When, answers, asks, calls, with_code, with_status
from dealer_agent.self_test.defect import AgentResponse, Call

WRONG_TOKEN = "not-a-token-0123456789"


def with_authorization(value: str | None) -> When:
    """Messages with this header."""
    return lambda call: call.method == "POST" and call.header("Authorization") == value


NO_TOKEN = with_authorization(None)
WRONG = with_authorization(f"Bearer {WRONG_TOKEN}")


def begins(scheme: str) -> When:
    """Requests whose Authorization begins with a scheme."""
    return lambda call: (call.header("Authorization") or "").startswith(scheme)


def has_unknown_member(call: Call) -> bool:
    """Requests with a payload that the schema does not allow."""
    return isinstance(call.payload, dict) and "no_such_member" in call.payload


answers("authentication.missing", with_status(403), NO_TOKEN, token=True)
answers(
    "authentication.every-skill",
    with_status(403),
    lambda call: call.skill == "inventory.vehicle" and NO_TOKEN(call),
    token=True,
)
answers(
    "authentication.lead",
    with_status(403),
    lambda call: call.skill == "lead.submit" and NO_TOKEN(call),
    token=True,
)
answers("authentication.missing-code", with_code("FORBIDDEN"), NO_TOKEN, token=True)
answers("authentication.challenge", lambda answer: answer.with_header("www-authenticate", None), NO_TOKEN, token=True)
answers("authentication.before-payload", with_status(422), has_unknown_member, token=True)
answers("authentication.wrong-scheme", with_status(400), begins("Basic "), token=True)
answers("authentication.wrong-token", with_status(403), WRONG, token=True)
calls("authentication.wrong-token-open", lambda call: call.with_header("Authorization", None), WRONG)
answers(
    "authentication.token-not-repeated",
    lambda answer: answer.with_header("x-received", WRONG_TOKEN),
    WRONG,
)
calls(
    "authentication.token-accepted",
    lambda call: call.with_header("Authorization", "Bearer of-another-process"),
    asks("inventory.facets.request", filters={}),
    token=True,
)
answers("authentication.scheme-case", with_status(401), begins("bearer "), token=True)


def is_metadata(call: Call) -> bool:
    """Requests for the metadata that says where tokens come from (RFC 9728)."""
    return call.path.startswith("/.well-known/oauth-protected-resource")


def without_error(answer: AgentResponse) -> AgentResponse:
    """Removes `error` from the challenge of a refusal."""
    named = next((value for name, value in answer.headers if name.lower() == "www-authenticate"), "")
    return answer.with_header("www-authenticate", named.replace('error="invalid_token", ', ""))


def with_member(name: str, value: object) -> Callable[[AgentResponse], AgentResponse]:
    """Changes a member of the metadata."""
    return lambda answer: answer.with_document(lambda document: document.update({name: value}))


answers("authentication.invalid-token", without_error, WRONG, token=True)
answers("authentication.metadata", lambda answer: answer.with_status(404), is_metadata, token=True)
answers("authentication.metadata-resource", with_member("resource", "http://127.0.0.1:8081"), is_metadata, token=True)
answers("authentication.metadata-issuers", with_member("authorization_servers", ["login"]), is_metadata, token=True)
