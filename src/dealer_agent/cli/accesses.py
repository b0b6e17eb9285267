"""`dealer-agent accesses`: who looked at customer data."""

from typing import Annotated

import typer

from dealer_agent.cli.terminal import (
    HERE,
    DirOption,
    add_row,
    failures_in_plain_words,
    out,
    settings_in,
    store_of,
    table,
)

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_(
    directory: DirOption = HERE,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="How many, newest first.")] = 50,
) -> None:
    """List the newest looks at customer data: when, who, by which command, and at how many leads."""
    with failures_in_plain_words():
        settings = settings_in(directory)
        with store_of(settings) as store:
            accesses = store.list_accesses(settings.dealer.id, limit)
    made = table("Looks at customer data", "At (UTC)", "Who", "What", "Lead Id", "Leads #")
    for access in accesses:
        at = f"{access.at:%Y-%m-%d %H:%M:%S}"
        add_row(made, at, access.actor, access.action, access.lead_id or "", str(access.leads))
    out.print(made if accesses else "Nobody looked at customer data yet.")
