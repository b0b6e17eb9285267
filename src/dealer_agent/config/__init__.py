"""The dealer's settings: `dealer.toml` and the environment, read once at start. Only bootstrap and cli look here."""

from dealer_agent.config.loading import load_settings
from dealer_agent.config.new_dealer_file import write_dealer_toml
from dealer_agent.config.settings import Settings
from dealer_agent.config.settings_problems import SettingsError, SettingsProblem

__all__ = ["Settings", "SettingsError", "SettingsProblem", "load_settings", "write_dealer_toml"]
