"""The MCP server of one dealer, on the low-level server of the official SDK. It knows no transport and no dealer.

To import this module takes 0.7 s of processor time and 26 MB, because of the SDK. So import it where the first MCP
request arrives.

A lead needs the person's consent. In the revision 2026-07-28, the response to the call asks for it, and the client
calls again with the answer and with a state that only this service can make: no session is needed. In older revisions,
the server sends a request of its own and waits. That works over stdio. Over HTTP the answer may reach another process:
there `server.mcp_questions` asks hosts of older revisions, and calls the tool as in the newest one."""

import json
from collections.abc import Awaitable, Callable, Mapping, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from dealer_agent.mcp_tools.advice import advised
from dealer_agent.mcp_tools.consent import ConsentTerms, agent_name, consented, lead_payload, question
from dealer_agent.mcp_tools.tools import (
    ALL_TOOLS,
    DETAILS,
    FILLED_IN_BY_THE_SERVER,
    KEY,
    TOOL_BY_NAME,
    Tool,
    compact_page,
    instructions,
)
from dealer_agent.mcp_tools.words import SkillData, SkillError, error_text, more_text, result_text
from dealer_agent.protocol.errors import IdempotencyConflict
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.protocol.request_problems import payload_problems
from dealer_agent.protocol.skill import (
    INVENTORY_SEARCH,
    INVENTORY_VEHICLE,
    LEAD_SUBMIT,
    OFFER_HOLD,
    VISIT_CANCEL,
    VISIT_MOVE,
    Skill,
)

LIST_SECONDS: Final = 300
"""How long a client may keep the list of tools."""
_KEYED: Final = (OFFER_HOLD, VISIT_MOVE, VISIT_CANCEL)
_ANSWER = "consent"
"""The name of the question in a call that needs an answer."""

Context = Any
"""`mcp.server.context.ServerRequestContext`, whose type parameters say nothing here."""
AskSkill = Callable[[Context, Skill, dict[str, Any]], Awaitable[SkillData | SkillError]]
"""Answers a skill. `payload` is a request payload that may be invalid."""


@dataclass(frozen=True)
class ToolServer:
    """What the tools of a dealer need. `skills` are the ids of those that the dealer offers.

    `refused` are the ids of those that the caller of this request may not use.
    """

    name: str
    version: str
    terms: ConsentTerms
    skills: frozenset[str]
    ask: AskSkill
    refused: Set[str] = frozenset()

    def server(self, security: RequestStateSecurity) -> Server[Any]:
        """A server. `security` protects the state of calls that wait for an answer."""
        made: Server[Any] = Server(
            self.name,
            version=self.version,
            title=self.terms.dealer,
            instructions=instructions(self.terms.dealer, self.skills),
            cache_hints={"tools/list": CacheHint(ttl_ms=LIST_SECONDS * 1000, scope="public")},
            get_tool_input_schema=lambda name: TOOL_BY_NAME[name].input_schema if name in TOOL_BY_NAME else None,
            on_list_tools=self._list,
            on_call_tool=self._call,
        )
        # Replaces the SDK's own traces: the service makes them.
        made.middleware[:] = [RequestStateBoundary(security, default_audience=None)]
        return made

    async def _list(self, _: Context, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=list(_listed(self.skills)))

    async def _call(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Answers the call of a tool. A lead may first need the answer of a person."""
        tool = TOOL_BY_NAME.get(params.name)
        if tool is None or tool.skill.id not in self.skills:
            names = ", ".join(each.name for each in ALL_TOOLS if each.skill.id in self.skills)
            raise MCPError(code=types.INVALID_PARAMS, message=f"No such tool. The tools are: {names}.")
        arguments = params.arguments or {}
        if tool.skill.is_lead:
            return await self._submit_lead(context, params, arguments)
        payload = dict(arguments)
        details = payload.pop(DETAILS) if isinstance(payload.get(DETAILS), bool) else False
        if tool.skill in _KEYED:
            # The same quote is held once. A visit may go back to a time that it had.
            payload[KEY] = f"mcp{payload.get('quote_id')}" if tool.skill is OFFER_HOLD else new_ulid()
        # `type` comes last: a model cannot choose another skill.
        response = await self.ask(context, tool.skill, payload | {"type": tool.skill.request_type})
        return _result(tool, response, payload, is_short=not details)

    async def _submit_lead(
        self, context: Context, params: types.CallToolRequestParams, arguments: dict[str, Any]
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Asks the person for consent through the host, then sends the lead. A model cannot give the consent."""
        claimed = [name for name in FILLED_IN_BY_THE_SERVER if name in arguments]
        if claimed:
            return _not_sent(
                f"Leave out {', '.join(claimed)}. You cannot consent for the person: this server asks the person, and "
                "adds these members itself."
            )
        agent = agent_name(_client_name(context))
        lead = lead_payload(arguments, agent)
        if LEAD_SUBMIT.id in self.refused or payload_problems(LEAD_SUBMIT, lead):
            # The person is not asked: the dealer refuses this lead, and says why. It counts as any other invalid lead.
            return _result(TOOL_BY_NAME[params.name], await self.ask(context, LEAD_SUBMIT, lead))
        if not _can_ask(context):
            return _not_sent(
                f"{self.terms.dealer} needs the person's own consent, and this host cannot ask the person for it "
                f"(MCP elicitation in a form is not available here). Do not try again. {self.terms.other_ways}"
            )
        is_modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        given = (params.input_responses or {}).get(_ANSWER)
        if is_modern and params.request_state is not None and isinstance(given, types.ElicitResult):
            state = json.loads(params.request_state)
            # A host with another name in the second call would be another sender: the dealer would store a second lead.
            lead = lead_payload(arguments, state["agent"])
            return await self._send(context, lead, given, state["text"], state["key"])
        message, form = question(lead, self.terms, await self._vehicle(context, lead))
        if not is_modern:
            try:
                answer = await context.session.elicit_form(message, form, related_request_id=context.request_id)
            except MCPError:
                return _not_sent(f"The host could not ask the person. {self.terms.other_ways}")
            return await self._send(context, lead, answer, self.terms.text, new_ulid())
        asked = types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=form))
        # A repeated call with the same state has the same key, so the dealer stores one lead.
        waiting = json.dumps({"text": self.terms.text, "key": new_ulid(), "agent": agent})
        return types.InputRequiredResult(input_requests={_ANSWER: asked}, request_state=waiting)

    async def _vehicle(self, context: Context, lead: dict[str, Any]) -> Mapping[str, Any] | None:
        """The listing that a lead is about, so that the person sees what the vehicle is."""
        named = lead.get("vehicle_of_interest", {})
        names = {name: value for name, value in named.items() if name in ("vehicle_id", "vin", "stock")}
        if not names or INVENTORY_VEHICLE.id not in self.skills:
            return None
        response = await self.ask(context, INVENTORY_VEHICLE, names | {"type": INVENTORY_VEHICLE.request_type})
        return response.data if isinstance(response, SkillData) else None

    async def _send(
        self, context: Context, lead: dict[str, Any], answer: types.ElicitResult, text: str, key: str
    ) -> types.CallToolResult:
        """Sends a lead if the person has agreed. `text` is the text that the person saw."""
        if answer.action != "accept":
            did = "declined" if answer.action == "decline" else "closed the question"
            return _not_sent(f"The person {did}. Ask what the person wants instead. {self.terms.other_ways}")
        agreed = consented(
            lead, answer.content or {}, replace(self.terms, text=text), lead["source_agent"], datetime.now(UTC)
        )
        if agreed is None:
            return _not_sent("The person ticked no way of contact, so the dealer may not get in touch.")
        response = await self.ask(context, LEAD_SUBMIT, agreed | {"idempotency_key": key})
        if isinstance(response, SkillError) and response.code == IdempotencyConflict.code:
            return _error("ALREADY SENT: The lead of this answer was sent before. Do not send it again.")
        return _result(TOOL_BY_NAME[LEAD_SUBMIT.rate_setting], response)


@cache
def _listed(skills: frozenset[str]) -> tuple[types.Tool, ...]:
    """The tools of these skills, as the protocol lists them."""
    return tuple(
        types.Tool(
            name=tool.name,
            title=tool.skill.name,
            description=tool.description,
            input_schema=tool.input_schema,
            output_schema=tool.output_schema,
            annotations=types.ToolAnnotations.model_validate(tool.annotations),
        )
        for tool in ALL_TOOLS
        if tool.skill.id in skills
    )


def _result(
    tool: Tool, response: SkillData | SkillError, arguments: Mapping[str, Any] | None = None, *, is_short: bool = False
) -> types.CallToolResult:
    """The result of a tool. If `is_short`, the vehicles of a page have their most important members."""
    if isinstance(response, SkillError):
        return _error(error_text(advised(tool, response)))
    data: Mapping[str, Any] = response.data
    text = result_text(tool.skill, response)
    try:
        text += more_text(tool.skill, data, arguments or {}, datetime.now(UTC))
        if is_short and tool.skill is INVENTORY_SEARCH:
            data = compact_page(data)
    except (AttributeError, KeyError, TypeError):
        # A foreign dealer agent with another form of data. `result_text` has said so.
        pass
    if tool.skill.is_lead and response.message is not None:
        data = {**data, "message": response.message}
    return types.CallToolResult(content=[types.TextContent(text=text)], structured_content=data)


def _not_sent(words: str) -> types.CallToolResult:
    return _error(f"NOT SENT: {words}")


def _error(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)


def _can_ask(context: Context) -> bool:
    """Whether the host can show the person a form, and the answer can reach this process."""
    offered = context.session.client_capabilities
    elicitation = None if offered is None else offered.elicitation
    if elicitation is None or (elicitation.form is None and elicitation.url is not None):
        return False
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS or bool(context.session.can_send_request)


def _client_name(context: Context) -> str | None:
    client = context.session.client_params
    return None if client is None else client.client_info.title or client.client_info.name
