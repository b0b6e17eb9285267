"""What buyers see of the contract."""

import pytest
from tests.keeping import fail_where_they_differ
from tests.protocol.publishing import KEPT, documents

pytestmark = pytest.mark.requirement("schemas-served", "openapi-document")


def test_what_is_published_is_what_was_agreed() -> None:
    """Contract 2 to 4: cards, OpenAPI document, schemas and examples are promises to agents that read them already."""
    fail_where_they_differ(KEPT, documents(), "tests.protocol.publishing")
