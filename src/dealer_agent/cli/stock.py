"""`dealer-agent inventory list` and `show`: the stock as buyers see it, and where a unit came from."""

import shlex
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Annotated, Any, NoReturn

import msgspec
import typer
from msgspec import UNSET

from dealer_agent.catalogue_loading.listings import listed_units, listing_policy
from dealer_agent.cli.tables import Table
from dealer_agent.cli.terminal import fail, limited, out, plain, section
from dealer_agent.inventory.listing import Unit, listing_json
from dealer_agent.open_installation import OpenDealer
from dealer_agent.protocol.did_you_mean import did_you_mean
from dealer_agent.protocol.vehicle import ListingStatus, Vehicle
from dealer_agent.storage.stock.held_units import decisions
from dealer_agent.storage.stock.reading import Stock, read_stock

MOST_LISTED = 1_000_000
_NAMED = ("year", "make", "model", "trim")
_COLUMNS = ("condition", "price", "mileage", "status", "rooftop")


def list_(
    dealer: OpenDealer,
    make: Annotated[str | None, typer.Option(help="Only this make.")] = None,
    model: Annotated[str | None, typer.Option(help="Only models with this word in their name.")] = None,
    status: Annotated[ListingStatus | None, typer.Option(help="Only this status.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=MOST_LISTED, help="How many.")] = 100,
) -> Table:
    """List the units for sale, as buyers see them. `inventory held` has the units that they do not see."""

    def is_wanted(vehicle: Vehicle) -> bool:
        return (
            (make is None or make.casefold() == (vehicle.make or "").casefold())
            and (model is None or model.casefold() in (vehicle.model or "").casefold())
            and (status is None or status == vehicle.status)
        )

    with dealer.read() as tx:
        stock = read_stock(tx, 0)
        wanted = (vehicle for vehicle, _ in _listed(dealer, stock) if is_wanted(vehicle))
        vehicles = limited(list(islice(wanted, limit + 1)), limit)
    rows = [
        (
            *_members(vehicle, ("stock", "vin")),
            " ".join(str(value) for value in _members(vehicle, _NAMED) if value) or None,
            *_members(vehicle, _COLUMNS),
            "last good facts" if vehicle.vehicle_id in stock.good_since else None,
            *_members(vehicle, ("vehicle_id", *_NAMED)),
        )
        for vehicle in vehicles
    ]
    filtered = make or model or status
    empty = (
        "No unit for sale fits."
        if filtered
        else "No unit is for sale. To import the stock, type: dealer-agent inventory import FILE"
    )
    titles = ("Stock", "VIN", "Vehicle", *(name.capitalize() for name in _COLUMNS), "Held")
    return Table("Units for sale", titles, rows, empty=empty, only_json=("Vehicle id", *_NAMED))


def show(
    dealer: OpenDealer,
    unit: Annotated[str, typer.Argument(metavar="UNIT", help="Its vehicle id, VIN or stock number.")],
) -> dict[str, Any]:
    """Show one unit as buyers see it, what the feed says, where it came from, and why it is held back."""
    # Imported here: the other commands about the inventory need no catalogue.
    from dealer_agent.operations.stock import facts_of, held_document, origin_of, other_facts

    name = unit.strip()
    with dealer.read() as tx:
        stock = read_stock(tx, dealer.profile.policies.remember_sold_days)
        listed, names = _find(dealer, stock, name)
        held = next((each for each in decisions(tx).values() if _is_named(each, name)), None)
        document: dict[str, Any] = {
            "vehicle_id": held.vehicle_id if listed is None and held else listed[0].vehicle_id if listed else None,
            "buyers_see": None if listed is None else facts_of(listing_json(listed[0], listed[1].extras)),
            "feed": None if listed is None else facts_of(msgspec.json.encode(listed[1])),
            "held": None if held is None else held_document(dealer, held),
            "came_from": origin_of(tx, dealer, *_listed_at(listed), held),
        }
    if listed is None and held is None:
        _fail_unknown(dealer, stock, name, names)
    section("Buyers see", document["buyers_see"] or "nothing: the unit is held back")
    section("The feed says besides", other_facts(document["feed"], document["buyers_see"]))
    if document["held"] is not None:
        section("Held back", document["held"] | {"feed": None})
        section("The feed says now", other_facts(document["held"]["feed"], document["feed"]))
    section("It came from", document["came_from"])
    out.print()
    return document


def find_vehicle(dealer: OpenDealer, name: str) -> Vehicle:
    """The listing with this vehicle id, VIN or stock number. Ends the command if buyers see none."""
    with dealer.read() as tx:
        stock = read_stock(tx, dealer.profile.policies.remember_sold_days)
        listed, names = _find(dealer, stock, name)
        is_held = listed is None and any(_is_named(each, name) for each in decisions(tx).values())
    if is_held:
        fail(
            f"{plain(name)} is held back, so buyers do not see it. See dealer-agent inventory show {shlex.quote(name)}"
        )
    if listed is None:
        _fail_unknown(dealer, stock, name, names)
    return listed[0]


def _find(dealer: OpenDealer, stock: Stock, name: str) -> tuple[tuple[Vehicle, Unit] | None, list[str]]:
    """The unit with this name. Without one, the names of all."""
    names = []
    for vehicle, unit in _listed(dealer, stock):
        if _is_named(vehicle, name):
            return (vehicle, unit), []
        names.append(vehicle.stock or vehicle.vin or vehicle.vehicle_id)
    return None, names


def _fail_unknown(dealer: OpenDealer, stock: Stock, name: str, names: Sequence[str]) -> NoReturn:
    sold = next((each for each in stock.gone if _is_named(each, name)), None)
    if sold is not None:
        fail(f"{plain(name)} was sold, or left the stock, on {dealer.local(sold.sold_at):%Y-%m-%d %H:%M %Z}.")
    fail(f"No such unit: {name!r}{did_you_mean(name, names)}. See dealer-agent inventory list")


def _members(vehicle: Vehicle, names: Sequence[str]) -> list[Any]:
    return [None if (value := getattr(vehicle, name)) is UNSET else value for name in names]


def _listed_at(listed: tuple[Vehicle, Unit] | None) -> tuple[str | None, datetime | None]:
    """The rooftop of a listing, and its last change."""
    if listed is None:
        return None, None
    changed_at = listed[0].changed_at
    return listed[0].rooftop, None if changed_at is UNSET else changed_at


def _listed(dealer: OpenDealer, stock: Stock) -> Iterator[tuple[Vehicle, Unit]]:
    return listed_units(stock, listing_policy(dealer.profile))


def _is_named(unit: Any, name: str) -> bool:
    """Whether a record has this vehicle id, VIN or stock number."""
    vin, stock = unit.vin or "", unit.stock or ""
    return unit.vehicle_id == name or vin == name.upper() or stock.casefold() == name.casefold()
