"""The record of the stock. It begins with the stock as it is, whose rows stay where they are: no table is copied."""

import json
from collections import defaultdict

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    """Makes the tables, and stores where the record of each dealer begins."""
    op.create_table(
        "recorded_units",
        sa.Column("dealer_id", sa.String, nullable=False),
        sa.Column("vehicle_id", sa.String, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("until", sa.BigInteger, nullable=False),
        sa.Column("vin", sa.String),
        sa.Column("stock", sa.String),
        sa.Column("action", sa.String, nullable=False),
        sa.Column("first_seen", sa.BigInteger, nullable=False),
        sa.Column("changed_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("document", sa.LargeBinary),
        sa.PrimaryKeyConstraint("dealer_id", "vehicle_id", "revision", name="pk_recorded_units"),
    )
    op.create_index(
        "ix_recorded_units_dealer_id_until_vehicle_id", "recorded_units", ["dealer_id", "until", "vehicle_id"]
    )
    op.create_table(
        "record_starts",
        sa.Column("dealer_id", sa.String, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("dealer_id", name="pk_record_starts"),
    )
    # A column without a default changes no row, so a large table takes no time.
    op.add_column("imports", sa.Column("current_at", sa.BigInteger))
    op.add_column("imports", sa.Column("good_since", sa.LargeBinary))
    op.execute(
        "INSERT INTO record_starts (dealer_id, revision)"
        " SELECT dealer_id, max(revision) FROM imports GROUP BY dealer_id"
    )
    _add_held_units(op.get_bind())
    if op.get_bind().dialect.name == "postgresql":
        for table in ("recorded_units", "record_starts"):
            op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
            op.execute(
                f"CREATE POLICY one_dealer ON {table} USING (dealer_id = current_setting('dealer_agent.dealer', true))"
            )


def _add_held_units(connection: sa.Connection) -> None:
    """Adds the times of held units to the last import of each dealer. Units are held for a day, so they are few."""
    good: dict[str, dict[str, int]] = defaultdict(dict)
    held = sa.text("SELECT dealer_id, vehicle_id, good_at FROM held_units WHERE good_at IS NOT NULL")
    for dealer_id, vehicle_id, good_at in connection.execute(held):
        good[dealer_id][vehicle_id] = good_at
    update = sa.text(
        "UPDATE imports SET good_since = :good WHERE dealer_id = :dealer"
        " AND revision = (SELECT revision FROM record_starts WHERE dealer_id = :dealer)"
    ).bindparams(sa.bindparam("good", type_=sa.LargeBinary))
    for dealer_id, times in good.items():
        connection.execute(update, {"dealer": dealer_id, "good": json.dumps(times).encode()})
