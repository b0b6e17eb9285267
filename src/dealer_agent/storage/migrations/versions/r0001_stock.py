"""The stock of each dealer, its revision, and the history of imports."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Makes dealers, revisions, units, unit_documents and imports."""
    op.create_table(
        "dealers",
        sa.Column("dealer_id", sa.String, nullable=False),
        sa.PrimaryKeyConstraint("dealer_id", name="pk_dealers"),
    )
    op.create_table(
        "revisions",
        sa.Column("dealer_id", sa.String, nullable=False),
        sa.Column("stock_revision", sa.BigInteger, nullable=False),
        sa.Column("token_revision", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("dealer_id", name="pk_revisions"),
    )
    op.create_table(
        "units",
        sa.Column("dealer_id", sa.String, nullable=False),
        sa.Column("vehicle_id", sa.String, nullable=False),
        sa.Column("vin", sa.String),
        sa.Column("stock", sa.String),
        sa.Column("digest", sa.String, nullable=False),
        sa.Column("document_hash", sa.LargeBinary, nullable=False),
        sa.Column("first_seen", sa.BigInteger, nullable=False),
        sa.Column("changed_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("sold_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("dealer_id", "vehicle_id", name="pk_units"),
    )
    op.create_index("ix_units_dealer_id_vin", "units", ["dealer_id", "vin"], unique=True)
    op.create_index("ix_units_dealer_id_sold_at", "units", ["dealer_id", "sold_at"])
    op.create_table(
        "unit_documents",
        sa.Column("dealer_id", sa.String, nullable=False),
        sa.Column("vehicle_id", sa.String, nullable=False),
        sa.Column("unit", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("dealer_id", "vehicle_id", name="pk_unit_documents"),
        sa.ForeignKeyConstraint(
            ["dealer_id", "vehicle_id"],
            ["units.dealer_id", "units.vehicle_id"],
            name="fk_unit_documents_units",
            ondelete="CASCADE",
        ),
    )
    op.create_table(
        "imports",
        sa.Column("dealer_id", sa.String, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("source", sa.String, nullable=False),
        sa.Column("layout", sa.String, nullable=False),
        sa.Column("full_file", sa.Boolean, nullable=False),
        sa.Column("added", sa.Integer, nullable=False),
        sa.Column("changed", sa.Integer, nullable=False),
        sa.Column("unchanged", sa.Integer, nullable=False),
        sa.Column("sold", sa.Integer, nullable=False),
        sa.Column("back", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("dealer_id", "revision", name="pk_imports"),
    )
