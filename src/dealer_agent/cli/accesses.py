"""`dealer-agent accesses`: who looked at customer data."""

from typing import Annotated

import typer

from dealer_agent.cli.open_dealer import HERE, DirOption, open_dealer
from dealer_agent.cli.terminal import JsonOption, limited, moment, print_table
from dealer_agent.storage.accesses import list_accesses

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_(
    directory: DirOption = HERE,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="How many, newest first.")] = 50,
    as_json: JsonOption = False,
) -> None:
    """List the newest entries of the access log: when, who, by which command, and how many leads."""
    with open_dealer(directory) as dealer, dealer.read() as tx:
        accesses = limited(list_accesses(tx, limit + 1), limit)
    print_table(
        "Access log",
        ("At", "Who", "What", "Lead Id", "Leads"),
        [(dealer.local(each.at), each.actor, each.action, each.lead_id, each.leads) for each in accesses],
        empty="Nobody looked at customer data yet.",
        time=moment,
        as_json=as_json,
    )
