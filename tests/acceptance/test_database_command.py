"""`dealer-agent database prepare`, and a service that uses the role it makes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.dealers import stocked_dealer
from tests.acceptance.running import command_here, serving, succeed_here
from tests.storage.databases import fresh_schema
from tests.storage.service_role import as_role, drop_roles, roles_of

pytestmark = pytest.mark.outside_protocol("the command `database`")

SERVE_WARNING = "row-level security does not apply to this service"


@pytest.fixture
def admin(postgresql_server: str) -> Iterator[str]:
    """The URL of a schema whose roles are made in the test."""
    with fresh_schema(postgresql_server) as url:
        yield url
        drop_roles(postgresql_server, roles_of(url))


def names(admin: str) -> tuple[str, ...]:
    roles = roles_of(admin)
    return "--owner", roles.owner, "--service", roles.service, "--admin", roles.admin


def prepare(admin: str, *more: str) -> str:
    return succeed_here("database", "prepare", *names(admin), *more, DATABASE_ADMIN_URL=admin)


def test_the_service_runs_as_the_prepared_role_without_a_warning(tmp_path: Path, admin: str) -> None:
    said = prepare(admin)
    assert said.startswith(f"DATABASE_URL=postgresql://{roles_of(admin).service}@")
    url = as_role(admin, roles_of(admin).service)
    folder = stocked_dealer(tmp_path / "store", DATABASE_URL=url)
    assert "may use" in command_here("database", "prepare", "--url", admin, *names(admin)).stderr
    with serving(folder, DATABASE_URL=url) as running:
        assert SERVE_WARNING not in running.stderr()


def test_one_dealer_is_served_as_the_owner_with_a_warning(tmp_path: Path, postgresql_url: str) -> None:
    folder = stocked_dealer(tmp_path / "store", DATABASE_URL=postgresql_url)
    with serving(folder, DATABASE_URL=postgresql_url) as running:
        assert SERVE_WARNING in running.stderr()


def test_a_password_is_shown_only_when_a_new_one_is_wanted(admin: str) -> None:
    service = roles_of(admin).service
    assert "the-admins-word" not in prepare(admin.replace(":@", ":the-admins-word@"))
    login = prepare(admin, "--new-password").removeprefix("DATABASE_URL=postgresql://").partition("@")[0]
    assert login.startswith(f"{service}:")
    assert len(login) > len(service) + 40


def test_sqlite_is_refused_with_a_reason(tmp_path: Path) -> None:
    done = command_here("database", "prepare", "--url", f"sqlite:///{tmp_path}/dealer.db")
    assert done.returncode == 1
    assert "only a PostgreSQL database has roles" in done.stderr
