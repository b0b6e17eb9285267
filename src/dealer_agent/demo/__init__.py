"""A made-up dealer group with two rooftops and a few hundred units, to try the service with."""

from dealer_agent.demo.dealer import demo_dealer_toml
from dealer_agent.demo.inventory import demo_inventory

__all__ = ["demo_dealer_toml", "demo_inventory"]
