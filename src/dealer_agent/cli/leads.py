"""`dealer-agent leads`: what buyers sent."""

from typing import Annotated, Any

import msgspec
import typer
from rich.text import Text

from dealer_agent.cli.terminal import (
    HERE,
    DirOption,
    add_row,
    fail,
    failures_in_plain_words,
    out,
    plain,
    settings_in,
    store_of,
    table,
)

app = typer.Typer(help="See the leads that were taken.", no_args_is_help=True)


@app.command("list")
def list_(
    directory: DirOption = HERE,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, newest first.")] = 20,
    before: Annotated[str | None, typer.Option(metavar="LEAD", help="Only leads older than this one.")] = None,
) -> None:
    """List the newest leads."""
    with failures_in_plain_words():
        settings = settings_in(directory)
        with store_of(settings) as store:
            leads = store.list_leads(settings.dealer.id, limit, before)
    made = table("Leads", "Id", "Received (UTC)", "Customer", "Vehicle", "Agent", "Visit")
    for lead in leads:
        customer = msgspec.json.decode(lead.customer)
        name = f"{customer['first_name']} {customer['last_name']}"
        vehicle = lead.stock or lead.vin or ""
        row = (name, vehicle, lead.source_agent, "asked for" if lead.appointment else "")
        add_row(made, lead.lead_id, f"{lead.received_at:%Y-%m-%d %H:%M}", *row)
    out.print(made if leads else "No leads yet.")


@app.command("show")
def show(
    lead_id: Annotated[str, typer.Argument(help="The id, from `leads list`.")], directory: DirOption = HERE
) -> None:
    """Show one lead whole: the customer, the consent, the vehicle, and what was added later."""
    with failures_in_plain_words():
        settings = settings_in(directory)
        with store_of(settings) as store:
            found = store.get_lead(settings.dealer.id, lead_id)
        if found is None:
            fail(f"There is no lead {lead_id}; see dealer-agent leads list")
    lead = found.lead
    out.print(f"[bold]Lead {lead.lead_id}[/], {lead.status} {lead.received_at:%Y-%m-%d %H:%M:%S} UTC")
    out.print(f"From {_indented(lead.source_agent)}", markup=False)
    payload = msgspec.json.decode(lead.payload)
    _section("Customer", msgspec.json.decode(lead.customer))
    for title, member in (("Vehicle of interest", "vehicle_of_interest"), ("Trade-in", "trade_in")):
        _section(title, payload.get(member))
    _section("Appointment", msgspec.json.decode(lead.appointment) if lead.appointment else None)
    _section("Message", payload.get("message"))
    for consent in found.consents:
        given = {
            "granted": f"{consent.granted_at:%Y-%m-%d %H:%M:%S} UTC",
            "channels": ", ".join(consent.channels),
            "scope": ", ".join(consent.scope),
            "text": consent.consent_text,
            "through": consent.source_agent,
            "expires": f"{consent.expires_at:%Y-%m-%d %H:%M:%S} UTC" if consent.expires_at else None,
            "request hash": consent.request_hash.hex(),
        }
        _section("Consent", {name: value for name, value in given.items() if value})
    for event in found.events:
        _section(f"Added {event.at:%Y-%m-%d %H:%M:%S} UTC", msgspec.json.decode(event.changes))


def _section(title: str, content: Any) -> None:
    """A title and what belongs to it, indented to the last line: nothing in it looks like another section."""
    if not content:
        return
    out.print(Text(f"\n{title}", style="bold"))
    if isinstance(content, dict):
        for name, value in content.items():
            told = msgspec.json.encode(value).decode() if isinstance(value, dict | list) else str(value)
            out.print(f"  {_indented(name.replace('_', ' '))}: {_indented(told)}", markup=False)
    else:
        out.print(f"  {_indented(str(content))}", markup=False)


def _indented(text: str) -> str:
    return plain(text).replace("\n", "\n    ")
