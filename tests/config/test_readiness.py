"""What a dealer must state before the service is open to the public."""

from pathlib import Path

import pytest

from dealer_agent.cli.serve import not_yet_open
from dealer_agent.config.loading import read_dealer_file
from dealer_agent.config.new_dealer_file import dealer_toml
from dealer_agent.config.readiness import POINTS, is_open, missing_points
from dealer_agent.config.settings import Settings

pytestmark = pytest.mark.outside_protocol("going live")

READY = """
id = "ridgeline"
name = "Ridgeline Motors"
feed_price = "advertised"

[[rooftops]]
name = "North"
timezone = "America/Chicago"
fees = []

[rooftops.address]
address_line_1 = "1 Main Street"
city = "Columbus"
state = "OH"
zip = "43215"

[rooftops.phones]
sales = "+1 202 555 0150"

[rooftops.hours.sales]
monday = "09:00-20:00"

[rooftops.deliver]
notify = ["sales@example.org"]

[policies]
privacy_notice = "https://www.example.org/privacy"

[mail]
host = "smtp.example.org"
from_address = "leads@example.org"

[alerts]
mail = ["owner@example.org"]

[service]
public_url = "https://agent.example.org"
trusted_proxies = ["127.0.0.1"]
"""

CHANGES = {
    "name": ("", ""),
    "price": ('feed_price = "advertised"', 'feed_price = "advertised"\nguesses = ["feed_price"]'),
    "address": (READY[READY.index("[rooftops.address]") : READY.index("[rooftops.phones]")], ""),
    "phone": ('[rooftops.phones]\nsales = "+1 202 555 0150"', ""),
    "hours": ('[rooftops.hours.sales]\nmonday = "09:00-20:00"', ""),
    "fees": ("fees = []", ""),
    "notice": ('privacy_notice = "https://www.example.org/privacy"', ""),
    "outlet": ('notify = ["sales@example.org"]', ""),
    "alerts": ('mail = ["owner@example.org"]', ""),
    "tls": ("https://agent", "http://agent"),
    "proxy": ('trusted_proxies = ["127.0.0.1"]', ""),
}


def settings_of(text: str) -> Settings:
    return Settings.of(read_dealer_file(text), folder=Path(), database_url="")


def missing(text: str) -> list[str]:
    return [each.name for each in missing_points(settings_of(text))]


def test_nothing_is_missing_for_a_dealer_who_has_stated_all() -> None:
    assert missing(READY) == []
    assert is_open(settings_of(READY))


@pytest.mark.parametrize("name", sorted(CHANGES.keys() - {"name"}))
def test_each_point_is_missing_by_itself(name: str) -> None:
    before, after = CHANGES[name]
    assert before in READY
    changed = READY.replace(before, after)
    assert missing(changed) == [name]
    assert not is_open(settings_of(changed))


def test_without_a_public_url_address_and_encryption_are_missing() -> None:
    assert missing(READY.replace('public_url = "https://agent.example.org"', "")) == ["public url", "tls"]
    assert missing(READY.replace("https://agent.example.org", "https://127.0.0.1")) == ["public url"]


def test_the_file_of_init_misses_every_point_and_each_has_a_cure() -> None:
    found = list(missing_points(settings_of(dealer_toml("My Store", "name"))))
    assert [each.name for each in found] == [point.name for point in POINTS]
    for each in found:
        assert each.says
        assert each.cure.rstrip(".")


def test_serve_names_what_is_missing_and_where_the_list_is() -> None:
    assert not_yet_open(settings_of(READY)) is None
    said = not_yet_open(settings_of(READY.replace("fees = []", "").replace('notify = ["sales@example.org"]', "")))
    assert said is not None
    assert "Missing: fees, outlet. See dealer-agent doctor --public" in said
    assert (
        not_yet_open(settings_of(READY.replace("fees = []", "").replace("[service]", "[service]\nopen = true"))) is None
    )


@pytest.mark.parametrize(
    ("name", "stated", "example"),
    [
        ("address", "1 Main Street", "100 Main Street"),
        ("phone", "+1 202 555 0150", "+1 202 555 0123"),
        ("notice", "https://www.example.org/privacy", "https://www.example.com/privacy"),
        ("outlet", "sales@example.org", "sales.manager@example.com"),
        ("alerts", "owner@example.org", "owner@example.com"),
        ("public url", "https://agent.example.org", "https://agent.example.com"),
    ],
)
def test_an_example_of_the_template_that_nobody_has_replaced_is_missing(name: str, stated: str, example: str) -> None:
    assert f'"{example}"' in dealer_toml("My Store")
    assert missing(READY.replace(stated, example)) == [name]


def test_a_dealer_may_say_that_it_is_open() -> None:
    assert is_open(settings_of(dealer_toml("My Store").replace("# open = true", "open = true")))
