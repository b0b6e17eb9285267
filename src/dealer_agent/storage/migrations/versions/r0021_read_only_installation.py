"""On PostgreSQL, a transaction about all dealers only reads, and no settings of dealers."""

from alembic import op

revision = "0021"
down_revision = "0020"

TABLES = (
    "registered_dealers",
    "dealer_settings",
    "dealer_hosts",
    "dealer_keys",
    "revisions",
    "upkeep",
    "feeds",
    "feed_dealers",
    "alert_checks",
)
"""The tables whose policies let such a transaction do everything until now."""


def upgrade() -> None:
    """Replaces the policies."""
    if op.get_bind().dialect.name != "postgresql":
        return
    variable = "current_setting('dealer_agent.dealer', true)"
    for table in TABLES:
        op.execute(f"DROP POLICY one_dealer ON {table}")
        op.execute(f"CREATE POLICY one_dealer ON {table} USING (dealer_id = {variable})")
        if table != "dealer_settings":
            op.execute(f"CREATE POLICY all_dealers ON {table} FOR SELECT USING ({variable} = '*')")
