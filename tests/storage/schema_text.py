"""A database's schema as text, which tests compare with a recorded one.

The files in `schemas/` were written from databases of commit 61e4e78, by its nine migrations.
"""

from sqlalchemy import Engine, inspect


def schema_text(engine: Engine) -> str:
    """The tables, columns, keys and indexes of a database, sorted by name."""
    found = inspect(engine)
    lines = []
    for table in sorted(found.get_table_names()):
        lines.append(table)
        lines += sorted(
            f"  column {column['name']} {column['type']!r}{'' if column['nullable'] else ' NOT NULL'}"
            f" default {column['default']} comment {column.get('comment')}"
            for column in found.get_columns(table)
        )
        key = found.get_pk_constraint(table)
        lines.append(f"  primary key {key['name']} {key['constrained_columns']}")
        for other in sorted(found.get_foreign_keys(table), key=str):
            lines.append(
                f"  foreign key {other['name']} {other['constrained_columns']} -> {other['referred_table']}"
                f" {other['referred_columns']} {other['options']}"
            )
        for index in sorted(found.get_indexes(table), key=lambda index: str(index["name"])):
            where = {name: str(value) for name, value in index.get("dialect_options", {}).items() if "where" in name}
            lines.append(f"  index {index['name']} {index['column_names']} unique {bool(index['unique'])} {where}")
    return "\n".join(lines) + "\n"
