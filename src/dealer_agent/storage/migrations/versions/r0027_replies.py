"""Adds the tables of the record of replies."""

from dealer_agent.storage.migrations.tables import add_table, isolate

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    """Makes the tables with their index, and on PostgreSQL their policies."""
    add_table(
        "recorded_replies",
        "batch_id",
        text="batch_id settings_id",
        numbers="first_at last_at number revision",
        data="replies",
        indexes=["last_at"],
    )
    add_table("reply_settings", "settings_id", text="settings_id", numbers="used_at", data="document")
    isolate(["recorded_replies", "reply_settings"])
