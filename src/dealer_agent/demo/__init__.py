"""An invented dealer group with two rooftops and 354 vehicles. Nobody in it is real. Data, in files beside this one."""

from importlib.resources import files


def demo_dealer_toml() -> str:
    """The demo dealer's `dealer.toml`."""
    return files(__name__).joinpath("dealer.toml").read_text("utf-8")


def demo_inventory() -> bytes:
    """The demo dealer's inventory: a CSV file in the canonical layout, in UTF-8. Its dates never change."""
    return files(__name__).joinpath("inventory.csv").read_bytes()
