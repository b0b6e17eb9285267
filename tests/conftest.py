"""What every test folder may use: `database_url`, which runs a test on SQLite and on PostgreSQL.

Every run ends with what its tests counted. `make test` generates the same cases in every run, `make soak` others each
time. No generated case fails for the time that it took: how long a machine keeps a process waiting says nothing about
the program.
"""

import gc
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings
from tests.soak import SOAK

pytest_plugins = [
    "tests.storage.databases",
    "tests.servers.valkey",
    "tests.servers.pgbouncer",
    "tests.servers.haproxy",
    "tests.servers.prometheus",
    "tests.figures",
]

settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeat", settings.get_profile("explore"), derandomize=True, max_examples=50)
settings.register_profile("fast", settings.get_profile("repeat"), max_examples=10)
settings.load_profile("explore" if SOAK else "repeat")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collecting makes a million objects that live as long as the process. The garbage collector ignores them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves tests with the mark `soak` to `make soak`, and to runs that choose by a mark."""
    if SOAK or config.option.markexpr:
        return
    left_out = [item for item in items if item.get_closest_marker("soak")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("soak")]
