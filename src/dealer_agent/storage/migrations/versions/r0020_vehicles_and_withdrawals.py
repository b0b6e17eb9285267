"""The vehicle of a test drive, the quarters of an hour in which the drive takes it, and an index of withdrawals."""

from alembic import op

revision = "0020"
down_revision = "0019"

NAME_VEHICLES = """
    UPDATE appointments SET vehicle_id = (
        SELECT vehicle_id FROM leads
        WHERE leads.dealer_id = appointments.dealer_id AND leads.lead_id = appointments.lead_id
    )
    WHERE kind = 'test_drive'
"""

# A confirmed test drive has its place already. If two of them have one vehicle at one time, the older one takes it.
TAKE_VEHICLES = """
    INSERT INTO places (dealer_id, rooftop, kind, quarter, place, appointment_id)
    SELECT places.dealer_id, appointments.vehicle_id, 'vehicle', places.quarter, 0, places.appointment_id
    FROM places
    JOIN appointments ON appointments.dealer_id = places.dealer_id
        AND appointments.appointment_id = places.appointment_id
    WHERE appointments.kind = 'test_drive' AND appointments.vehicle_id IS NOT NULL
    ORDER BY appointments.created_at, appointments.appointment_id
    ON CONFLICT (dealer_id, rooftop, kind, quarter, place) DO NOTHING
"""

# The check of the table of withdrawals reads these events only.
INDEX_WITHDRAWALS = """
    CREATE INDEX ix_consent_events_withdrawals ON consent_events (dealer_id, number)
    WHERE kind IN ('revoked', 'revoked on another lead')
"""


def upgrade() -> None:
    """Adds the column and the index, and takes the vehicles of the visits that are there."""
    op.execute(INDEX_WITHDRAWALS)
    op.execute("ALTER TABLE appointments ADD COLUMN vehicle_id VARCHAR")
    op.execute(NAME_VEHICLES)
    op.execute(TAKE_VEHICLES)
