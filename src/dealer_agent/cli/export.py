"""`dealer-agent leads export`: leads as a file for a spreadsheet, a program or a CRM."""

import csv
import io
import json
import sys
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, BinaryIO, Literal

import msgspec
import typer

from dealer_agent.cli.customer_data import OutOption, day_option, private_file, record_access
from dealer_agent.cli.terminal import counted, err, fail, progress
from dealer_agent.leads.lead_json import render_json
from dealer_agent.leads.lead_view import LeadView, lead_view
from dealer_agent.leads.spreadsheet import COLUMNS, cells
from dealer_agent.open_installation import OpenDealer
from dealer_agent.storage.leads.lead_record import lead_details
from dealer_agent.storage.leads.lead_search import FIRST, LAST, PAGE, LeadFilter, find_leads

Format = Literal["csv", "json", "adf"]


def export(
    dealer: OpenDealer,
    form: Annotated[
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
    first = FIRST if since is None else since.replace(tzinfo=UTC)
    end = LAST if until is None else until.replace(tzinfo=UTC) + timedelta(days=1)
    if first >= end:
        raise typer.BadParameter("--since is later than --until; give an earlier --since")
    chosen, erased = _chosen(dealer, LeadFilter(since=first, until=end))
    if form == "adf" and not chosen:
        fail("There is no lead to export, and an ADF document needs one: choose another time or format")
    record_access(dealer, f"leads export --format {form}", leads=len(chosen))
    # On a terminal the leads themselves show the progress.
    views = _views(dealer, chosen, quiet=file is None and sys.stdout.isatty())
    with nullcontext(sys.stdout.buffer) if file is None else private_file(file) as document:
        if form == "csv" and file is not None:
            document.write(BOM_UTF8)  # Tells Excel that a file is UTF-8.
        WRITERS[form](views, document)
        document.flush()
    left_out = f"; {erased} erased left out" if erased else ""
    where = "" if file is None else f" to {file}"
    err.print(f"{counted(len(chosen), 'lead')} written{where}{left_out}.")


def _chosen(dealer: OpenDealer, days: LeadFilter) -> tuple[list[str], int]:
    """The ids of the leads, oldest first, and the number of erased leads that are left out."""
    found: dict[str, bool] = {}
    while True:
        with dealer.read() as tx:
            page = find_leads(tx, days, PAGE).leads
        if not page:
            chosen = [lead_id for lead_id, is_erased in reversed(found.items()) if not is_erased]
            return chosen, len(found) - len(chosen)
        found |= {lead.lead_id: lead.erased_at is not None for lead in page}
        days = replace(days, before=page[-1].lead_id)


def _views(dealer: OpenDealer, chosen: list[str], *, quiet: bool) -> Iterator[LeadView]:
    """The chosen leads, with a progress bar. A lead that is erased meanwhile is left out."""
    bar = progress()
    bar.disable = bar.disable or quiet
    with bar:
        for lead_id in bar.track(chosen, description="Writing"):
            with dealer.read() as tx:
                whole = lead_details(tx, lead_id)
            if whole is not None and whole.stored.lead.erased_at is None:
                yield lead_view(whole, dealer.profile)


def _csv(views: Iterable[LeadView], document: BinaryIO) -> None:
    text = io.TextIOWrapper(document, "utf-8", newline="")
    rows = csv.DictWriter(text, COLUMNS)
    rows.writeheader()
    rows.writerows(map(cells, views))
    text.detach()  # The caller closes the document.


def _json(views: Iterable[LeadView], document: BinaryIO) -> None:
    """An array with one lead per line. It is ASCII, so that it cannot control a terminal."""
    before = "[\n"
    for view in views:
        lead = json.dumps(msgspec.json.decode(render_json(view)), separators=(",", ":"))
        document.write((before + lead).encode())
        before = ",\n"
    document.write(b"[]\n" if before == "[\n" else b"\n]\n")


def _adf(views: Iterable[LeadView], document: BinaryIO) -> None:
    """One document with one prospect per lead, as the DTD allows."""
    # Imported here: all other commands of this group need no XML.
    from lxml import etree

    from dealer_agent.leads.adf import PROLOG, render_adf

    document.write(PROLOG + b"<adf>\n")
    for view in views:
        document.writelines(etree.tostring(each, encoding="us-ascii") for each in etree.fromstring(render_adf(view)))
    document.write(b"</adf>\n")


WRITERS: dict[Format, Callable[[Iterable[LeadView], BinaryIO], None]] = {"csv": _csv, "json": _json, "adf": _adf}
