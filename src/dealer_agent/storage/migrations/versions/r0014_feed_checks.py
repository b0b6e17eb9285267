"""What the checks of imports found, the imports that were refused, and what the next import is compared with."""

from alembic import op

revision = "0014"
down_revision = "0012"

FEED_SHAPES = """
    CREATE TABLE feed_shapes (
        dealer_id VARCHAR NOT NULL,
        rooftops VARCHAR NOT NULL,
        shape {bytes} NOT NULL,
        CONSTRAINT pk_feed_shapes PRIMARY KEY (dealer_id, rooftops)
    )
"""

REFUSED_IMPORTS = """
    CREATE TABLE refused_imports (
        dealer_id VARCHAR NOT NULL,
        refusal_id VARCHAR NOT NULL,
        at BIGINT NOT NULL,
        source VARCHAR NOT NULL,
        layout VARCHAR,
        rooftops {bytes},
        findings {bytes} NOT NULL,
        CONSTRAINT pk_refused_imports PRIMARY KEY (dealer_id, refusal_id)
    )
"""


def upgrade() -> None:
    """Adds the tables, on PostgreSQL with their policies, and a column of `imports`."""
    is_postgresql = op.get_bind().dialect.name == "postgresql"
    kind = "BYTEA" if is_postgresql else "BLOB"
    op.execute(f"ALTER TABLE imports ADD COLUMN findings {kind}")
    op.execute(FEED_SHAPES.format(bytes=kind))
    op.execute(REFUSED_IMPORTS.format(bytes=kind))
    op.execute("CREATE INDEX ix_refused_imports_at ON refused_imports (dealer_id, at)")
    for table in ("feed_shapes", "refused_imports") if is_postgresql else ():
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        op.execute(
            f"CREATE POLICY one_dealer ON {table} USING (dealer_id = current_setting('dealer_agent.dealer', true))"
        )
