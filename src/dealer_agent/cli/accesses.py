"""`dealer-agent accesses`: who looked at customer data."""

from typing import Annotated

import typer

from dealer_agent.cli.terminal import HERE, DirOption, moment, open_store, print_table

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_(
    directory: DirOption = HERE,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="How many, newest first.")] = 50,
) -> None:
    """List the newest entries of the access log: when, who, by which command, and how many leads."""
    with open_store(directory) as (settings, store):
        accesses = store.list_accesses(settings.dealer.id, limit)
    print_table(
        "Access log",
        ("At (UTC)", "Who", "What", "Lead Id", "Leads #"),
        [(moment(each.at), each.actor, each.action, each.lead_id or "", str(each.leads)) for each in accesses],
        empty="Nobody looked at customer data yet.",
    )
