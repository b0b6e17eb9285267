"""Stores what staff write about a lead. It is customer data: encrypted, and erased with the lead's customer."""

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import bindparam, insert

from dealer_agent.protocol.ids import new_ulid
from dealer_agent.storage.schema import lead_notes
from dealer_agent.storage.statements import rows_of
from dealer_agent.storage.transaction import Transaction

MOST_NOTES = 200
"""The most notes of a lead."""


class Note(NamedTuple):
    """A note about a lead. `text` is None once the customer is erased."""

    note_id: str
    at: datetime
    written_by: str
    text: str | None


ADD_NOTE = insert(lead_notes)

READ_NOTES = (
    rows_of(lead_notes, Note, lead_id="of_lead")
    .order_by(lead_notes.c.at, lead_notes.c.note_id)
    .limit(bindparam("most"))
)


def add_note(tx: Transaction, lead_id: str, text: str, *, by: str) -> None:
    """Adds a note to a lead whose customer is not erased. `by` is the person.

    The caller holds the dealer's lock, and has checked the lead and the number of its notes.
    """
    note_id = new_ulid()
    encrypted = tx.encrypt(text.encode(), lead_notes.c.text, note_id)
    row = {"note_id": note_id, "lead_id": lead_id, "at": tx.now, "written_by": by, "text": encrypted}
    tx.execute(ADD_NOTE, row)


def notes_of(tx: Transaction, lead_id: str) -> list[Note]:
    """The notes about a lead, oldest first. Raises EncryptionError."""
    rows = tx.execute(READ_NOTES, {"of_lead": lead_id, "most": MOST_NOTES})
    return [
        Note(
            row.note_id,
            row.at,
            row.written_by,
            None if row.text is None else tx.decrypt(row.text, lead_notes.c.text, row.note_id).decode(),
        )
        for row in rows
    ]
