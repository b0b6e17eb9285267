"""Vehicles, rooftops and settings of prices for tests."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import UNSET

from dealer_agent.dealers.profile import DealerRooftop, RooftopAddress
from dealer_agent.offers.pricing import AllInPrice, all_in_price
from dealer_agent.offers.pricing_settings import PricingSettings
from dealer_agent.protocol.vehicle import Fee, Vehicle

ADDRESS = RooftopAddress("1 Example Way", "Salt Lake City", "UT", "84115")


def vehicle(
    price: int | None = 30_000,
    fees: dict[str, int] | Sequence[tuple[str, int]] | None = None,
    list_price: int | None = None,
) -> Vehicle:
    """A vehicle of the rooftop North. Without `fees`, they are unknown."""
    return Vehicle(
        vehicle_id="vin-1",
        status="available",
        rooftop="North",
        updated_at=datetime(2026, 11, 1, tzinfo=UTC),
        price=UNSET if price is None else price,
        list_price=UNSET if list_price is None else list_price,
        fees=UNSET
        if fees is None
        else tuple(Fee(name, amount) for name, amount in (fees.items() if isinstance(fees, dict) else fees)),
    )


def rooftop(name: str = "North", address: RooftopAddress | None = ADDRESS) -> DealerRooftop:
    """A rooftop, which is in Salt Lake City without another address."""
    return DealerRooftop(name=name, timezone="America/Denver", address=UNSET if address is None else address)


def line(kind: str, amount: str | None = None, rate: str | None = None, base: str = "price", **more: Any) -> Any:
    """A line as `dealer.toml` has it."""
    how = {"amount": amount} if rate is None else {"rate": rate, "base": base}
    return {"label": f"The {kind}", "kind": kind, "payee": "government", **how, **more}


def pricing(*lines: Any, **more: Any) -> PricingSettings:
    """The settings with these lines."""
    return msgspec.convert({"lines": list(lines), **more}, PricingSettings)


def priced(*lines: Any, of: Vehicle | None = None, zip_code: str | None = None) -> AllInPrice:
    """The price of a vehicle at the rooftop North."""
    return all_in_price(of or vehicle(), rooftop(), zip_code, pricing(*lines))


def amounts(price: AllInPrice) -> dict[str, str]:
    """The amounts by label."""
    return {line.label: str(line.amount) for line in price.lines}
