"""`python -m tests.installation.serving serve --dir FOLDER`: runs the service of an installation in the foreground."""

import argparse
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from dealer_agent.cli.serve import address_of
from dealer_agent.cli.uvicorn_server import listen, run
from dealer_agent.config.installation import load_installation


def main() -> None:
    """Serves until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    installation = load_installation(given.dir, os.environ)
    settings: Any = SimpleNamespace(
        directory=installation.directory, database_url=installation.database_url, service=installation.file.service
    )
    run(settings, listen("127.0.0.1", given.port), address_of("127.0.0.1", given.port), given.workers)


if __name__ == "__main__":
    main()
