"""The conditions and statements that the modules of this package share (`schema` has the tables)."""

from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    FromClause,
    Insert,
    Select,
    Table,
    and_,
    bindparam,
    insert,
    literal_column,
    select,
    text,
)

from dealer_agent.leads.statuses import RELEASED


def of_dealer(table: FromClause, /, **parameters: str) -> ColumnElement[bool]:
    """The condition that a row belongs to the dealer of the transaction: its parameter is `dealer`.

    `parameters` are columns that must have the values of these parameters.
    """
    wanted = {"dealer_id": "dealer"} | parameters
    return and_(*(table.c[column] == bindparam(parameter) for column, parameter in wanted.items()))


def rows_of(table: Table, kind: Any, /, **parameters: str) -> Select[Any]:
    """A SELECT of rows as in `of_dealer`, with the columns that the named tuple `kind` has."""
    return select(*(table.c[name] for name in kind._fields)).where(of_dealer(table, **parameters))


def of_lead(table: FromClause) -> ColumnElement[bool]:
    """The condition that a row belongs to the lead with the parameter `of_lead`."""
    return of_dealer(table, lead_id="of_lead")


def of_leads(table: FromClause) -> ColumnElement[bool]:
    """The condition that a row belongs to one of several leads: the parameter is `lead_ids`."""
    return of_dealer(table) & table.c.lead_id.in_(bindparam("lead_ids", expanding=True))


def same_lead(table: FromClause, other: FromClause) -> ColumnElement[bool]:
    """The condition that two rows belong to one lead."""
    return (table.c.dealer_id == other.c.dealer_id) & (table.c.lead_id == other.c.lead_id)


def shown_to_staff(of_leads: FromClause) -> ColumnElement[bool]:
    """The condition that a lead is one of the lists of staff: it neither waits in quarantine nor was refused there."""
    return of_leads.c.quarantine.is_(None) | (of_leads.c.quarantine == literal_column(f"'{RELEASED}'"))


def upsert(table: Table, action: str, *parameters: BindParameter[Any]) -> Insert:
    """An INSERT that does `action` if the primary key is already there. `action` is SQL, with these parameters.

    Both databases take the same SQL. SQLAlchemy has the clause for each of them, and importing both is slow.
    """
    key = ", ".join(table.primary_key.columns.keys())
    clause = text(f"ON CONFLICT ({key}) DO {action}").bindparams(*parameters)
    statement = insert(table)
    statement.apply_syntax_extension_point(lambda _: [clause], "post_values")
    return statement
