"""The feeds that are imported without a person, and their files."""

from alembic import op

revision = "0015"
down_revision = "0014"

TABLES = {
    "feeds": """
        CREATE TABLE feeds (
            dealer_id VARCHAR NOT NULL,
            name VARCHAR NOT NULL,
            source VARCHAR NOT NULL,
            digest {bytes} NOT NULL,
            since BIGINT NOT NULL,
            next_at BIGINT NOT NULL,
            late_hours INTEGER NOT NULL,
            failures INTEGER DEFAULT '0' NOT NULL,
            lease VARCHAR,
            leased_until BIGINT,
            seen {bytes},
            imported_hash {bytes},
            checked_at BIGINT,
            succeeded_at BIGINT,
            new_at BIGINT,
            imported_at BIGINT,
            fetch_problem VARCHAR,
            file_problem VARCHAR,
            CONSTRAINT pk_feeds PRIMARY KEY (dealer_id, name)
        )
    """,
    "feed_dealers": """
        CREATE TABLE feed_dealers (
            dealer_id VARCHAR NOT NULL,
            settings_number BIGINT NOT NULL,
            CONSTRAINT pk_feed_dealers PRIMARY KEY (dealer_id)
        )
    """,
    "feed_files": """
        CREATE TABLE feed_files (
            dealer_id VARCHAR NOT NULL,
            feed VARCHAR NOT NULL,
            file_id VARCHAR NOT NULL,
            name VARCHAR NOT NULL,
            size BIGINT NOT NULL,
            content_hash {bytes} NOT NULL,
            state VARCHAR NOT NULL,
            received_at BIGINT NOT NULL,
            finished_at BIGINT,
            revision BIGINT,
            problem VARCHAR,
            attempts INTEGER DEFAULT '0' NOT NULL,
            CONSTRAINT pk_feed_files PRIMARY KEY (dealer_id, feed, file_id)
        )
    """,
}

INSTALLATION_TABLES = ("feeds", "feed_dealers")


def upgrade() -> None:
    """Adds the tables, and on PostgreSQL their policies."""
    is_postgresql = op.get_bind().dialect.name == "postgresql"
    op.execute("ALTER TABLE imports ADD COLUMN feed VARCHAR")
    op.execute("ALTER TABLE refused_imports ADD COLUMN feed VARCHAR")
    for table, statement in TABLES.items():
        op.execute(statement.format(bytes="BYTEA" if is_postgresql else "BLOB"))
        if is_postgresql:
            this_dealer = "dealer_id = current_setting('dealer_agent.dealer', true)"
            if table in INSTALLATION_TABLES:
                this_dealer += " OR current_setting('dealer_agent.dealer', true) = '*'"
            op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
            op.execute(f"CREATE POLICY one_dealer ON {table} USING ({this_dealer})")
