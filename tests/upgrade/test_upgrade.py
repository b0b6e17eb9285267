"""The previous release beside this version: on one PostgreSQL database, and one after the other on a SQLite file."""

import shutil
from collections import Counter
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.asking import asked, lead
from tests.acceptance.dealers import FORD_VIN, stock_of_three, write_dealer, write_feed
from tests.acceptance.running import Running, command, eventually, serving, succeed_here
from tests.delivery.receivers import HttpReceiver, always, receiving_http
from tests.soak import SOAK
from tests.storage.databases import fresh_schema
from tests.storage.service_role import as_role, drop_roles, roles_of
from tests.upgrade.previous import PROGRAM, unpacked

pytestmark = pytest.mark.outside_protocol("upgrades")

LEADS = 200 if SOAK else 5


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The environment of the previous release."""
    return unpacked(tmp_path_factory.mktemp("previous"))


@pytest.fixture
def admin(postgresql_server: str) -> Iterator[str]:
    """The URL of an empty schema, for a superuser."""
    with fresh_schema(postgresql_server) as url:
        yield url
        drop_roles(postgresql_server, roles_of(url))


def run_previous(*arguments: str | Path, **env: Any) -> None:
    """Runs a command of the previous release, which must work."""
    done = command(*arguments, program=PROGRAM, **env)
    assert done.returncode == 0, done.stderr


def submitted(services: list[Running], numbers: range) -> dict[str, str]:
    """The ids of leads, sent to the services in turn, by idempotency key."""
    answered = {}
    for number in numbers:
        url, key = services[number % len(services)].url, f"key-{number}"
        answered[key] = asked(url, "lead.submit", **wanted(number))["lead_id"]
    return answered


def has_units(url: str, number: int) -> bool:
    """Whether a service has so many vehicles."""
    return bool(asked(url, "inventory.search")["total"] == number)


@cache
def wanted(number: int) -> dict[str, Any]:
    """A lead. The same one for the same number: a consent has a time."""
    return lead(number, idempotency_key=f"key-{number}", vehicle_of_interest={"vin": FORD_VIN})


@pytest.mark.soak
def test_both_versions_serve_one_database_while_the_machines_are_replaced(
    tmp_path: Path, admin: str, previous: dict[str, Any]
) -> None:
    """No request fails, each lead is stored once, and each is delivered once."""
    roles = roles_of(admin)
    place = ("--url", admin, "--owner", roles.owner, "--service", roles.service)
    here: dict[str, Any] = {"DATABASE_URL": as_role(admin, roles.service)}
    before: dict[str, Any] = {**here, **previous}
    with receiving_http(HttpReceiver(always("take"))) as crm:
        channel = f'\n[[rooftops.deliver.http]]\nname = "crm"\nurl = "{crm.url}"\ntimeout_seconds = 110\n'
        one = write_dealer(tmp_path / "one", channel)
        feed = write_feed(one / "stock.json", stock_of_three())
        run_previous("database", "prepare", *place, **previous)
        run_previous("inventory", "import", feed, "--dir", one, **before)
        two = shutil.copytree(one, tmp_path / "two")
        with serving(one, program=PROGRAM, **before) as old:
            answered = submitted([old], range(LEADS))
            succeed_here("database", "prepare", *place, "--admin", roles.admin)
            answered |= submitted([old], range(LEADS, 2 * LEADS))
            with serving(two, **here) as new:
                answered |= submitted([old, new], range(2 * LEADS, 4 * LEADS))
                # Each version knows what the other one has stored.
                for service in (old, new):
                    again = submitted([service], range(4 * LEADS))
                    assert again == answered
                units = [*stock_of_three(), stock_of_three()[0] | {"vin": "1HGCY2F5XRA000009", "stock": "H9"}]
                succeed_here("inventory", "import", write_feed(feed, units), "--dir", two, **here)
                for service in (old, new):
                    eventually("the new stock is loaded", partial(has_units, service.url, 4))
                eventually("all leads are delivered", lambda: len(crm.taken) >= 4 * LEADS)
    delivered = Counter(posted.headers["x-lead-id"] for posted in crm.taken)
    assert delivered == Counter(answered.values())
    assert len(set(answered.values())) == 4 * LEADS
    assert f"whole: {4 * LEADS}" in succeed_here("consent", "verify", "--dir", one, **here)


def test_this_version_continues_with_the_file_of_the_previous_one(tmp_path: Path, previous: dict[str, Any]) -> None:
    """The previous version then refuses the file, and accepts the backup from before."""
    folder = write_dealer(tmp_path / "store")
    feed = write_feed(folder / "stock.json", stock_of_three())
    run_previous("inventory", "import", feed, "--dir", folder, **previous)
    with serving(folder, program=PROGRAM, **previous) as old:
        answered = submitted([old], range(LEADS))
    backup = tmp_path / "before.tar"
    succeed_here("backup", backup, "--dir", folder)
    with serving(folder) as new:
        assert submitted([new], range(LEADS)) == answered
        assert asked(new.url, "inventory.search")["total"] == 3
        submitted([new], range(LEADS, 2 * LEADS))
    assert f"whole: {2 * LEADS}" in succeed_here("consent", "verify", "--dir", folder)

    refused = command("leads", "list", "--dir", folder, program=PROGRAM, **previous)
    assert (refused.returncode, "written by a newer version" in refused.stderr) == (1, True)
    copy = tmp_path / "copy"
    succeed_here("restore", backup, "--dir", copy, "--keys", folder / "dealer-agent.keys")
    run_previous("consent", "verify", "--dir", copy, **previous)
