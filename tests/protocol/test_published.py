"""What buyers read: cards, the OpenAPI document, schemas and examples (docs/protocol.md#schemas)."""

import pytest
from tests.keeping import fail_where_they_differ
from tests.protocol.publishing import KEPT, documents

pytestmark = pytest.mark.requirement("schemas-served", "openapi-document")


def test_what_is_published_is_what_was_agreed() -> None:
    """Cards, OpenAPI document, schemas and examples are promises to agents that read them already."""
    fail_where_they_differ(KEPT, documents(), "tests.protocol.publishing")
