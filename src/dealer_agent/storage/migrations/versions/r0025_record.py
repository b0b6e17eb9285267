"""The record of the stock. It begins with the stock as it is, whose rows stay where they are: no table is copied."""

import json
from collections import defaultdict

import sqlalchemy as sa
from alembic import op

from dealer_agent.storage.migrations.tables import add_table, isolate

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    """Makes the tables, and stores where the record of each dealer begins."""
    add_table(
        "recorded_units",
        "vehicle_id revision",
        text="vehicle_id vin stock action",
        numbers="revision until first_seen changed_at updated_at",
        data="document",
        nullable="vin stock document",
        indexes=["until vehicle_id"],
    )
    add_table("record_starts", "", numbers="revision")
    # A column without a default changes no row, so a large table takes no time.
    op.add_column("imports", sa.Column("current_at", sa.BigInteger))
    op.add_column("imports", sa.Column("good_since", sa.LargeBinary))
    op.execute(
        "INSERT INTO record_starts (dealer_id, revision)"
        " SELECT dealer_id, max(revision) FROM imports GROUP BY dealer_id"
    )
    _add_held_units(op.get_bind())
    isolate(["recorded_units", "record_starts"])


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
