"""`dealer-agent leads export`: leads as a file for a spreadsheet, a program or a CRM."""

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from dealer_agent.cli.customer_data import OutOption, day_option, record_access
from dealer_agent.cli.terminal import counted, err, fail, progress
from dealer_agent.encryption.private_files import replaced_file
from dealer_agent.leads.lead_view import LeadView
from dealer_agent.open_installation import OpenDealer
from dealer_agent.operations.lead_export import WRITERS, Format, choose_leads, views_of, write_file
from dealer_agent.storage.leads.lead_search import EARLIEST, LATEST, LeadFilter


def export(
    dealer: OpenDealer,
    file_format: Annotated[
        Format, typer.Option("--format", help="csv for a spreadsheet, json for a program, adf for a CRM.")
    ] = "csv",
    since: Annotated[datetime | None, day_option("Leads received on this day (UTC) or later.")] = None,
    until: Annotated[datetime | None, day_option("Leads received on this day (UTC) or earlier.")] = None,
    file: OutOption = None,
) -> None:
    """Write leads, oldest first, as one document: CSV with a header, a JSON array, or ADF with one prospect per lead.

    Erased leads are left out. If the command fails, it leaves no incomplete file. In CSV, an apostrophe precedes a cell
    that a spreadsheet would read as a formula, such as a phone number.
    """
    first = EARLIEST if since is None else since.replace(tzinfo=UTC)
    end = LATEST if until is None else until.replace(tzinfo=UTC) + timedelta(days=1)
    if first >= end:
        raise typer.BadParameter("--since is later than --until; give an earlier --since")
    chosen, erased, _ = choose_leads(dealer, LeadFilter(since=first, until=end))
    if file_format == "adf" and not chosen:
        fail("There is no lead to export, and an ADF document needs one: choose another time or format")
    record_access(dealer, f"leads export --format {file_format}", leads=len(chosen))
    # On a terminal the leads themselves show the progress.
    views = _views(dealer, chosen, quiet=file is None and sys.stdout.isatty())
    with nullcontext(sys.stdout.buffer) if file is None else replaced_file(file) as document:
        if file is None:
            WRITERS[file_format](views, document)
        else:
            write_file(file_format, views, document)
        document.flush()
    left_out = f"; {erased} erased left out" if erased else ""
    where = "" if file is None else f" to {file}"
    err.print(f"{counted(len(chosen), 'lead')} written{where}{left_out}.")


def _views(dealer: OpenDealer, chosen: list[str], *, quiet: bool) -> Iterator[LeadView]:
    """What is exported of the chosen leads, with a progress bar."""
    bar = progress()
    bar.disable = bar.disable or quiet
    with bar:
        yield from views_of(dealer, bar.track(chosen, description="Writing"))
