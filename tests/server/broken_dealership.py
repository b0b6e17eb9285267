"""A process in which every search raises. It prints each response to stdout, and logs to stderr like a worker.

Run as `python broken_dealership.py DIRECTORY SECRET PROJECT`, in the folder of a dealership that is set up.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any


class Broken:
    """A catalogue whose exception has a message that must not get into a log or a response."""

    def __init__(self, secret: str) -> None:
        self.secret = secret

    def __len__(self) -> int:
        return 0

    def search(self, *_: Any) -> Any:
        raise ValueError(f"{self.secret}: SELECT * FROM leads; /srv/dealer/secrets.key")


def main() -> None:
    folder, secret, project = sys.argv[1:]
    sys.path.insert(0, project)
    from tests.server.dealership import message, run_dealership

    with run_dealership(Path(folder)) as opened:
        service = opened.service
        broken: Any = Broken(secret)
        service.dealer = replace(service.dealer, catalogue=broken)
        sent = message("inventory.search", filters={"query": f"{secret} customer"})
        for vendor in ("proto", "autoagent"):
            sent = message("inventory.search", vendor, filters={"query": f"{secret} customer"})
            answers = [opened.post(sent), opened.call_rpc(sent)]
            sys.stdout.write("".join(f"{answer.status_code} {answer.text}\n" for answer in answers))


if __name__ == "__main__":
    main()
