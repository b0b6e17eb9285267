"""The options of `dealer-agent ask`: those of every command, and an option for each filter of the protocol."""

import inspect
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import wraps
from typing import Annotated, Any, Final, Literal

import msgspec
import typer

from dealer_agent.cli.ask_session import Session
from dealer_agent.cli.terminal import JsonOption
from dealer_agent.protocol.card import TOKEN_VARIABLE
from dealer_agent.protocol.requests import FILTER_MEANINGS, FILTERED, Filters, filter_members

_FILTERS: Final = "Filters"

_ROWS = {name: row for row in FILTERED for name in filter_members(row)}


def _filter_option(field: msgspec.structs.FieldInfo) -> Any:
    """The annotation of the option for a filter, from the type of the filter."""
    kind = msgspec.inspect.type_info(field.type)
    option: dict[str, Any] = {"help": _meaning(field.name), "metavar": "TEXT"}
    python: Any = str
    match kind:
        case msgspec.inspect.ListType(item_type=item):
            python = list[str]
            if isinstance(item, msgspec.inspect.LiteralType):
                # Typer has no list of literals.
                python = list[StrEnum(field.name, {str(word): str(word) for word in item.values})]  # type: ignore[misc]
                # The words are in the help: a metavar of all words would leave no room for the names of the options.
                option |= {"metavar": "WORD", "help": f"{option['help']} One of {', '.join(map(str, item.values))}."}
        case msgspec.inspect.IntType():
            python = int
            option |= {"min": kind.ge, "metavar": "NUMBER"}
        case msgspec.inspect.BoolType():
            # False is no constraint, so the option has no negative form.
            return Annotated[
                bool, typer.Option(f"--{_dashed(field.name)}", help=option["help"], rich_help_panel=_FILTERS)
            ]
    return Annotated[
        python | None, typer.Option(f"--{_dashed(field.name)}", rich_help_panel=_FILTERS, show_default=False, **option)
    ]


def _meaning(name: str) -> str:
    """The label of the field, and what the published schema says of the filter."""
    row = _ROWS.get(name)
    end = {"_min": ", at least", "_max": ", at most"}.get(name[-4:], "")
    label = f"{row.field.label}{end}." if row else ""
    meaning = FILTER_MEANINGS.get(name, "")
    return label if label and label.startswith(meaning.rstrip(".")) else f"{label} {meaning}".strip()


def _dashed(name: str) -> str:
    return name.replace("_", "-")


FILTER_OPTIONS: Final[Mapping[str, Any]] = {
    field.name: _filter_option(field) for field in msgspec.structs.fields(Filters)
}
"""The option of each filter, by the name of the filter."""

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
_COMMON: Final = {"token": TokenOption, "wire": WireOption, "binding": BindingOption, "as_json": JsonOption}
_DEFAULTS: Final = {"wire": False, "as_json": False}


def asks(command: Callable[..., None]) -> Callable[..., None]:
    """Makes a command of a function whose first parameter is a `Session`. The command has the options of all commands.

    A parameter `filters` becomes an option for each filter of the protocol. It gets those that were given.
    """
    own = list(inspect.signature(command).parameters.values())[1:]
    has_filters = any(each.name == "filters" for each in own)
    given = [each for each in own if each.name != "filters"]
    added = dict(FILTER_OPTIONS) if has_filters else {}
    options = [_option(name, kind) for name, kind in {**added, **_COMMON}.items()]

    @wraps(command)
    def run(context: typer.Context, **values: Any) -> None:
        common = {name: values.pop(name) for name in _COMMON}
        filters = {name: values.pop(name) for name in added}
        if has_filters:
            values["filters"] = _checked(filters)
        command(Session(context.obj, **common), **values)

    first = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    parameters = [first, *(each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in given), *options]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _checked(filters: dict[str, Any]) -> dict[str, Any]:
    """The filters that were given, as JSON values. Raises BadParameter."""
    given: dict[str, Any] = msgspec.to_builtins({name: value for name, value in filters.items() if value})
    try:
        msgspec.convert(given, Filters)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$.")
        name = path.rstrip("`").partition("[")[0]
        raise typer.BadParameter(reason, param_hint=f"--{_dashed(name)}") from None
    return given


def _option(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=_DEFAULTS.get(name, False if name == "dc_fast_charge" else None),
        annotation=annotation,
    )
