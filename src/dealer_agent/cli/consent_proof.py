"""`dealer-agent consent prove` and `consent export`: the consent of a person, also after an erasure."""

from pathlib import Path
from typing import Annotated

import typer

from dealer_agent.cli.access_recording import record_access
from dealer_agent.cli.lead_display import show_event
from dealer_agent.cli.person_lookup import contact_point
from dealer_agent.cli.private_file import ordinary_file, private_file
from dealer_agent.cli.terminal import HERE, DirOption, fail, open_customer_store, out
from dealer_agent.storage.consent_evidence import evidence_of
from dealer_agent.storage.leads import find_leads_of
from dealer_agent.storage.proofs import proven_events, proven_leads
from dealer_agent.storage.store import Store

ContactArgument = Annotated[
    str,
    typer.Argument(
        metavar="CONTACT",
        callback=contact_point,
        help="An e-mail address or a phone number. With - the command asks for it, so that no command history has it.",
    ),
]


def prove(contact: ContactArgument, directory: DirOption = HERE) -> None:
    """Show what a person consented to and withdrew, also for erased leads.

    The law requires you to keep this (16 CFR 310.5). The access log names everyone who uses this command.
    """
    with open_customer_store(directory) as (settings, store):
        dealer_id = settings.dealer.id
        found = _leads(store, dealer_id, contact)
        with store.read(dealer_id) as tx:
            events = proven_events(tx, found)
        record_access(store, dealer_id, "consent prove", leads=len(found))
    for event in events:
        show_event(event)


def export(
    contact: ContactArgument,
    file: Annotated[
        Path,
        typer.Option(
            "--out", metavar="FILE", callback=ordinary_file, help="A file that only you can read (mode 0600)."
        ),
    ],
    directory: DirOption = HERE,
) -> None:
    """Write a person's consent record with its proof to a file. `consent verify FILE` checks this file.

    The file is not encrypted. It also has the events of other leads, which name nobody. They connect the record with
    the head of the chain, and show that no event of the person's leads is left out.
    """
    with open_customer_store(directory) as (settings, store):
        dealer_id = settings.dealer.id
        found = _leads(store, dealer_id, contact)
        record_access(store, dealer_id, "consent export", leads=len(found))
        with store.read(dealer_id) as tx, private_file(file) as opened:
            evidence = evidence_of(tx, found)
            for line in evidence.lines:
                opened.write(line + b"\n")
    out.print(f"Written to {file}. The chain's head is now:\n{evidence.head}", markup=False)


def _leads(store: Store, dealer_id: str, contact: str) -> list[str]:
    """The leads of a contact point, erased ones too. Ends the command with exit code 1 if there is none."""
    with store.read(dealer_id) as tx:
        found = sorted({*find_leads_of(tx, [contact]), *proven_leads(tx, contact)})
    if not found:
        fail("No consent is kept for this contact point: check the address or number")
    return found
