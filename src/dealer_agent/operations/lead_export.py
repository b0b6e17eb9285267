"""Writes leads as one document: for a spreadsheet, a program or a CRM. The commands and the console use it."""

import csv
import io
import json
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import BinaryIO, Literal, NamedTuple

import msgspec

from dealer_agent.leads.lead_json import render_json
from dealer_agent.leads.lead_view import LeadView, lead_view
from dealer_agent.leads.spreadsheet import COLUMNS, cells
from dealer_agent.open_installation import OpenDealer
from dealer_agent.storage.leads.lead_record import lead_details
from dealer_agent.storage.leads.lead_search import PAGE, LeadFilter, find_leads

Format = Literal["csv", "json", "adf"]


class ChosenLeads(NamedTuple):
    """The ids of the leads of an export, oldest first, and the number of erased leads that are left out.

    `incomplete`: there are more leads than may be exported at once.
    """

    lead_ids: list[str]
    erased: int
    incomplete: bool = False


def choose_leads(dealer: OpenDealer, sought: LeadFilter, most: int | None = None) -> ChosenLeads:
    """The leads of an export: with `most`, about so many of the newest ones."""
    found: dict[str, bool] = {}
    incomplete = False
    while not incomplete:
        with dealer.read() as tx:
            page = find_leads(tx, sought, PAGE).leads
        if not page:
            break
        found |= {lead.lead_id: lead.erased_at is not None for lead in page}
        sought = replace(sought, before=page[-1].lead_id)
        incomplete = most is not None and len(found) >= most
    chosen = [lead_id for lead_id, is_erased in reversed(found.items()) if not is_erased]
    return ChosenLeads(chosen, len(found) - len(chosen), incomplete)


def views_of(dealer: OpenDealer, lead_ids: Iterable[str]) -> Iterator[LeadView]:
    """What is exported of each lead. A lead that is erased meanwhile is left out."""
    for lead_id in lead_ids:
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
    # Imported here: the other formats need no XML.
    from lxml import etree

    from dealer_agent.leads.adf import PROLOG, render_adf

    document.write(PROLOG + b"<adf>\n")
    for view in views:
        document.writelines(etree.tostring(each, encoding="us-ascii") for each in etree.fromstring(render_adf(view)))
    document.write(b"</adf>\n")


WRITERS: dict[Format, Callable[[Iterable[LeadView], BinaryIO], None]] = {"csv": _csv, "json": _json, "adf": _adf}


def write_file(form: Format, views: Iterable[LeadView], document: BinaryIO) -> None:
    """Writes a file of leads. A CSV file begins with a mark that tells Excel that it is UTF-8."""
    if form == "csv":
        document.write(BOM_UTF8)
    WRITERS[form](views, document)
