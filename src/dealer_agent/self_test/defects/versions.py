"""Defects for the checks of versions: agents that read or answer the headers of A2A (version, extensions) wrongly."""

from dealer_agent.self_test.changing import When, answers, calls, error, with_status
from dealer_agent.self_test.defect import AgentResponse, Call

VERSION, EXTENSIONS = "A2A-Version", "A2A-Extensions"
UNKNOWN_VERSION, UNKNOWN_EXTENSION = "99.0", "https://extension.example/never-published/v7"
DRAFT = "https://draft.autoagentprotocol.invalid/extensions/aap/latest"

IN_QUERY = f"?{VERSION}="


def of_version(version: str | None) -> When:
    """Messages with this version in the header, and no version in the query."""
    return lambda call: call.method == "POST" and call.header(VERSION) == version and IN_QUERY not in call.url


def names_extension(call: Call) -> bool:
    """Requests with an extension that nobody has published."""
    return call.header(EXTENSIONS) == UNKNOWN_EXTENSION


def refused(answer: AgentResponse) -> AgentResponse:
    """Refuses a request without a reason."""
    return answer.with_status(400).with_body(b'{"error":{"code":400,"message":"No.","details":[]}}')


def _wrong_version(answer: AgentResponse) -> AgentResponse:
    """Refuses a request for its version."""
    return answer.with_status(400).with_body(b'{"error":{"code":400,"message":"VERSION_NOT_SUPPORTED","details":[]}}')


def as_current(call: Call) -> Call:
    """The request as one of the current version."""
    return call.with_header(VERSION, "1.0")


answers("versions.current", _wrong_version, of_version("1.0"))
answers("versions.absent", refused, of_version(None))
answers("versions.absent-published", refused, of_version(None))
answers("versions.later-minor", refused, of_version("1.7"))
answers("versions.patch", refused, of_version("1.0.1"))
calls("versions.unknown", as_current, of_version(UNKNOWN_VERSION))
answers("versions.unknown-status", with_status(422), of_version(UNKNOWN_VERSION))
answers("versions.unknown-number", error(lambda node: node.update(code=-32600)), of_version(UNKNOWN_VERSION))
answers(
    "versions.unknown-reason",
    error(lambda node: node["details"][0].update(reason="BAD_VERSION")),
    of_version(UNKNOWN_VERSION),
)
calls("versions.legacy", as_current, of_version("0.3"))
calls("versions.query", as_current, lambda call: f"{IN_QUERY}{UNKNOWN_VERSION}" in call.url)
answers("versions.query-current", refused, lambda call: f"{IN_QUERY}1.0" in call.url)
answers(
    "versions.extension-unknown-echo", lambda answer: answer.with_header(EXTENSIONS, UNKNOWN_EXTENSION), names_extension
)
calls("versions.absent-next", as_current, of_version(None))
calls(
    "versions.extension-absent-next",
    lambda call: call.with_header(EXTENSIONS, DRAFT),
    lambda call: call.method == "POST" and call.header(EXTENSIONS) is None,
)
