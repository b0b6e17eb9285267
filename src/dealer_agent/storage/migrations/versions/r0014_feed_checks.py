"""What imports found and remember of their files, and the imports that were refused."""

from alembic import op

revision = "0014"
down_revision = "0012"

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
    """Adds the table, on PostgreSQL with its policy, and two columns of `imports`."""
    is_postgresql = op.get_bind().dialect.name == "postgresql"
    kind = "BYTEA" if is_postgresql else "BLOB"
    op.execute(f"ALTER TABLE imports ADD COLUMN findings {kind}")
    op.execute(f"ALTER TABLE imports ADD COLUMN shape {kind}")
    op.execute(REFUSED_IMPORTS.format(bytes=kind))
    op.execute("CREATE INDEX ix_refused_imports_at ON refused_imports (dealer_id, at)")
    if is_postgresql:
        op.execute("ALTER TABLE refused_imports ENABLE ROW LEVEL SECURITY")
        op.execute(
            "CREATE POLICY one_dealer ON refused_imports USING (dealer_id = current_setting('dealer_agent.dealer', "
            "true) OR current_setting('dealer_agent.dealer', true) = '*')"
        )
