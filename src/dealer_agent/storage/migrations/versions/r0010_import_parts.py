"""Imports that write in parts, and imports of some rooftops only."""

from alembic import op

revision = "0010"
down_revision = "0009"

UNIT_CHANGES = """
    CREATE TABLE unit_changes (
        dealer_id VARCHAR NOT NULL,
        vehicle_id VARCHAR NOT NULL,
        revision BIGINT NOT NULL,
        vin VARCHAR,
        stock VARCHAR,
        digest VARCHAR NOT NULL,
        document_hash {bytes} NOT NULL,
        first_seen BIGINT NOT NULL,
        changed_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL,
        sold_at BIGINT,
        unit {bytes},
        CONSTRAINT pk_unit_changes PRIMARY KEY (dealer_id, vehicle_id)
    )
"""


def upgrade() -> None:
    """Adds the table of an import's changes, and the rooftops of an import."""
    kind = "BYTEA" if op.get_bind().dialect.name == "postgresql" else "BLOB"
    op.execute(UNIT_CHANGES.format(bytes=kind))
    op.execute(f"ALTER TABLE imports ADD COLUMN rooftops {kind}")
