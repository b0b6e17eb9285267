"""A lead keeps the token of its sender, and the earlier lead that may be of the same person."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Adds two columns and an index to leads."""
    op.add_column("leads", sa.Column("token_id", sa.String))
    op.add_column("leads", sa.Column("may_be_same_person_as", sa.String))
    given = sa.text("may_be_same_person_as IS NOT NULL")
    op.create_index(
        "ix_leads_dealer_id_may_be_same_person_as",
        "leads",
        ["dealer_id", "may_be_same_person_as"],
        sqlite_where=given,
        postgresql_where=given,
    )
