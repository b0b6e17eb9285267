"""Prevents that a dealer of an installation is removed while a transaction writes for it.

A process may stop for hours and go on: with SIGSTOP, or with its virtual machine. Its dealer may be removed meanwhile.
So every transaction that writes for a dealer first checks that the dealer is registered. On PostgreSQL it also shares a
lock of the dealer. The transaction that adds or removes a dealer takes this lock exclusively (`Store.registration`). So
nothing is written after a removal, and a removal waits for what is being written. On SQLite there is one writer.

The dealer of a folder of its own needs no registration.
"""

from sqlalchemy import Connection, exists, literal_column, select, text

from dealer_agent.storage.errors import DealerUnknown
from dealer_agent.storage.isolation import ALL_DEALERS
from dealer_agent.storage.leads.prepared_statements import Prepared, Read, read_all
from dealer_agent.storage.schema import registered_dealers, revisions
from dealer_agent.storage.statements import of_dealer
from dealer_agent.storage.transaction import InstallationTransaction, Transaction

NEEDED = "dealer_agent_registration"
"""The execution option of the writers of an installation."""

# The seed of the hash distinguishes this lock from the one for imports.
_KEY = "hashtextextended(current_schema() || current_setting('dealer_agent.dealer'), 1)"
_SHARE = f"pg_advisory_xact_lock_shared({_KEY})"
_FIND = "SELECT FROM registered_dealers WHERE dealer_id = current_setting('dealer_agent.dealer')"

HOLD_AND_FIND = f"SELECT {_SHARE}; {_FIND}"
"""For the message that begins a transaction on PostgreSQL. The second statement sees what was committed meanwhile."""

HOLD = Prepared(select(literal_column(_SHARE).label("held")))

TAKE_ALONE = text(f"SELECT pg_advisory_xact_lock({_KEY})")

READ_ENABLED = Prepared(select(registered_dealers.c.enabled).where(of_dealer(registered_dealers)))

# The row in `revisions` outlives a removed dealer. Only dealers of an installation have a number of settings there.
_WAS_REMOVED = (
    revisions.c.settings_counter > 0,
    revisions.c.dealer_id != ALL_DEALERS,
    ~exists().where(registered_dealers.c.dealer_id == revisions.c.dealer_id),
)

LIST_REMOVED = select(revisions.c.dealer_id).where(*_WAS_REMOVED)

FIND_REMOVED = LIST_REMOVED.where(of_dealer(revisions))


def needs_registration(connection: Connection, dealer_id: str) -> bool:
    """Whether a transaction on this connection may write for the dealer only if it is registered."""
    return dealer_id != ALL_DEALERS and NEEDED in connection.get_execution_options()


def registration_reads(tx: Transaction) -> tuple[list[Read], list[Read]]:
    """The reads that lock the registration, and those that then read it. None for the dealer of a folder of its own."""
    if not needs_registration(tx.connection, tx.dealer_id):
        return [], []
    return [(HOLD, {})] if tx.connection.dialect.name == "postgresql" else [], [(READ_ENABLED, {})]


def hold_registration(tx: Transaction) -> bool:
    """Holds the registration of one of several dealers of a transaction. Returns False for a removed dealer."""
    hold, read = registration_reads(tx)
    return not read or bool(read_all(tx, [*hold, *read])[-1])


def not_registered(dealer_id: str) -> DealerUnknown:
    """The error for a dealer that was removed, or never added."""
    return DealerUnknown(f"there is no dealer {dealer_id} in this installation: see dealer-agent dealers list")


def was_removed(tx: Transaction) -> bool:
    """Whether the dealer was in the installation once, and is not any more."""
    return tx.execute(FIND_REMOVED).one_or_none() is not None


def removed_dealers(tx: InstallationTransaction) -> set[str]:
    """The dealers that were removed from the installation. Empty for a new database: it knows of no removal."""
    return set(tx.execute(LIST_REMOVED).scalars())
