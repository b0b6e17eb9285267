"""Who looks at customer data through a command: written down before anything is shown (16 CFR 314.4(c)(8))."""

import os
import pwd

from dealer_agent.cli.terminal import fail
from dealer_agent.storage.accesses import log_access
from dealer_agent.storage.errors import StorageError
from dealer_agent.storage.lead_record import LeadDetails, lead_details
from dealer_agent.storage.store import Store


def note_look(store: Store, dealer_id: str, action: str, *, leads: int, lead_id: str | None = None) -> None:
    """Writes into the access log that the person at this command looks at customer data of so many leads.

    To be called after the data was read and before any of it is shown. `action` is the command's words, such as
    `leads list`; `lead_id` names the lead where it is one. A look that finds nobody is none. Where the log cannot be
    written the command ends with exit code 1.
    """
    if leads == 0:
        return
    try:
        with store.lock(dealer_id) as tx:
            log_access(tx, actor(), action, lead_id=lead_id, leads=leads)
    except StorageError as problem:
        fail(f"Nothing is shown, because the access log cannot be written: {problem}")


def look_at_lead(store: Store, dealer_id: str, lead_id: str, action: str) -> LeadDetails:
    """A lead with all that belongs to it; the look is noted. Ends the command with exit code 1 where there is none."""
    with store.read(dealer_id) as tx:
        found = lead_details(tx, lead_id)
    if found is None:
        fail(f"There is no lead {lead_id}; see dealer-agent leads list")
    note_look(store, dealer_id, action, leads=1, lead_id=lead_id)
    return found


def actor() -> str:
    """The operating system's user, whatever the environment says; a user without a name goes by the number."""
    number = os.getuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"uid {number}"
