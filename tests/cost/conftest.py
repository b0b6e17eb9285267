"""The fixtures of a dealership, as the server's own tests use them."""

from tests.server.conftest import stocked

__all__ = ["stocked"]
