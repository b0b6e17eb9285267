"""What the tests of backups share: a dealer with leads, and PostgreSQL databases of their own."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
from psycopg import sql
from tests.storage.calls import list_leads, read

from dealer_agent.config import load_settings
from dealer_agent.storage.database_url import database_url
from dealer_agent.storage.stock.reading import count_for_sale
from dealer_agent.storage.store import Store

PASSPHRASE = "an invented passphrase"
PASSPHRASE_VARIABLE = "DEALER_AGENT_BACKUP_PASSPHRASE"


def leads_in(folder: Path, **env: str) -> set[str]:
    """The ids of the leads in a dealer's database. Its keys are checked."""
    settings = load_settings(folder, env)
    with Store.open(settings.database_url, settings.cipher) as store:
        store.check_keys(settings.dealer.id)
        return {lead.lead_id for lead in read(store, settings.dealer.id, list_leads, 10**6)}


def units_in(folder: Path, **env: str) -> int:
    """How many units are for sale in a dealer's database."""
    settings = load_settings(folder, env)
    with Store.open(settings.database_url, settings.cipher) as store:
        return read(store, settings.dealer.id, count_for_sale)


@contextmanager
def fresh_database(server: str) -> Iterator[str]:
    """The URL of an empty database, for a block."""
    name = f"test_{uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    yield database_url(server).set(drivername="postgresql", database=name).render_as_string(hide_password=False)
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
