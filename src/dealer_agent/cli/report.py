"""`dealer-agent report`: what agents asked the dealer in a month."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from dealer_agent.cli.command import wrong_use
from dealer_agent.cli.open_dealer import DEALER
from dealer_agent.cli.terminal import err, out, plain
from dealer_agent.open_installation import OpenDealer
from dealer_agent.reports.month import Month

OPENING = DEALER


def report(
    dealer: OpenDealer,
    month: Annotated[
        str | None, typer.Option(metavar="YYYY-MM", help="The month. The default is the last month that is over.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.html", help="Write the report as a page to this file.")
    ] = None,
) -> Any:
    """Show what agents asked in a month, what they did not find, which prices kept vehicles out, leads, and visits.

    The default is the last month that is over; in the first month of a service, it is this month.
    Each number has that of the month before beside it.
    """
    # Imported here: `--help` does not need them.
    from dealer_agent.reports.rendering import render_page, render_text
    from dealer_agent.reports.report import default_month, read_report

    with wrong_use("--month"):
        wanted = None if month is None else Month.parse(month)
    with dealer.read() as tx:
        monthly = read_report(tx, dealer.profile, wanted or default_month(tx, dealer.profile, datetime.now(UTC)))
    if file is not None:
        file.write_text(render_page(monthly), "utf-8")
        err.print(f"The report of {monthly.month_name} is in {file}.")
    else:
        out.print(plain(render_text(monthly)), end="", soft_wrap=True)
    return msgspec.to_builtins(monthly)
