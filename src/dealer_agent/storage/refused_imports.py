"""The imports that were refused, with the reasons (docs/protocol.md#listings)."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import PurePath
from typing import NamedTuple
from uuid import uuid4

import msgspec
from sqlalchemy import bindparam, delete, insert, select

from dealer_agent.inventory.feeds.checks import Finding
from dealer_agent.storage.keys import check_owner
from dealer_agent.storage.schema import of_dealer, refused_imports
from dealer_agent.storage.stock import findings_of, rooftops_of
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

MOST_REFUSED_IMPORTS = 500
"""The most refused imports of a dealer that are kept: a feed may be refused every few minutes."""

MOST_FINDINGS = 100

_MOST_DELETED = 100


class RefusedImport(NamedTuple):
    """A refused import in the history. `layout` is None for a file that could not be read.

    `source` is the file's name. `rooftops` are its scope: None for all rooftops. `feed` is the feed's name, if any.
    """

    at: datetime
    source: str
    layout: str | None
    findings: tuple[Finding, ...]
    rooftops: tuple[str, ...] | None = None
    feed: str | None = None


ADD_REFUSED_IMPORT = insert(refused_imports)

_newest_first = refused_imports.c.at.desc(), refused_imports.c.refusal_id

LIST_REFUSED_IMPORTS = (
    select(*(refused_imports.c[name] for name in RefusedImport._fields))
    .where(of_dealer(refused_imports))
    .order_by(*_newest_first)
    .limit(bindparam("limit"))
)

DELETE_OLD_REFUSED_IMPORTS = delete(refused_imports).where(
    of_dealer(refused_imports),
    refused_imports.c.refusal_id.in_(
        select(refused_imports.c.refusal_id)
        .where(of_dealer(refused_imports))
        .order_by(*_newest_first)
        .limit(_MOST_DELETED)
        .offset(MOST_REFUSED_IMPORTS)
    ),
)


def record_refused_import(
    store: Store,
    dealer_id: str,
    findings: Sequence[Finding],
    *,
    at: datetime,
    source: str,
    layout: str | None,
    rooftops: Sequence[str],
    feed: str | None = None,
) -> None:
    """Adds a refused import to the history, which keeps the newest MOST_REFUSED_IMPORTS. Raises StorageError."""
    row = {
        "refusal_id": uuid4().hex,
        "at": at,
        "source": PurePath(source).name,
        "layout": layout,
        "findings": msgspec.json.encode(findings[:MOST_FINDINGS]),
        "rooftops": msgspec.json.encode(rooftops) if rooftops else None,
        "feed": feed,
    }
    with store.write(dealer_id, at) as tx:
        check_owner(tx)
        tx.execute(ADD_REFUSED_IMPORT, row)
        tx.execute(DELETE_OLD_REFUSED_IMPORTS)


def list_refused_imports(tx: Transaction, limit: int) -> list[RefusedImport]:
    """The newest refused imports first."""
    return [
        RefusedImport(at, source, layout, findings_of(findings), rooftops_of(rooftops), feed)
        for at, source, layout, findings, rooftops, feed in tx.execute(LIST_REFUSED_IMPORTS, {"limit": limit})
    ]
