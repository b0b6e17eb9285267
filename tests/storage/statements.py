"""All statements of storage, and what they say about the dealer."""

from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

from sqlalchemy import (
    Alias,
    BinaryExpression,
    BindParameter,
    ClauseElement,
    ColumnClause,
    CompoundSelect,
    Delete,
    Insert,
    Select,
    Table,
    TextClause,
    Update,
    event,
    true,
)
from sqlalchemy.sql.operators import eq
from sqlalchemy.sql.visitors import iterate, replacement_traverse
from tests.storage.current import make_current
from tests.storage.samples import CIPHER, DEALER, KEYRING, import_rows, row, storing

import dealer_agent.storage
from dealer_agent.encryption import Cipher, Keyring
from dealer_agent.storage.deliveries.outbox import list_deliveries, retry_deliveries
from dealer_agent.storage.leads.prepared_statements import Prepared
from dealer_agent.storage.privacy.event_chain import Chain
from dealer_agent.storage.privacy.reencryption import reencrypt
from dealer_agent.storage.store import Store

Statement = Select[Any] | CompoundSelect[Any] | Insert | Update | Delete | TextClause


@cache
def statements_of_modules() -> dict[str, Statement]:
    """The statements of all modules by their names. A part of other statements has a private name."""
    found: dict[str, Statement] = {}
    for module in walk_packages(dealer_agent.storage.__path__, "dealer_agent.storage."):
        _, _, subject = module.name.rpartition(".")
        if ".migrations" in module.name or subject in ("database_roles", "isolation", "migrate"):
            continue  # They use no table of a dealer.
        for name, value in vars(import_module(module.name)).items():
            for number, statement in enumerate([] if name.startswith("_") else _statements_in(value)):
                if not any(statement is other for other in found.values()):
                    found[f"{subject}.{name}{number or ''}"] = statement
    return found


def _statements_in(value: Any) -> Iterator[Statement]:
    if isinstance(value, Statement):
        yield value
    elif isinstance(value, Prepared):
        yield from _statements_in(value.statement)
    elif isinstance(value, Chain):
        yield from _statements_in([value.read_end, value.set_mac, value.replace_end, value.add_row])
    elif isinstance(value, dict):
        yield from _statements_in(list(value.values()))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _statements_in(each)


def statements_made_on_the_way(url: str) -> dict[str, Statement]:
    """The statements that functions make, of a store that does what those functions are for."""
    make_current(url)
    known = list(statements_of_modules().values())
    made: dict[str, Statement] = {}
    with Store.open(url, CIPHER) as store:
        import_rows(store, [row("V1")])
        with store.lock(DEALER) as tx:
            storing("L1")(tx)
    renewed = Cipher(Keyring((("k-second", bytes(32)), *KEYRING.keys), permanent=KEYRING.permanent))
    with Store.open(url, renewed) as store:

        @event.listens_for(store._reader, "before_execute")
        @event.listens_for(store._writer, "before_execute")
        def note(_: Any, statement: Any, *__: Any) -> None:
            if isinstance(statement, Statement) and not any(statement is other for other in known):
                made.setdefault(str(statement), statement)

        assert sum(reencrypt(store, DEALER, 1)) > 0
        with store.write(DEALER) as tx:
            retry_deliveries(tx, delivery_id="D1", channel="crm")
            list_deliveries(tx, 1, state="waiting", channel="crm", lead_id="L1")
    return made


def is_of_dealer(element: Any) -> bool:
    """Whether it is the condition that a row belongs to the dealer of the transaction."""
    return isinstance(element, BinaryExpression) and element.operator is eq and "dealer" in _sides(element)


def without_dealer(statement: Any) -> Any:
    """The statement without all conditions about the dealer."""

    def replace(element: Any, **_: Any) -> ClauseElement | None:
        return true() if is_of_dealer(element) else None

    return replacement_traverse(statement, {}, replace)


def tables_without_dealer(statement: Any) -> set[str]:
    """The tables, and aliases of tables, whose rows may be those of another dealer than the transaction's."""
    parts = list(iterate(statement))
    for select in [part for part in parts if isinstance(part, Select)]:
        # A join along a foreign key gets its condition here.
        parts += [part for table in select.get_final_froms() for part in iterate(table)]
    same = {"dealer"}
    equal = [_sides(part) for part in parts if isinstance(part, BinaryExpression) and part.operator is eq]
    while more := {side for sides in equal if sides & same for side in sides} - same:
        same |= more
    # An upsert calls the row that it could not add `excluded`.
    return _tables_of(parts) - same - {"excluded"}


def _sides(comparison: BinaryExpression[Any]) -> set[str]:
    """The tables whose `dealer_id` it compares, and "dealer" for the transaction's dealer; empty for others."""
    sides = set()
    for side in (comparison.left, comparison.right):
        if isinstance(side, BindParameter) and side.key == "dealer":
            sides.add("dealer")
        elif isinstance(side, ColumnClause) and side.name == "dealer_id" and side.table is not None:
            sides.add(_name(side.table))
        else:
            return set()
    return sides


def _tables_of(parts: Iterable[Any]) -> set[str]:
    named = (part for part in parts if isinstance(part, ColumnClause) and part.table is not None)
    return {_name(part.table) for part in named if isinstance(part.table, Table | Alias)}


def _name(table: Any) -> str:
    return str(table.name)
