"""Tests of this folder may be coroutines."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
