"""The dealer's settings: `dealer.toml`, keys and the environment, read once at the start."""

from dealer_agent.config.loading import load_settings
from dealer_agent.config.new_dealer_file import write_dealer_toml
from dealer_agent.config.settings import Settings
from dealer_agent.config.settings_problems import SettingsError

__all__ = ["Settings", "SettingsError", "load_settings", "write_dealer_toml"]
