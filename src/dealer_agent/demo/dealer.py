"""The demo dealer's settings."""

from importlib.resources import files


def demo_dealer_toml() -> str:
    """The text of the demo's `dealer.toml`."""
    return files("dealer_agent.demo").joinpath("dealer.toml").read_text("utf-8")
