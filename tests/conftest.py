"""What every test folder may use: `database_url`, which runs a test on SQLite and on PostgreSQL.

Every run ends with what its tests counted. `make test` generates the same cases in every run, `make soak` others each
time. No generated case fails for the time that it took: how long a machine keeps a process waiting says nothing about
the program.
"""

import gc
import os
import tempfile
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import certifi
import pytest
from hypothesis import HealthCheck, settings
from tests.soak import SOAK

pytest_plugins = [
    "tests.storage.compiled",
    "tests.storage.databases",
    "tests.servers.valkey",
    "tests.servers.pgbouncer",
    "tests.servers.haproxy",
    "tests.servers.prometheus",
    "tests.figures",
]

MEMORY = "/dev/shm"
"""Where Linux has a file system in memory."""
MOST_BYTES = 4 * 1024**3
"""More than what a whole run leaves in the folders of its tests."""

settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeat", settings.get_profile("explore"), derandomize=True, max_examples=50)
settings.register_profile("fast", settings.get_profile("repeat"), max_examples=10)
settings.load_profile("explore" if SOAK else "repeat")


def pytest_configure(config: pytest.Config) -> None:
    """Prepares the environment of all test processes, and of those that tests start."""
    if not hasattr(config, "workerinput"):
        _trust_one_authority(config)
        _keep_folders_in_memory()


def _trust_one_authority(config: pytest.Config) -> None:
    """For HTTP clients: to read all authorities of the internet takes 24 ms, for each of many clients."""
    folder = tempfile.TemporaryDirectory(prefix="dealer-agent-authority-")
    config.add_cleanup(folder.cleanup)
    trusted, end = Path(folder.name) / "authority.pem", "-----END CERTIFICATE-----\n"
    trusted.write_text("".join(certifi.contents().partition(end)[:2]), "utf-8")
    if "SSL_CERT_FILE" in os.environ:
        os.environ.setdefault("PIP_CERT", os.environ["SSL_CERT_FILE"])
    os.environ["SSL_CERT_FILE"] = str(trusted)


def _keep_folders_in_memory() -> None:
    """Has pytest make the folders of tests in memory, where there is room: there, no database waits for the disk."""
    with suppress(OSError):
        system = os.statvfs(MEMORY)
        if system.f_bavail * system.f_frsize >= MOST_BYTES and not system.f_flag & os.ST_NOEXEC:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)
            os.environ.setdefault("TMPDIR", os.environ["PYTEST_DEBUG_TEMPROOT"])
            tempfile.tempdir = None


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
