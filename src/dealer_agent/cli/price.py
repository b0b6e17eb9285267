"""`dealer-agent price`: what a buyer pays in all for a vehicle."""

from typing import Annotated, Any

import msgspec
import typer

from dealer_agent.cli.command import wrong_use
from dealer_agent.cli.open_dealer import DEALER
from dealer_agent.cli.stock import find_vehicle
from dealer_agent.cli.tables import Table
from dealer_agent.mcp_tools.words import vehicle_title
from dealer_agent.offers.pricing import AllInPrice, all_in_price, price_document, rooftop_of
from dealer_agent.offers.us_places import place_of
from dealer_agent.offers.words import amount_text, firmness, gap_text, payee_text, place_text, total_label
from dealer_agent.open_installation import OpenDealer

OPENING = DEALER


def _known_zip(value: str | None) -> str | None:
    with wrong_use():
        return value if value is None else place_of(value).zip_code


def price(
    dealer: OpenDealer,
    unit: Annotated[str, typer.Argument(metavar="UNIT", help="Its VIN, stock number or vehicle id.")],
    zip_code: Annotated[
        str | None,
        typer.Option("--zip", metavar="ZIP", callback=_known_zip, help="The buyer's ZIP code. Default: the rooftop's."),
    ] = None,
) -> dict[str, Any]:
    """Show the price of a vehicle in lines: the advertised price, which is firm, then taxes and charges of [pricing].

    A total without tax, title or registration says so.
    """
    vehicle = find_vehicle(dealer, unit.strip())
    total_price = all_in_price(vehicle, rooftop_of(dealer.profile, vehicle), zip_code, dealer.settings.pricing)
    named = {"vehicle_id": vehicle.vehicle_id, "vin": vehicle.vin or None, "stock": vehicle.stock or None}
    _table(vehicle_title(msgspec.to_builtins(vehicle)), total_price).show()
    return named | price_document(total_price)


def _table(title: str, price: AllInPrice) -> Table:
    """The lines with their total. Below it: the place, what is missing, and the legal bases."""
    amounts = [amount_text(amount, price.currency) for amount in (*(line.amount for line in price.lines), price.total)]
    width = max(map(len, amounts))
    is_firm = price.complete and all(line.firm for line in price.lines)
    marks = [(line.label, firmness(line), payee_text(line)) for line in price.lines]
    marks.append((total_label(price), "firm" if is_firm else "estimate", ""))
    rows = [
        (label, amount.rjust(width), firm, payee) for (label, firm, payee), amount in zip(marks, amounts, strict=True)
    ]
    advertised = f"The advertised price, {amount_text(price.price, price.currency)}, is firm."
    where = f"The total is {place_text(price)}."
    bases = [f"{line.label}: {line.legal_basis}" for line in price.lines if line.legal_basis]
    notes = ["", advertised, where, *filter(None, [gap_text(price)]), *bases]
    return Table(title, ("Line", "Amount", "Firm", "Payee"), rows, notes=notes)
