"""One run of `dealer-agent ask`: its options, the connection, exit codes and messages, and what `--wire` prints.

The options of a request are made from the types of its members. The filters are made from the table of the fields.
"""

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NoReturn, TypeVar

import anyio
import msgspec
import typer

from dealer_agent.cli.command import CommandTarget
from dealer_agent.cli.signer_options import AsOption, SignOption, read_signer
from dealer_agent.cli.terminal import err, fail, out, plain
from dealer_agent.client import DealerAgent, DealerAgentError, HttpExchange, Signer
from dealer_agent.client.errors import InvalidRequest, NotADealerAgent, Refused, Unreachable
from dealer_agent.client.result import Result
from dealer_agent.mcp_tools.words import SkillData, result_text
from dealer_agent.protocol.card import TOKEN_VARIABLE
from dealer_agent.protocol.errors import (
    CallerNotKnown,
    HoldConflict,
    HoldEnded,
    HoldLimit,
    VehicleNotFound,
    VehicleUnavailable,
)
from dealer_agent.protocol.offers import OfferHoldRequest, OfferQuoteRequest
from dealer_agent.protocol.requests import (
    FILTER_MEANINGS,
    FILTERED,
    Appointment,
    Customer,
    Filters,
    VehicleOfInterest,
    filter_members,
)
from dealer_agent.protocol.skill import InventoryVehicleRequest, LeadSubmitRequest, Skill

Answer = TypeVar("Answer")
Data = TypeVar("Data", bound=Result)


class Exit(IntEnum):
    """The exit codes beside 0 for a response."""

    FAILED = 1
    USAGE = 2
    REFUSED = 3
    NOT_FOUND = 4
    UNREACHABLE = 5


EXIT_CODES = (
    "Exit codes: 0 answered; 1 the response breaks the protocol, or nothing was sent; 2 a wrong option; 3 the dealer "
    "refused the request; 4 no such vehicle, or it is sold; 5 no dealer agent answers at URL."
)


@dataclass(frozen=True)
class AskSession:
    """The options of a command that asks the dealer at `url`. `given` are members of its request, as JSON values."""

    url: str
    given: dict[str, Any]
    token: str | None
    signer: Signer | None
    wire: bool
    binding: Literal["JSONRPC", "HTTP+JSON"] | None

    def run(self, work: Callable[[DealerAgent], Awaitable[Answer]], again: str = "") -> Answer:
        """What the function returns for the dealer's agent. An error ends the command with its exit code.

        `again` has options with which a lead is sent again unchanged.
        """

        async def connected() -> Answer:
            """Opens the agent, does the work, and closes the agent."""
            discovered = DealerAgent.discover(
                self.url,
                token=self.token,
                signer=self.signer,
                binding=self.binding,
                user_agent="ask",
                on_exchange=print_exchange if self.wire else None,
            )
            async with discovered as agent:
                return await work(agent)

        try:
            return anyio.run(connected)
        except DealerAgentError as error:
            _fail(error, again)

    def ask(
        self, skill: Skill, members: Mapping[str, Any], kind: type[Data], show: Callable[[Data], None] | None = None
    ) -> Any:
        """Asks, and shows the response to people, by default in words. Returns its data as received, for `--json`."""

        async def asked(agent: DealerAgent) -> tuple[Any, Data | None]:
            response = await agent.ask(skill, members)
            return response.data, None if out.quiet else response.typed(kind)

        data, typed = self.run(asked)
        if typed is not None and show is not None:
            show(typed)
        elif typed is not None:
            show_words(skill, typed)
        return data

    def with_filters(self, **members: Any) -> dict[str, Any]:
        """The members of a request, with the filters if any were given."""
        return ({"filters": self.given} if self.given else {}) | members

    def part(self, kind: type[msgspec.Struct]) -> dict[str, Any] | None:
        """The members of a part of a request; None if none was given."""
        return {name: self.given[name] for name in kind.__struct_fields__ if name in self.given} or None


def show_words(skill: Skill, response: Result, message: str | None = None) -> None:
    """Shows the data of a response in words."""
    out.print(plain(result_text(skill, SkillData(response.to_dict(), message))))


_FIELD_OF_FILTER = {name: row for row in FILTERED for name in filter_members(row)}
"""The row of the table of fields by the name of a filter."""


def _options(
    kind: type[msgspec.Struct], meanings: Mapping[str, str], *, required: bool = False, panel: str | None = None
) -> dict[str, tuple[Any, Any]]:
    """The options for these members of a type, with their help. With `required`, those that the type requires."""
    members = [field for field in msgspec.structs.fields(kind) if field.name in meanings]
    return {
        field.name: _option(field, meanings[field.name], required=required and field.required, panel=panel)
        for field in members
    }


def _option(field: msgspec.structs.FieldInfo, meaning: str, *, required: bool, panel: str | None) -> tuple[Any, Any]:
    """The annotation and the default of the option for a member, from its type."""
    kind = msgspec.inspect.type_info(field.type)
    option: dict[str, Any] = {"help": meaning, "metavar": "TEXT"}
    option_type: Any = str
    match kind:
        case msgspec.inspect.ListType(item_type=item):
            option_type = list[str]
            if isinstance(item, msgspec.inspect.LiteralType):
                # Typer has no list of literals.
                words = {str(word): str(word) for word in item.values}
                option_type = list[StrEnum(field.name, words)]  # type: ignore[misc]
                # The words are in the help: a metavar of all words would leave no room for the names of the options.
                option |= {"metavar": "WORD", "help": f"{meaning} One of {', '.join(map(str, item.values))}."}
        case msgspec.inspect.LiteralType(values=values):
            option_type = Literal[tuple(values)]
            del option["metavar"]
        case msgspec.inspect.IntType():
            option_type = int
            option |= {"min": kind.ge, "metavar": "NUMBER"}
        case msgspec.inspect.BoolType():
            # False does not constrain, so the option has no negative form.
            option_type = bool
            del option["metavar"]
    named = typer.Option(f"--{_dashed(field.name)}", rich_help_panel=panel, show_default=False, **option)
    if required:
        return Annotated[option_type, named], inspect.Parameter.empty
    return Annotated[option_type | None, named], None


def _meaning(name: str) -> str:
    """The label of the field, and what the published schema says of the filter."""
    row = _FIELD_OF_FILTER.get(name)
    end = {"_min": ", at least", "_max": ", at most"}.get(name[-4:], "")
    label = f"{row.field.label}{end}." if row else ""
    meaning = FILTER_MEANINGS.get(name, "")
    return label if label and label.startswith(meaning.rstrip(".")) else f"{label} {meaning}".strip()


def _dashed(name: str) -> str:
    return name.replace("_", "-")


TokenOption = Annotated[
    str | None,
    typer.Option(
        "--token",
        envvar=TOKEN_VARIABLE,
        metavar="TOKEN",
        help="The bearer token of the dealer. Other users of the machine can see options, but not the environment.",
    ),
]
WireOption = Annotated[
    bool,
    typer.Option("--wire", help="Print each request and response to the standard error. Tokens are left out."),
]
BindingOption = Annotated[
    Literal["JSONRPC", "HTTP+JSON"] | None,
    typer.Option("--binding", help="The binding. By default JSON-RPC, if the card has it."),
]
_COMMON: Final = {
    "context": (typer.Context, inspect.Parameter.empty),
    "token": (TokenOption, None),
    "sign": (SignOption, None),
    "origin": (AsOption, None),
    "wire": (WireOption, False),
    "binding": (BindingOption, None),
}


def _session(
    context: typer.Context,
    token: str | None,
    sign: Path | None,
    origin: str | None,
    wire: bool,
    binding: Any,
    **members: Any,
) -> nullcontext[AskSession]:
    """The session of a command: the request's members that were given, and how it is sent.

    `context.obj` is the URL of the dealer: the callback of the group `ask` has set it. A session has nothing to close,
    but `CommandTarget.open` must return a context manager.
    """
    # 0 and the empty text are values.
    chosen = {name: value for name, value in members.items() if value is not None and value != []}
    given = msgspec.to_builtins(chosen)
    return nullcontext(AskSession(context.obj, given, token, read_signer(sign, origin), wire, binding))


def _search(**options: Any) -> nullcontext[AskSession]:
    """A session whose filters are valid. Raises BadParameter."""
    session = _session(**options)
    try:
        msgspec.convert(session.enter_result.given, Filters)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$.")
        name = path.rstrip("`").partition("[")[0]
        raise typer.BadParameter(reason, param_hint=f"--{_dashed(name)}") from None
    return session


_FILTERS: Final = {name: _meaning(name) for name in Filters.__struct_fields__}
_NAMES_VEHICLE: Final = {"vin": "The VIN of the vehicle.", "stock": "Its stock number.", "vehicle_id": "Its id."}
_ZIP: Final = {"zip": "The buyer's ZIP code, for the offer there."}
_ZIP_OF_QUOTE: Final = {"zip": "The buyer's ZIP code, for taxes and charges there."}
_KEY: Final = "To repeat a request that may have arrived: the key that the failed command printed."
_KEY_OF_HOLD: Final = {"idempotency_key": f"{_KEY} The vehicle is then held once."}
_CUSTOMER: Final = {
    "first_name": "The customer's first name.",
    "last_name": "The customer's last name.",
    "email": "The customer's e-mail address.",
    "phone": "The customer's phone number, such as +12025550123.",
    "preferred_contact": "How the customer prefers to be contacted.",
}
_VISIT: Final = {
    "appointment_type": "The kind of visit, if the customer wants one.",
    "appointment_at": "The time of the visit, such as 2027-01-11T15:00:00Z.",
}
_REST: Final = {
    "message": "The customer's message.",
    "idempotency_key": f"{_KEY} The lead is then stored once.",
}

SESSION = CommandTarget(_COMMON, _session)
SEARCH = CommandTarget(_options(Filters, _FILTERS, panel="Filters") | _COMMON, _search)
"""A session with an option for each filter of the protocol."""
VEHICLE = CommandTarget(_options(InventoryVehicleRequest, _NAMES_VEHICLE | _ZIP) | _COMMON, _session)
QUOTE = CommandTarget(_options(OfferQuoteRequest, _ZIP_OF_QUOTE) | _COMMON, _session)
HOLD = CommandTarget(_options(OfferHoldRequest, _KEY_OF_HOLD) | _COMMON, _session)
LEAD = CommandTarget(
    _options(Customer, _CUSTOMER, required=True)
    | _options(VehicleOfInterest, _NAMES_VEHICLE)
    | _options(Appointment, _VISIT)
    | _options(LeadSubmitRequest, _REST)
    | _COMMON,
    _session,
)


def _fail(error: DealerAgentError, again: str) -> NoReturn:
    """Ends the command with what went wrong. `again` are the arguments with which a request can be sent again."""
    if isinstance(error, InvalidRequest):
        raise typer.BadParameter(plain(str(error)))
    lines = [_what_happened(error)]
    if isinstance(error, Refused):
        lines += [f"  {_one_line(str(problem))}" for problem in error.problems]
        lines += _facts_of(error)
        advice = _ADVICE.get(error.code, error.advice)
        if not error.problems and advice:
            lines.append(advice.replace("`", ""))
        if error.error_id:
            lines.append(f"If you ask the dealer about this error, give its id: {_one_line(error.error_id)}")
    if error.may_have_arrived and error.idempotency_key:
        lines.append(
            "The dealer may have the request. To send it again without a second one, repeat the command with "
            f"--idempotency-key {error.idempotency_key} {again}"
        )
    fail("\n".join(lines), _exit_code(error))


_ADVICE: Final = {
    CallerNotKnown.code: "To prove who you are, give --sign and --as, or --token with a token of the dealer."
}
"""What to do after an error, where the options of the command say it better than the protocol."""
_FACTS: Final = {
    HoldConflict.code: {"until": "Held until", "hold_id": "Your own hold of it"},
    HoldEnded.code: {"status": "Why"},
    HoldLimit.code: {"retry_after_seconds": "Seconds to wait"},
}
"""The members of `details` that the message of an error leaves out."""


def _facts_of(error: Refused) -> list[str]:
    facts = {words: error.details.get(name) for name, words in _FACTS.get(error.code, {}).items()}
    return [f"  {words}: {_one_line(str(value))}" for words, value in facts.items() if isinstance(value, str | int)]


def _what_happened(error: DealerAgentError) -> str:
    if not isinstance(error, Refused):
        return _one_line(str(error))
    message = "" if error.problems else f" {_one_line(error.message)}"
    return f"The dealer refused the request with {_one_line(error.code)}:{message}"


def _exit_code(error: DealerAgentError) -> Exit:
    """The exit code of the command for an error of the client."""
    match error:
        case Refused(code=VehicleNotFound.code | VehicleUnavailable.code):
            return Exit.NOT_FOUND
        case Refused():
            return Exit.REFUSED
        case Unreachable() | NotADealerAgent():
            return Exit.UNREACHABLE
    return Exit.FAILED


def _one_line(text: str) -> str:
    return " ".join(plain(text).split())


def print_exchange(exchange: HttpExchange) -> None:
    """Prints a request and its response to the standard error."""
    lines = [f"> {exchange.method} {exchange.url}"]
    lines += [f"> {name}: {value}" for name, value in exchange.request_headers.items()]
    lines += [">", *_body_lines(exchange.request)] if exchange.request else []
    lines.append("")
    if exchange.status:
        lines.append(f"< HTTP {exchange.status} after {exchange.seconds * 1000:.0f} ms")
        lines += [f"< {name}: {value}" for name, value in exchange.headers.items()]
        lines += ["<", *_body_lines(exchange.body)] if exchange.body else []
    else:
        lines.append("< no response")
    err.print("\n".join(plain(line) for line in (*lines, "")))


def _body_lines(body: bytes) -> list[str]:
    """JSON is indented. Other texts are as they came."""
    try:
        text = json.dumps(json.loads(body), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        text = body.decode("utf-8", "replace")
    return text.replace("\r", "\n").split("\n")
