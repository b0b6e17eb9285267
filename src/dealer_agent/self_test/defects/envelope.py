"""Defects for the checks of the envelope: agents that read or write the A2A message around a payload wrongly."""

from collections.abc import Callable
from typing import Any

from dealer_agent.self_test.changing import answers
from dealer_agent.self_test.defect import Agent, AgentResponse, Breaking, Call, Change, broken


def request_of(call: Call) -> dict[str, Any]:
    """The SendMessageRequest of a call, in either binding; empty if it has none."""
    document = call.document.get("params") if call.is_rpc else call.document
    return document if isinstance(document, dict) else {}


def message_of(call: Call) -> dict[str, Any]:
    """The message of a call; empty if it has none."""
    message = request_of(call).get("message")
    return message if isinstance(message, dict) else {}


def context_of(call: Call) -> Any:
    """The contextId of a call, which tells the requests of some checks from others."""
    return message_of(call).get("contextId")


# Responses


def _replies(change: Change, context: str | None = None) -> Breaking:
    """Changes the response message of each success, or of those with a context."""

    async def answer(call: Call, agent: Agent) -> AgentResponse:
        honest = await agent(call)
        return honest.with_message(change) if context in (None, context_of(call)) else honest

    return answer


def _payloads(change: Change, context: str | None = None) -> Breaking:
    """Changes the payload in the response of each success, or of those with a context."""
    return _replies(lambda message: change(message["parts"][0]["data"]), context)


def _changes_of_skill(skill: str, change: Change) -> Breaking:
    """Changes the response message of each success of a skill."""

    async def answer(call: Call, agent: Agent) -> AgentResponse:
        honest = await agent(call)
        return honest.with_message(change) if call.skill == skill else honest

    return answer


answers(
    "envelope.reply.message-alone",
    lambda answer: answer if answer.data is None else answer.with_document(lambda document: document.update(task={})),
    lambda call: call.skill == "inventory.search",
)


@broken("envelope.reply.message")
async def adds_a_task(call: Call, agent: Agent) -> AgentResponse:
    """Sends a task beside the message of each success."""
    answer = await agent(call)
    return answer if answer.data is None else answer.with_document(lambda document: document.update(task={"id": "1"}))


@broken("envelope.reply.message-id")
async def repeats_the_message_id(call: Call, agent: Agent) -> AgentResponse:
    """Gives its response the messageId of the request. Requests with a context belong to other checks."""
    answer = await agent(call)
    found = message_of(call).get("messageId")
    return answer if context_of(call) else answer.with_message(lambda message: message.update(messageId=found))


@broken("envelope.reply.message-id-unique")
async def has_one_message_id(call: Call, agent: Agent) -> AgentResponse:
    """Gives all its responses the same messageId."""
    return (await agent(call)).with_message(lambda message: message.update(messageId="01KE7AQ2N0V5X3J8R6T4Y9W1ZA"))


broken("envelope.reply.role")(_replies(lambda message: message.update(role="agent")))
broken("envelope.reply.one-part")(_replies(lambda message: message["parts"].append({"text": "Here you are."})))
broken("envelope.reply.media-type")(_replies(lambda message: message["parts"][0].update(mediaType="application/json")))
broken("envelope.reply.type")(_payloads(lambda payload: payload.update(type="response")))
broken("envelope.reply.data")(_payloads(lambda payload: payload.update(data=[]), "check-data"))
broken("envelope.reply.no-kind")(_replies(lambda message: message["parts"][0].update(kind="data")))


# The same defects in the responses of one skill only: a check that looks at another skill only misses them.


@broken("envelope.reply.message-id", name="envelope.reply.message-id.facets")
async def repeats_the_message_id_in_facets(call: Call, agent: Agent) -> AgentResponse:
    """Gives its responses to inventory.facets the messageId of the request."""
    answer = await agent(call)
    found = message_of(call).get("messageId")
    return (
        answer.with_message(lambda message: message.update(messageId=found))
        if call.skill == "inventory.facets"
        else answer
    )


broken("envelope.reply.media-type", name="envelope.reply.media-type.vehicle")(
    _changes_of_skill(
        "inventory.vehicle",
        lambda message: message["parts"][0].update(mediaType="application/vnd.proto.vehicle-detail-request+json"),
    )
)
broken("envelope.reply.type", name="envelope.reply.type.search")(
    _changes_of_skill("inventory.search", lambda message: message["parts"][0]["data"].pop("type"))
)
broken("envelope.reply.one-part", name="envelope.reply.one-part.facets")(
    _changes_of_skill("inventory.facets", lambda message: message["parts"].append(message["parts"][0]))
)
broken("envelope.reply.no-kind", name="envelope.reply.no-kind.search")(
    _changes_of_skill("inventory.search", lambda message: message["parts"][0].update(kind="data"))
)
broken("envelope.reply.role", name="envelope.reply.role.vehicle")(
    _changes_of_skill("inventory.vehicle", lambda message: message.update(role="agent"))
)
broken("envelope.reply.no-other-context")(
    _replies(lambda message: "contextId" in message and message.update(contextId="another"))
)
broken("envelope.reply.context-id")(_replies(lambda message: message.pop("contextId", None)))


@broken("envelope.reply.strict-json")
async def writes_a_byte_order_mark(call: Call, agent: Agent) -> AgentResponse:
    """Begins the body of each success with a byte order mark, which is not JSON."""
    answer = await agent(call)
    return answer.with_body(b"\xef\xbb\xbf" + answer.body) if answer.data is not None else answer


@broken("envelope.reply.integers-plain")
async def sends_doubles(call: Call, agent: Agent) -> AgentResponse:
    """Writes the msrp of vehicles with a decimal point: 30000.0."""

    def as_doubles(page: dict[str, Any]) -> None:
        for vehicle in page["vehicles"]:
            if "msrp" in vehicle:
                vehicle["msrp"] = float(vehicle["msrp"])

    answer = await agent(call)
    return answer.with_data(as_doubles) if call.skill == "inventory.search" else answer


# Requests that must be refused: the broken agent repairs them, and accepts them


def _repairs(repair: Callable[[dict[str, Any], dict[str, Any]], object]) -> Breaking:
    """Changes the request and its message in place, before the honest agent gets them.

    Requests with a context belong to other checks.
    """

    async def answer(call: Call, agent: Agent) -> AgentResponse:
        if context_of(call) is not None or not request_of(call).get("configuration"):
            return await agent(call)

        def change(document: Any) -> None:
            request = document["params"] if call.is_rpc else document
            message = request.get("message")
            repair(request, message if isinstance(message, dict) else {})

        return await agent(call.with_document(change))

    return answer


def _whole(request: dict[str, Any], wanted: Callable[[Any], bool]) -> None:
    """Puts a valid message where there is a wrong one."""
    if wanted(request.get("message")):
        part = {
            "mediaType": "application/vnd.proto.dealer-information-request+json",
            "data": {"type": "dealer.information.request"},
        }
        request["message"] = {"messageId": "1", "role": "ROLE_USER", "parts": [part]}


def _parts(message: dict[str, Any], change: Callable[[list[Any]], object]) -> None:
    """Changes the parts of a message in place, if they are a list."""
    if isinstance(message.get("parts"), list):
        change(message["parts"])


def _correct_media_type(parts: list[Any]) -> None:
    """Corrects the media type of a dealer.information request that has the one of inventory.vehicle.

    So the broken agent answers by the `type` of the payload alone. A correct agent refuses such a request.
    """
    for part in parts:
        is_information = isinstance(part.get("data"), dict) and part["data"].get("type") == "dealer.information.request"
        if is_information and "vehicle-detail" in part.get("mediaType", ""):
            part["mediaType"] = INFORMATION


def _add_payload_to_text(parts: list[Any]) -> None:
    """Adds a valid payload to the message that is only a text. So the broken agent answers a question in prose."""
    if parts and parts[0].get("text", "").startswith("Which"):
        parts.append(INFORMATION_PART)


INFORMATION = "application/vnd.proto.dealer-information-request+json"
INFORMATION_PART = {"mediaType": INFORMATION, "data": {"type": "dealer.information.request"}}

REPAIRS: dict[str, Callable[[dict[str, Any], dict[str, Any]], object]] = {
    "envelope.message-required": lambda request, _: _whole(request, lambda message: message is None),
    "envelope.message-id-required": lambda _, message: message and message.setdefault("messageId", "1"),
    "envelope.role-required": lambda _, message: message and message.setdefault("role", "ROLE_USER"),
    "envelope.parts-required": lambda _, message: message and message.setdefault("parts", [INFORMATION_PART]),
    "envelope.media-type-required": lambda _, message: _parts(
        message, lambda parts: [part.setdefault("mediaType", INFORMATION) for part in parts if "data" in part]
    ),
    "envelope.message-id-empty": lambda _, message: (
        message.update(messageId=message.get("messageId") or "1") if "messageId" in message else None
    ),
    "envelope.message-id-type": lambda _, message: (
        message.update(messageId=str(message["messageId"])) if "messageId" in message else None
    ),
    "envelope.message-type": lambda request, _: _whole(request, lambda message: isinstance(message, str)),
    "envelope.role-unknown": lambda _, message: (
        message.update(role="ROLE_USER") if message.get("role") == "ROLE_AGENT" else None
    ),
    "envelope.role-legacy": lambda _, message: (
        message.update(role="ROLE_USER") if message.get("role") == "user" else None
    ),
    "envelope.kind-on-message": lambda _, message: message.pop("kind", None),
    "envelope.kind-on-part": lambda _, message: _parts(
        message, lambda parts: [part.pop("kind", None) for part in parts]
    ),
    "envelope.parts-empty": lambda _, message: message.get("parts") == [] and message.update(parts=[INFORMATION_PART]),
    "envelope.two-data-parts": lambda _, message: _parts(
        message, lambda parts: parts.pop() if len(parts) == 2 and parts[0] == parts[1] else None
    ),
    "envelope.data-type": lambda _, message: _parts(
        message,
        lambda parts: [part.update(INFORMATION_PART) for part in parts if isinstance(part.get("data"), str)],
    ),
    "envelope.media-type-of-another-skill": lambda _, message: _parts(message, _correct_media_type),
    "envelope.modes-type": lambda request, _: (
        isinstance(request["configuration"].get("acceptedOutputModes"), str)
        and request["configuration"].update(acceptedOutputModes=["*/*"])
    ),
    "envelope.text-alone": lambda _, message: _parts(message, _add_payload_to_text),
    "envelope.payload-type-required": lambda _, message: _parts(
        message,
        lambda parts: [part["data"].update(INFORMATION_PART["data"]) for part in parts if part.get("data") == {}],
    ),
    "envelope.payload-type-unknown": lambda _, message: _parts(
        message,
        lambda parts: [
            part["data"].update(INFORMATION_PART["data"])
            for part in parts
            if isinstance(part.get("data"), dict) and "astrology" in str(part["data"].get("type"))
        ],
    ),
    "envelope.modes-mismatch": lambda request, _: (
        request["configuration"].get("acceptedOutputModes") == ["text/plain"]
        and request["configuration"].update(acceptedOutputModes=["*/*"])
    ),
    "envelope.task-id": lambda _, message: message.pop("taskId", None),
    "envelope.push-configuration": lambda request, _: request["configuration"].pop("taskPushNotificationConfig", None),
}

for _id, _repair in REPAIRS.items():
    broken(_id)(_repairs(_repair))


def _is_without(call: Call, *names: str) -> bool:
    """Whether a request has a message, and only the last one of these nested members is absent."""
    node: Any = request_of(call)
    for name in names:
        if not isinstance(node, dict):
            return False
        if name not in node:
            return name == names[-1] and "message" in request_of(call)
        node = node[name]
    return False


def _wrong_code(wanted: Callable[[Call], bool]) -> Breaking:
    """Answers some requests with the code of a failure inside the service."""

    async def answer(call: Call, agent: Agent) -> AgentResponse:
        honest = await agent(call)
        if not wanted(call):
            return honest
        return honest.with_error_payload(lambda payload: payload.update(code="INTERNAL_ERROR"))

    return answer


broken("envelope.configuration-required")(_wrong_code(lambda call: _is_without(call, "configuration")))
broken("envelope.modes-required")(_wrong_code(lambda call: _is_without(call, "configuration", "acceptedOutputModes")))


# Errors that do not help


def _errors(change: Change, context: str) -> Breaking:
    """Changes the errors of requests with this context."""

    async def answer(call: Call, agent: Agent) -> AgentResponse:
        honest = await agent(call)
        return honest.with_error(change) if context_of(call) == context else honest

    return answer


def _of_payload(error: dict[str, Any]) -> dict[str, Any]:
    """The error payload in an error of either binding."""
    data: Any = error.get("data", error.get("details"))
    payload: dict[str, Any] = data[1] if isinstance(data, list) else data
    return payload


broken("envelope.pointer")(
    _errors(lambda error: _of_payload(error)["details"].update(instancePath="/role"), "check-pointer")
)
broken("envelope.all-problems")(
    _errors(lambda error: _of_payload(error)["details"]["errors"].pop(), "check-all-problems")
)


@broken("envelope.legacy-explained")
async def says_bad_request(call: Call, agent: Agent) -> AgentResponse:
    """Refuses a message of an old revision with "Bad request." only, so that nobody learns what to change."""
    answer = await agent(call)
    if context_of(call) != "check-legacy":
        return answer

    def change(error: dict[str, Any]) -> None:
        error["message"] = _of_payload(error)["message"] = "Bad request."

    return answer.with_error(change)


@broken("envelope.modes-expected")
async def does_not_name_the_mode(call: Call, agent: Agent) -> AgentResponse:
    """Refuses unknown output modes without the name of the mode that it has."""
    answer = await agent(call)
    if context_of(call) != "check-expected":
        return answer
    return answer.with_body(answer.body.replace(b"dealer-information-response", b"the-right-one"))


# Requests that must be accepted


def _refuses(wanted: Callable[[Call], bool]) -> Breaking:
    """Answers some valid requests with the error of an unknown role."""

    async def answer(call: Call, agent: Agent) -> AgentResponse:
        if not wanted(call):
            return await agent(call)
        return await agent(call.with_document(lambda document: _message_in(document).update(role="ROLE_OTHER")))

    return answer


def _message_in(document: Any) -> dict[str, Any]:
    """The message in the JSON of a request, in either binding."""
    request = document.get("params", document)
    message: dict[str, Any] = request["message"]
    return message


def _has_part(call: Call, wanted: Callable[[dict[str, Any]], object]) -> bool:
    """Whether a part of the call's message is a wanted one."""
    parts = message_of(call).get("parts")
    return isinstance(parts, list) and any(isinstance(part, dict) and wanted(part) for part in parts)


def _has_modes(call: Call, *modes: str) -> bool:
    """Whether the call accepts exactly one output mode, and it is one of these."""
    configuration = request_of(call).get("configuration")
    return isinstance(configuration, dict) and configuration.get("acceptedOutputModes") in [[mode] for mode in modes]


def _has_two_modes(call: Call) -> bool:
    """Whether the call accepts two output modes."""
    configuration = request_of(call).get("configuration")
    return isinstance(configuration, dict) and len(configuration.get("acceptedOutputModes", ())) == 2


broken("envelope.text-beside-data")(
    _refuses(lambda call: _has_part(call, lambda part: part.get("text", "").startswith("Please")))
)
broken("envelope.media-type-case")(
    _refuses(lambda call: _has_part(call, lambda part: str(part.get("mediaType")).isupper()))
)
broken("envelope.media-type-parameters")(
    _refuses(lambda call: _has_part(call, lambda part: ";" in str(part.get("mediaType"))))
)
broken("envelope.modes-json")(_refuses(lambda call: _has_modes(call, "application/json")))
broken("envelope.modes-several")(_refuses(_has_two_modes))
broken("envelope.modes-wildcard")(_refuses(lambda call: _has_modes(call, "application/*")))
broken("envelope.unknown-members")(_refuses(lambda call: "futureMember" in message_of(call)))
broken("envelope.metadata")(_refuses(lambda call: "metadata" in message_of(call)))
