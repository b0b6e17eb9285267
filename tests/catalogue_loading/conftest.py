"""`stocked` is the folder of a dealership with its stock, to copy."""

from tests.server.conftest import stocked as stocked
