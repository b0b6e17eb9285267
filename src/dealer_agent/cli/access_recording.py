"""Records who reads customer data with a command, before the command shows it (16 CFR 314.4(c)(8))."""

import os
import pwd

from dealer_agent.cli.terminal import fail
from dealer_agent.leads.records import LeadDetails
from dealer_agent.storage.accesses import log_access
from dealer_agent.storage.errors import StorageError
from dealer_agent.storage.lead_record import lead_details
from dealer_agent.storage.store import Store


def record_access(store: Store, dealer_id: str, action: str, *, leads: int, lead_id: str | None = None) -> None:
    """Records that this user reads customer data of that many leads. Without leads it records nothing.

    Call it after the data is read and before any of it is shown. `action` is the command, such as `leads list`.
    `lead_id` names a single lead. If the access log cannot be written, the command ends with exit code 1.
    """
    if leads == 0:
        return
    try:
        with store.lock(dealer_id) as tx:
            log_access(tx, actor(), action, lead_id=lead_id, leads=leads)
    except StorageError as problem:
        fail(f"Nothing is shown, because the access log cannot be written: {problem}")


def read_lead(store: Store, dealer_id: str, lead_id: str, action: str) -> LeadDetails:
    """A lead with all its parts. The access is recorded. Ends the command with exit code 1 if there is no such lead."""
    with store.read(dealer_id) as tx:
        found = lead_details(tx, lead_id)
    if found is None:
        fail(f"There is no lead {lead_id}; see dealer-agent leads list")
    record_access(store, dealer_id, action, leads=1, lead_id=lead_id)
    return found


def actor() -> str:
    """The name of the operating system's user, or the user's number. The environment cannot change it."""
    number = os.getuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"uid {number}"
