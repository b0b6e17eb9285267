"""The `dealer.toml` that `init` writes: it loads as it is, it teaches, and it overwrites nothing."""

import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict, fields

from dealer_agent.config import SettingsError, load_settings, write_dealer_toml
from dealer_agent.config.installation import InstallationFile, InstallationSettings, load_installation
from dealer_agent.config.loading import read_dealer_file, read_toml
from dealer_agent.config.new_dealer_file import GUESSES, dealer_toml, installation_toml, write_installation_toml
from dealer_agent.config.settings import DealerFile
from dealer_agent.dealers.information import dealer_information
from dealer_agent.protocol.responses import Rooftop


@pytest.mark.requirement("feed-price-default")
def test_the_written_file_loads_as_it_is(tmp_path: Path) -> None:
    path = write_dealer_toml(tmp_path / "my-store", "My Store")
    assert path == tmp_path / "my-store" / "dealer.toml"
    settings = load_settings(path.parent, {})
    assert (settings.dealer.id, settings.dealer.name) == ("my-store", "My Store")
    assert settings.dealer.rooftops[0].name == "My Store"
    # The default that `init` writes (docs/protocol.md#feed-price).
    assert settings.dealer.feed_price == "advertised"


def test_what_it_sets_beyond_the_profile_are_the_defaults() -> None:
    file = read_dealer_file(dealer_toml("My Store"))
    bare = DealerFile(id=file.id, name=file.name, feed_price=file.feed_price, rooftops=file.rooftops, guesses=GUESSES)
    assert asdict(file) == asdict(bare)


def test_without_changes_no_guess_of_the_file_is_published() -> None:
    file = read_dealer_file(dealer_toml("My Store"))
    (rooftop,) = dealer_information(file).rooftops
    assert rooftop == Rooftop(name="My Store")
    assert not file.rooftops[0].visits


def test_hours_need_a_time_zone_that_somebody_has_checked() -> None:
    text = re.sub(
        r"(?m)^# (\[rooftops.hours.sales\]|monday = \"09:00-20:00\")$", r"\1", dealer_toml("My Store"), count=2
    )
    with pytest.raises(SettingsError, match=r"rooftops\[0\].timezone: is a guess"):
        read_dealer_file(text)
    file = read_dealer_file(text.replace(', "timezone"]', "]"))
    (rooftop,) = dealer_information(file).rooftops
    assert rooftop.timezone == "America/New_York"
    assert rooftop.schedules


def test_the_file_of_a_new_dealer_does_not_replace_an_existing_file(tmp_path: Path) -> None:
    (tmp_path / "dealer.toml").write_text("mine")
    with pytest.raises(FileExistsError):
        write_dealer_toml(tmp_path, "My Store")
    assert (tmp_path / "dealer.toml").read_text() == "mine"


@pytest.mark.parametrize("name", ["", "  "])
def test_a_store_without_a_name_is_refused_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="needs a name"):
        write_dealer_toml(tmp_path / "new", name)
    assert not (tmp_path / "new").exists()


@given(st.text(min_size=1).filter(str.strip).filter(lambda name: name.isprintable() or name.isascii()))
def test_any_name_is_written_so_that_it_is_read_again(name: str) -> None:
    file = read_dealer_file(dealer_toml(name))
    assert (file.name, file.rooftops[0].name) == (name.strip(), name.strip())


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("O'Brien & Sons Chevrolet", "o-brien-sons-chevrolet"),
        ("Citroën Lyon", "citroen-lyon"),
        ("株式会社", "dealer"),
        ("x" * 70, "x" * 63),
    ],
)
def test_the_id_is_made_from_the_name(name: str, slug: str) -> None:
    assert read_dealer_file(dealer_toml(name)).id == slug


def test_the_file_of_a_new_dealer_shows_every_section() -> None:
    """docs/reference/settings.md has the keys that it does not show (`tests/repository/test_reference.py`)."""
    sections = [field.encode_name for field in fields(DealerFile) if isinstance(field.default, msgspec.Struct)]
    text = dealer_toml("My Store")
    assert len(sections) > 5
    assert [name for name in sections if f"[{name}]" not in text] == []


def test_with_every_example_uncommented_it_still_loads() -> None:
    """What it teaches is true: each commented example works when the mark is taken away."""
    text = re.sub(r"(?m)^# ?((?:\[+[a-z_0-9.]+\]+|[a-z_0-9]+ = ).*)$", r"\1", dealer_toml("My Store"))
    text = text.replace('mode = "none"', 'mode = "bearer"').replace(', "timezone"]', "]")
    file = read_dealer_file(text)
    assert len(file.rooftops) == 2
    assert msgspec.UNSET not in (file.welcome_message, file.policies.text, file.rooftops[0].address)
    assert file.area_offers
    assert file.rooftops[0].fees


MANY_DEALERS = pytest.mark.outside_protocol("many dealers in one service")
URL = "https://agents.example.com"


def read_installation_file(text: str) -> InstallationFile:
    return msgspec.convert(read_toml("installation.toml", text, InstallationFile), InstallationFile)


@MANY_DEALERS
def test_the_file_of_an_installation_loads_as_it_is_with_the_defaults(tmp_path: Path) -> None:
    path = write_installation_toml(tmp_path / "platform", URL)
    found = load_installation(path.parent, {}).file
    assert found == InstallationFile(installation=InstallationSettings(public_url=URL))
    with pytest.raises(FileExistsError):
        write_installation_toml(path.parent, URL)


@MANY_DEALERS
def test_the_file_of_an_installation_names_every_section_and_all_its_own_keys() -> None:
    text = installation_toml(URL)
    assert [each.encode_name for each in fields(InstallationFile) if f"[{each.encode_name}]" not in text] == []
    keys = [each.encode_name for each in fields(InstallationSettings) if each.name != "alerts"]
    assert "[installation.alerts]" in text
    assert [key for key in keys if not re.search(rf"(?m)^{key} = ", text)] == []
    assert "# Not for dealers: host, port, security, user_env, password_env, timeout_seconds.\n" in text


@MANY_DEALERS
def test_the_examples_in_the_file_of_an_installation_load_and_are_the_defaults() -> None:
    text = re.sub(r"(?m)^# ?((?:\[+[a-z_0-9.]+\]+|[a-z_0-9]+ = ).*)$", r"\1", installation_toml(URL))
    file = read_installation_file(text.replace('mode = "none"', 'mode = "bearer"'))
    defaults = InstallationFile(installation=file.installation)
    assert file.mail.host == "smtp.example.com"
    for section in ("search", "delivery", "rate_limits", "logs"):
        assert getattr(file, section) == getattr(defaults, section)
    assert file.service.max_connections == defaults.service.max_connections
