"""The demo as a buyer's developer has it: `dealer-agent demo` in a process of its own."""

import signal
from collections.abc import Iterator

import httpx
import pytest
from tests.acceptance.conftest import offering as offering
from tests.acceptance.running import PATIENCE_SECONDS, eventually, free_port, started


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the running demo."""
    folder = tmp_path_factory.mktemp("demo")
    url = f"http://127.0.0.1:{(port := free_port())}"
    words = ["demo", "--dir", str(folder / "demo-store"), "--port", str(port)]
    process = started(words, folder / "log", folder / "log")

    def ready() -> bool:
        assert process.poll() is None, (folder / "log").read_text()
        return httpx.get(f"{url}/readyz", timeout=5).status_code == 200

    try:
        eventually("the demo is ready", ready)
        yield url
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE_SECONDS)
