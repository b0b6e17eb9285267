"""The message envelope, sentence by sentence (docs/protocol.md#envelope)."""

import json
from typing import Any

import pytest
from tests.protocol.bodies import STEMS, WIRE, body, changed, decode, pointers, refused, request_type, response_type

from dealer_agent.protocol.envelope import Request
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.protocol.response_bodies import SkillResult, response_pieces


def reply_body(request: Request, message_id: str, answer: SkillResult) -> bytes:
    return b"".join(response_pieces(request, message_id, answer))


@pytest.mark.parametrize(
    ("pointer", "says"),
    [
        pytest.param("/message", "", marks=pytest.mark.requirement("message-required")),
        pytest.param(
            "/message/messageId",
            "",
            marks=pytest.mark.requirement("message-id-required"),
        ),
        pytest.param("/message/role", "", marks=pytest.mark.requirement("message-role")),
        pytest.param("/message/parts", "", marks=pytest.mark.requirement("one-data-part")),
        pytest.param("/message/parts/0/mediaType", "", marks=pytest.mark.requirement("part-media-type-required")),
        pytest.param(
            "/configuration",
            "acceptedOutputModes",
            marks=pytest.mark.requirement(
                "configuration-required", "deviation-configuration", "configuration-refusal-helps"
            ),
        ),
        pytest.param(
            "/configuration/acceptedOutputModes",
            "acceptedOutputModes",
            marks=pytest.mark.requirement("output-modes-required"),
        ),
    ],
)
@pytest.mark.requirement("envelope-absent-is-missing")
def test_an_absent_member_of_the_envelope_is_missing_at_its_own_pointer(pointer: str, says: str) -> None:
    error = refused(changed(body(), pointer))
    assert error.code == "MISSING_REQUIRED_FIELD"
    assert error.details["in"] == "envelope"
    assert pointers(error) == [pointer]
    assert error.details["errors"][0]["keyword"] == "required"
    assert says in error.message


@pytest.mark.parametrize(
    ("pointer", "value", "keyword"),
    [
        ("/message", [], "type"),
        ("/message", None, "type"),
        ("/message/messageId", 7, "type"),
        ("/message/messageId", None, "type"),
        pytest.param("/message/messageId", "", "minLength", marks=pytest.mark.requirement("message-id-not-empty")),
        ("/message/role", "ROLE_AGENT", "const"),
        ("/message/role", "ROLE_UNSPECIFIED", "const"),
        ("/message/role", 1, "const"),
        ("/message/parts", {}, "type"),
        ("/message/parts", "x", "type"),
        ("/message/parts/0", "x", "type"),
        ("/message/parts/0/data", "x", "type"),
        ("/message/parts/0/mediaType", 7, "type"),
        ("/message/parts/0/mediaType", None, "type"),
        ("/message/contextId", 7, "type"),
        ("/message/taskId", 7, "type"),
        ("/configuration", [], "type"),
        ("/configuration", None, "type"),
        ("/configuration/acceptedOutputModes", "application/json", "type"),
        ("/configuration/acceptedOutputModes/0", 7, "type"),
        pytest.param(
            "/configuration/acceptedOutputModes",
            [],
            "minItems",
            marks=pytest.mark.requirement("output-modes-not-empty"),
        ),
    ],
)
@pytest.mark.requirement("envelope-wrong-is-schema")
def test_a_wrong_member_of_the_envelope_fails_validation(pointer: str, value: object, keyword: str) -> None:
    error = refused(changed(body(), pointer, value))
    assert error.code == "SCHEMA_VALIDATION_FAILED"
    assert error.details["in"] == "envelope"
    assert (pointer, keyword) in [(each["instancePath"], each["keyword"]) for each in error.details["errors"]]


LACKING: list[dict[str, Any]] = [
    changed(body(), "/configuration"),
    changed(body(), "/configuration", {}),
    changed(body(), "/configuration/acceptedOutputModes", []),
]


@pytest.mark.parametrize("document", LACKING)
@pytest.mark.requirement("lenient-configuration")
def test_a_setting_lets_generic_clients_leave_out_the_configuration(document: dict[str, Any]) -> None:
    assert decode(document, lenient=True).skill.id == "inventory.search"
    assert refused(document).details["in"] == "envelope"


@pytest.mark.parametrize(("pointer", "value"), [("/configuration", None), ("/configuration/acceptedOutputModes", 7)])
@pytest.mark.requirement("lenient-configuration")
def test_the_setting_lets_nothing_wrong_through(pointer: str, value: object) -> None:
    assert refused(changed(body(), pointer, value), lenient=True).code == "SCHEMA_VALIDATION_FAILED"
    assert refused(changed(body(), "/configuration/acceptedOutputModes", ["text/html"]), lenient=True)


TEXT = {"text": "Find me a truck."}


@pytest.mark.parametrize("places", [(0,), (1,), (0, 2)])
@pytest.mark.requirement("text-parts-ignored")
def test_text_parts_beside_the_data_part_are_ignored(places: tuple[int, ...]) -> None:
    document = body()
    for place in places:
        document["message"]["parts"].insert(place, TEXT)
    assert decode(document).skill.id == "inventory.search"


@pytest.mark.parametrize("count", [0, 2, 3])
@pytest.mark.parametrize("beside", [[], [TEXT]])
@pytest.mark.requirement("no-or-two-data-parts", "one-data-part")
def test_there_is_exactly_one_data_part(count: int, beside: list[Any]) -> None:
    error = refused(changed(body(), "/message/parts", [*body()["message"]["parts"] * count, *beside]))
    assert error.code == "SCHEMA_VALIDATION_FAILED"
    assert pointers(error) == ["/message/parts"]
    assert error.details["in"] == "envelope"


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        pytest.param("/message/kind", "message", marks=pytest.mark.requirement("legacy-kind")),
        pytest.param("/message/parts/0/kind", "data", marks=pytest.mark.requirement("legacy-kind")),
        pytest.param("/message/role", "user", marks=pytest.mark.requirement("legacy-role")),
        pytest.param("/message/role", "agent", marks=pytest.mark.requirement("legacy-role")),
    ],
)
@pytest.mark.requirement("legacy-form", "data-part-members")
def test_the_legacy_form_is_refused_with_words_on_the_form_of_today(pointer: str, value: str) -> None:
    error = refused(changed(body(), pointer, value))
    assert error.code == "SCHEMA_VALIDATION_FAILED"
    assert pointers(error) == [pointer]
    assert "v0.3" in error.message
    assert "v1.0" in error.message


@pytest.mark.requirement("legacy-form")
def test_a_kind_on_a_text_part_is_the_legacy_form_too() -> None:
    document = body()
    document["message"]["parts"].append({"kind": "text", "text": "Hello"})
    assert pointers(refused(document)) == ["/message/parts/1/kind"]


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("/message/metadata", {"kind": "anything"}),
        ("/message/extensions", ["https://example.com/extension"]),
        ("/message/referenceTaskIds", ["7"]),
        ("/message/unheard_of", [1, {"kind": 2}]),
        ("/message/parts/0/metadata", {"a": 1}),
        ("/message/parts/0/filename", "x.json"),
        ("/configuration/historyLength", 3),
        ("/configuration/returnImmediately", True),
        ("/tenant", "acme"),
        ("/metadata", {"a": None}),
        ("/unheard_of", None),
    ],
)
@pytest.mark.requirement("other-members-ignored")
def test_other_members_of_the_envelope_are_ignored(pointer: str, value: object) -> None:
    assert decode(changed(body(), pointer, value)).skill.id == "inventory.search"


@pytest.mark.parametrize("skill", STEMS)
@pytest.mark.requirement("context-id")
def test_the_reply_repeats_the_context_id(skill: str) -> None:
    request = decode(changed(body(skill), "/message/contextId", 'a "context" 🚗'))
    assert request.context_id == 'a "context" 🚗'
    assert b'"contextId":"a \\"context\\" \xf0\x9f\x9a\x97"' in reply_body(request, new_ulid(), SkillResult(b"{}"))
    assert b"contextId" not in reply_body(decode(body(skill)), new_ulid(), SkillResult(b"{}"))


@pytest.mark.requirement("task-id")
def test_a_message_with_a_task_id_is_refused_because_the_agent_has_no_tasks() -> None:
    error = refused(changed(body(), "/message/taskId", "task-1"))
    assert (error.code, error.http, error.is_a2a) == ("TASK_NOT_FOUND", 404, True)


@pytest.mark.parametrize(
    "sent", [{"message": {"taskId": "task-1"}}, {"message": {"taskId": "task-1", "parts": [{"text": "hello"}]}}]
)
@pytest.mark.requirement("task-id")
def test_a_task_id_is_refused_before_the_rest_of_the_envelope(sent: dict[str, Any]) -> None:
    assert refused(sent).code == "TASK_NOT_FOUND"


OTHER_PART = {"raw": "AA==", "mediaType": "application/x-other"}


@pytest.mark.parametrize("parts", [[OTHER_PART], [OTHER_PART] * 9, [{"text": "hello", "mediaType": "text/plain"}]])
@pytest.mark.requirement("undeclared-media-types")
def test_a_message_with_only_unsupported_media_types_is_refused_and_the_error_lists_them(parts: list[Any]) -> None:
    error = refused({"message": {"parts": parts}})
    assert (error.code, error.http, error.json_rpc, error.is_a2a) == ("CONTENT_TYPE_NOT_SUPPORTED", 415, -32005, True)
    assert error.details["received"] == [part["mediaType"] for part in parts[:3]]


@pytest.mark.parametrize(
    "parts",
    [[], [OTHER_PART, {"text": "hello"}], [OTHER_PART, body()["message"]["parts"][0]], [OTHER_PART, 7],
     [{"data": {}, "mediaType": "application/x-other"}], [{"raw": "", "mediaType": request_type("inventory.search")}]],
)  # fmt: skip
@pytest.mark.requirement("undeclared-media-types")
def test_a_message_with_another_part_is_judged_as_a_whole(parts: list[Any]) -> None:
    assert refused({"message": {"parts": parts}}).json_rpc == -32602


@pytest.mark.parametrize("name", ["taskPushNotificationConfig", "pushNotificationConfig"])
@pytest.mark.requirement("push-configuration")
def test_a_push_notification_configuration_is_not_supported(name: str) -> None:
    error = refused(changed(body(), f"/configuration/{name}", {"url": "https://example.com/push"}))
    assert (error.code, error.http, error.is_a2a) == ("PUSH_NOTIFICATION_NOT_SUPPORTED", 400, True)


@pytest.mark.parametrize(
    ("skill", "vendor"),
    [
        pytest.param(skill, vendor, marks=pytest.mark.requirement("request-type"))
        for skill in STEMS
        for vendor in ("proto", "autoagent")
    ],
)
@pytest.mark.requirement("vocabulary-media-type")
def test_the_parts_media_type_is_the_skills_in_either_vocabulary(skill: str, vendor: str) -> None:
    request = decode(body(skill, vendor))
    assert request.skill.id == skill
    assert request.vocabulary.name == vendor


@pytest.mark.parametrize("skill", STEMS)
@pytest.mark.parametrize("other", [*STEMS, None])
@pytest.mark.requirement("part-media-type-of-skill")
def test_a_media_type_of_another_skill_is_refused(skill: str, other: str | None) -> None:
    if skill == other:
        return
    media_type = request_type(other) if other else "application/json"
    error = refused(changed(body(skill), "/message/parts/0/mediaType", media_type))
    assert error.code == "SCHEMA_VALIDATION_FAILED"
    assert pointers(error) == ["/message/parts/0/mediaType"]
    assert error.details["received"] == media_type
    assert request_type(skill) in error.message


@pytest.mark.parametrize("skill", STEMS)
@pytest.mark.requirement("part-media-type-of-skill")
def test_a_response_media_type_is_not_a_requests(skill: str) -> None:
    assert pointers(refused(changed(body(skill), "/message/parts/0/mediaType", response_type(skill)))) == [
        "/message/parts/0/mediaType"
    ]


@pytest.mark.parametrize("skill", STEMS)
@pytest.mark.parametrize("write", [str.upper, lambda text: text + "; charset=utf-8", lambda text: f" {text} ;v=1"])
@pytest.mark.requirement("part-media-type-compared-loosely")
def test_the_media_type_is_compared_without_case_and_parameters(skill: str, write: Any) -> None:
    sent = changed(body(skill, "autoagent"), "/message/parts/0/mediaType", write(request_type(skill, "autoagent")))
    assert decode(sent).vocabulary.name == "autoagent"


@pytest.mark.parametrize("skill", STEMS)
@pytest.mark.parametrize(
    ("modes", "covered"),
    [
        (["{proto}"], True),
        (["{autoagent}"], True),
        (["application/json"], True),
        (["*/*"], True),
        (["application/*"], True),
        (["text/plain", "image/png", "{proto}"], True),
        (["Application/JSON; charset=utf-8"], True),
        (["text/plain"], False),
        (["text/*"], False),
        (["{request}"], False),
        (["application/vnd.proto.something-else+json"], False),
        ([""], False),
    ],
)
@pytest.mark.requirement("output-modes-cover", "output-modes-refusal")
def test_the_output_modes_must_cover_the_response(skill: str, modes: list[str], covered: bool) -> None:
    words = {
        "{proto}": response_type(skill),
        "{autoagent}": response_type(skill, "autoagent"),
        "{request}": request_type(skill),
    }
    sent = changed(body(skill), "/configuration/acceptedOutputModes", [words.get(mode, mode) for mode in modes])
    if covered:
        assert decode(sent).skill.id == skill
        return
    error = refused(sent)
    assert error.code == "SCHEMA_VALIDATION_FAILED"
    assert pointers(error) == ["/configuration/acceptedOutputModes"]
    assert error.details["expected"] == response_type(skill)


@pytest.mark.requirement("output-modes-refusal")
def test_the_expected_output_mode_is_in_the_vocabulary_of_the_request() -> None:
    sent = changed(body("lead.submit", "autoagent"), "/configuration/acceptedOutputModes", ["text/plain"])
    assert refused(sent).details["expected"] == response_type("lead.submit", "autoagent")


@pytest.mark.parametrize("named", ["inventory.search", "inventory.search.response", "lead.cancel.request", "", "É"])
@pytest.mark.requirement("unknown-type", "error-unsupported-skill")
def test_an_unknown_type_is_an_unsupported_skill(named: str) -> None:
    error = refused(body("inventory.search", type=named))
    assert (error.code, error.http) == ("UNSUPPORTED_SKILL", 404)
    assert error.details["in"] == "payload"
    assert error.details["instancePath"] == "/type"


@pytest.mark.parametrize("value", [7, None, True, [], {}])
@pytest.mark.requirement("request-type", "null-refused")
def test_a_type_that_is_not_a_string_fails_validation(value: object) -> None:
    error = refused(body("inventory.search", type=value))
    assert error.code == "SCHEMA_VALIDATION_FAILED"
    assert (error.details["in"], pointers(error)) == ("payload", ["/type"])


@pytest.mark.requirement("request-type")
def test_a_payload_without_a_type_lacks_a_required_field() -> None:
    error = refused(changed(body(), "/message/parts/0/data/type"))
    assert error.code == "MISSING_REQUIRED_FIELD"
    assert (error.details["in"], pointers(error)) == ("payload", ["/type"])


@pytest.mark.requirement("duplicate-key")
def test_of_a_duplicate_key_the_last_counts() -> None:
    text = '{"type":"inventory.search.request","pagination":{"limit":0},"pagination":{"limit":7,"limit":9}}'
    sent = (
        b'{"message":{"messageId":"","messageId":"a","role":"ROLE_USER","parts":[{"data":%s,"mediaType":"%s"}]},%s}'
        % (
            text.encode(),
            request_type("inventory.search").encode(),
            b'"configuration":{"acceptedOutputModes":["*/*"]}',
        )
    )
    request = decode(sent)
    assert request.payload.pagination.limit == 9  # type: ignore[union-attr]


@pytest.mark.parametrize("skill", STEMS)
@pytest.mark.parametrize("vendor", ["proto", "autoagent"])
@pytest.mark.requirement("emits-v1-only", "reply-type-and-data", "reply-part")
def test_a_reply_is_of_the_v1_form_byte_for_byte(skill: str, vendor: str) -> None:
    reply = reply_body(decode(body(skill, vendor)), "01REPLY", SkillResult(b'{"a":1}', 'It is "here".'))
    assert reply.decode() == (
        '{"message":{"messageId":"01REPLY","role":"ROLE_AGENT","parts":[{"data":'
        f'{{"type":"{skill}.response","data":{{"a":1}},"message":"It is \\"here\\"."}},'
        f'"mediaType":"{response_type(skill, vendor)}"}}]}}}}'
    )
    assert WIRE.default.name == "proto"


@pytest.mark.requirement("context-id")
def test_a_reply_with_a_context_id_is_the_same_reply_with_one_member_more() -> None:
    answer = SkillResult(b'{"a":1}', "Here.")
    plain = json.loads(reply_body(decode(body()), "01REPLY", answer))
    reply = json.loads(reply_body(decode(changed(body(), "/message/contextId", "c1")), "01REPLY", answer))
    assert reply == {"message": {**plain["message"], "contextId": "c1"}}
