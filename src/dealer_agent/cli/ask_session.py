"""One run of `dealer-agent ask`: the connection, exit codes and messages, and what `--wire` prints."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, NoReturn, TypeVar

import anyio
import typer

from dealer_agent.cli.terminal import err, fail, plain
from dealer_agent.client import DealerAgent, DealerAgentError, Exchange
from dealer_agent.client.errors import InvalidRequest, NotADealerAgent, Refused, Unreachable
from dealer_agent.protocol.errors import VehicleNotFound, VehicleUnavailable

Answer = TypeVar("Answer")


class Exit(IntEnum):
    """The exit codes beside 0 for an answer."""

    FAILED = 1
    USAGE = 2
    REFUSED = 3
    NOT_FOUND = 4
    UNREACHABLE = 5


EXIT_CODES = (
    "Exit codes: 0 answered; 1 the reply breaks the protocol, or nothing was sent; 2 a wrong option; 3 the dealer "
    "refused the request; 4 no such vehicle, or it is sold; 5 no dealer agent answers at URL."
)


@dataclass(frozen=True)
class Session:
    """The options of a command that asks the dealer at `url`."""

    url: str
    token: str | None
    wire: bool
    binding: Literal["JSONRPC", "HTTP+JSON"] | None
    as_json: bool

    def run(self, asked: Callable[[DealerAgent], Awaitable[Answer]], again: str = "") -> Answer:
        """What the function returns for the dealer's agent. An error ends the command with its exit code.

        `again` has options with which a lead is sent again unchanged.
        """

        async def connected() -> Answer:
            discovered = DealerAgent.discover(
                self.url,
                token=self.token,
                binding=self.binding,
                user_agent="ask",
                on_exchange=print_exchange if self.wire else None,
            )
            async with discovered as agent:
                return await asked(agent)

        try:
            return anyio.run(connected)
        except DealerAgentError as error:
            _fail(error, again)


def _fail(error: DealerAgentError, again: str) -> NoReturn:
    if isinstance(error, InvalidRequest):
        raise typer.BadParameter(plain(str(error)))
    lines = [_what_happened(error)]
    if isinstance(error, Refused):
        lines += [f"  {_one_line(str(problem))}" for problem in error.problems]
        if not error.problems and error.advice:
            lines.append(error.advice.replace("`", ""))
        if error.error_id:
            lines.append(f"To ask the dealer about it, name {_one_line(error.error_id)}.")
    if error.may_have_arrived and error.idempotency_key:
        lines.append(
            "The dealer may have the lead. To send it again without a second lead, repeat the command with "
            f"--idempotency-key {error.idempotency_key} {again}"
        )
    fail("\n".join(lines), _exit_code(error))


def _what_happened(error: DealerAgentError) -> str:
    if not isinstance(error, Refused):
        return _one_line(str(error))
    message = "" if error.problems else f" {_one_line(error.message)}"
    return f"The dealer refused the request with {_one_line(error.code)}:{message}"


def _exit_code(error: DealerAgentError) -> Exit:
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


def print_exchange(exchange: Exchange) -> None:
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
