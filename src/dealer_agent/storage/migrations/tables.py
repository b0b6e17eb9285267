"""Makes tables in migrations. A migration imports nothing else of the application.

What a released migration makes never changes, so these functions do not either.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa
from alembic import op

TYPES: dict[str, type[sa.types.TypeEngine[Any]]] = {
    "text": sa.String,
    "numbers": sa.BigInteger,
    "counts": sa.Integer,
    "flags": sa.Boolean,
    "data": sa.LargeBinary,
    "sealed": sa.LargeBinary,
}


def add_table(
    name: str,
    key: str,
    *,
    of: str = "",
    cascades: bool = False,
    nullable: str = "",
    defaults: Mapping[str, str] = MappingProxyType({}),
    indexes: Sequence[str] = (),
    unique: Sequence[str] = (),
    **columns: str,
) -> None:
    """Makes a table with the columns of each type (`TYPES`). All names are split at spaces.

    The primary key and each index begin with `dealer_id`, and then have the named columns. Each row belongs to the row
    of the table `of` that has the same key. With `cascades`, it is deleted with that row.
    """
    described = [
        sa.Column(
            column,
            TYPES[kind],
            nullable=column in nullable.split(),
            server_default=defaults.get(column),
            comment="sealed" if kind == "sealed" else None,
        )
        for kind, names in columns.items()
        for column in names.split()
    ]
    constraints: list[sa.Constraint] = [sa.PrimaryKeyConstraint("dealer_id", *key.split(), name=f"pk_{name}")]
    if of:
        owner, owner_key = of.split(".")
        constraints.append(
            sa.ForeignKeyConstraint(
                ["dealer_id", owner_key],
                [f"{owner}.dealer_id", of],
                name=f"fk_{name}_{owner}",
                ondelete="CASCADE" if cascades else None,
            )
        )
    op.create_table(name, sa.Column("dealer_id", sa.String, nullable=False), *described, *constraints)
    for index in (*indexes, *unique):
        add_index(name, index, unique=index in unique)


def add_index(table: str, columns: str, where: str | None = None, *, unique: bool = False) -> None:
    """Makes an index that begins with `dealer_id`, of the rows that satisfy the condition `where`."""
    names = ["dealer_id", *columns.split()]
    condition = None if where is None else sa.text(where)
    op.create_index(
        f"ix_{table}_{'_'.join(names)}",
        table,
        names,
        unique=unique,
        sqlite_where=condition,
        postgresql_where=condition,
    )


def isolate(tables: Iterable[str], read_by_installation: Sequence[str] = ()) -> None:
    """Adds row-level security on PostgreSQL: a transaction reads and writes rows of its dealer.

    One about all dealers reads the tables `read_by_installation`.
    """
    variable = "current_setting('dealer_agent.dealer', true)"
    if op.get_bind().dialect.name != "postgresql":
        return
    for table in tables:
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        op.execute(f"CREATE POLICY one_dealer ON {table} USING (dealer_id = {variable})")
        if table in read_by_installation:
            op.execute(f"CREATE POLICY all_dealers ON {table} FOR SELECT USING ({variable} = '*')")
