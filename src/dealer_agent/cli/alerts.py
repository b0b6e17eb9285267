"""`dealer-agent alerts`: what is wrong now, which messages were sent, and a test message to all receivers."""

import asyncio
import os
from datetime import UTC, datetime
from typing import Annotated

import typer

from dealer_agent.cli.command import command, newest
from dealer_agent.cli.open_dealer import FOLDER, OWNER, DealerFolder, Owner, find_settings, is_of_operator
from dealer_agent.cli.tables import Columns, Table
from dealer_agent.cli.terminal import fail, limited, out
from dealer_agent.config.installation import load_installation

app = typer.Typer(no_args_is_help=True)


@command(app, "list", OWNER)
def list_(owner: Owner) -> Table:
    """List what is wrong now, and what was in the last 90 days.

    In an installation without --dealer, the list has the alerts of the operator.
    """
    from dealer_agent.alerts.texts import sentence_of
    from dealer_agent.storage.alerts import list_alerts

    with owner.store.read(owner.id) as tx:
        states = list_alerts(tx)
    columns: Columns = {
        "State": lambda state: "open" if state.is_open else "ended",
        "Condition": "condition",
        "Subject": "subject",
        "Started": "started_at",
        "Ended": "ended_at",
        "Meaning": lambda state: sentence_of(state, owner.zone),
        "Reason": "detail",
    }
    return Table.of("Alerts", columns, states, owner.local, empty="No alerts.")


@command(app, "history", OWNER)
def history(
    owner: Owner,
    limit: Annotated[int, newest(10_000)] = 50,
) -> Table:
    """List the messages about alerts, and whether they were sent.

    In an installation without --dealer, the list has the messages to the operator.
    """
    from dealer_agent.storage.alerts import list_messages

    with owner.store.read(owner.id) as tx:
        records = limited(list_messages(tx, limit + 1), limit)
    columns = {"Id": "message_id", "Kind": "kind", "To": "receiver", "State": "state", "At": "created_at"}
    columns |= {"Tries": "attempts", "Problem": "problem"}
    return Table.of("Messages about alerts", columns, records, owner.local, empty="No messages yet.")


@command(app, "test", FOLDER)
def send_test(folder: DealerFolder) -> None:
    """Send a test message now to all mail addresses and the webhook of the settings.

    In an installation without --dealer, it goes to the receivers of the section "installation.alerts".
    """
    from dealer_agent.alerts.rules import AlertMessage
    from dealer_agent.alerts.watches import watch_of_dealer, watch_of_operator
    from dealer_agent.delivery.attempt import NotDelivered
    from dealer_agent.protocol.ids import new_ulid

    if is_of_operator(folder):
        section = "[installation.alerts] in installation.toml"
        watch = watch_of_operator(load_installation(folder.path, os.environ))
    else:
        section = "[alerts] in dealer.toml"
        watch = watch_of_dealer(find_settings(folder))
    if watch is None:
        fail(f"Nobody gets alerts: write mail or webhook_url under {section}")
    now, failed = datetime.now(UTC), []
    for receiver, document in watch.receivers.message(AlertMessage("test"), now).documents.items():
        to = ", ".join(watch.settings.mail) if receiver == "mail" else watch.settings.webhook_url
        try:
            asyncio.run(watch.receivers.send(receiver, new_ulid(), document, now))
        except NotDelivered as failure:
            failed.append(f"No test was sent to {to}: {failure.problem}")
        else:
            out.print(f"A test was sent to {to}.")
    if failed:
        fail("\n".join(failed))
