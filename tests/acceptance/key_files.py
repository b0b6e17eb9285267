"""The keys of a dealer whose folder holds leads, as the tests of `dealer-agent keys` see them."""

import subprocess
from pathlib import Path
from typing import Any

from tests.acceptance.asking import lead
from tests.acceptance.dealers import HONDA_VIN
from tests.acceptance.running import command_here
from tests.storage.calls import read

from dealer_agent.config import load_settings
from dealer_agent.encryption import Keyring, render
from dealer_agent.storage.privacy.reencryption import values_by_key
from dealer_agent.storage.store import Store

LEADS = 12


def key_file(folder: Path) -> Path:
    return folder / "dealer-agent.keys"


def ids_in(folder: Path) -> tuple[str, ...]:
    return Keyring.parse(key_file(folder).read_text()).ids


def entries(folder: Path) -> str:
    """The file's keys as a variable holds them."""
    return render(Keyring.parse(key_file(folder).read_text())).strip().replace("\n", ",")


def printed_key(env: str) -> str:
    """A new key for an environment that holds these entries."""
    return command_here("keys", "create", "--print", DEALER_AGENT_KEYS=env).stdout.strip()


def used(folder: Path, **env: Any) -> dict[str, int]:
    """How many values each key seals."""
    settings = load_settings(folder, env)
    with Store.open(settings.database_url, settings.cipher) as store:
        return {key_id: count for key_id, count in read(store, settings.dealer.id, values_by_key).items() if count}


def wanted(number: int, **members: Any) -> dict[str, Any]:
    return lead(number, vehicle_of_interest={"vin": HONDA_VIN}, **members)


def refused(done: subprocess.CompletedProcess[str], *expected: str) -> None:
    """Exit code 1 and plain words: `command` and `command_here` see to it that there is no traceback."""
    assert done.returncode == 1, done.stdout
    assert done.stderr.startswith("Error: ")
    for word in expected:
        assert word in done.stderr


def all_there(folder: Path, **env: Any) -> None:
    """Every lead is there, and can be read."""
    said = command_here("leads", "list", "--limit", "1000", "--dir", folder, **env)
    assert said.returncode == 0, said.stderr
    for number in range(LEADS):
        assert f"Example{number} " in said.stdout
