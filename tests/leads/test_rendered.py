"""What becomes of a lead: for the CRM, for people, for their calendars and spreadsheets."""

import pytest
from tests.keeping import fail_where_they_differ
from tests.leads.rendering import KEPT, rendered

pytestmark = pytest.mark.outside_protocol("documents of deliveries")


@pytest.mark.usefixtures("machine_zone")
def test_documents_of_a_lead_are_equal_to_the_stored_ones_in_every_time_zone() -> None:
    """docs/reference/delivery.md: CRMs parse the ADF, and people know the mails."""
    fail_where_they_differ(KEPT, rendered(), "tests.leads.rendering")
