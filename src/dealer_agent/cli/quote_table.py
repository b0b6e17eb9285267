"""A quote as a table: `dealer-agent ask quote` and `dealer-agent offers show` print it."""

from dealer_agent.cli.tables import Table
from dealer_agent.cli.terminal import plain
from dealer_agent.client.results import Quote, QuotedVehicle, Vehicle


def quote_table(quote: Quote, valid_until: str, note: str) -> Table:
    """The lines of a quote, which of them are firm, and what is not in the total. `note` stands below."""
    rows = [
        (line.label, line.payee.replace("_", " "), amount(line.amount), "firm" if line.firm else "estimated")
        for line in quote.lines
    ]
    currency = plain(quote.currency)
    notes = [
        f"The vehicle's price of {amount(quote.price)} {currency} (without the other lines) is valid until"
        f" {valid_until}."
    ]
    if quote.missing:
        notes.append(f"Not in the total: {', '.join(plain(each) for each in quote.missing)}.")
    return Table(
        plain(vehicle_name(quote.vehicle) or quote.vehicle.vehicle_id),
        ("Line", "To", currency, "Kind"),
        [*rows, ("Total", None, amount(quote.total), None)],
        notes=[*notes, note],
    )


def vehicle_name(vehicle: Vehicle | QuotedVehicle) -> str:
    """Year, make, model and trim, as far as they are known."""
    return " ".join(str(value) for value in (vehicle.year, vehicle.make, vehicle.model, vehicle.trim) if value)


def amount(value: float) -> str:
    """An amount of money with two decimals and commas."""
    return f"{value:,.2f}"
