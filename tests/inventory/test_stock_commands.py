"""`inventory list` and `inventory show`: a person sees what buyers see, and where it came from."""

import json
from pathlib import Path

import pytest
from tests.acceptance.running import command_here, succeed_here

pytestmark = pytest.mark.outside_protocol("inventory commands")


def imported(folder: Path, name: str, **changed: object) -> None:
    units = [
        {"stock": f"N{number}", "year": 2020, "make": "Honda", "model": "Civic", "condition": "used", "price": 19000}
        for number in range(30)
    ]
    units[1] |= {"make": "Toyota", "model": "RAV4 Hybrid", "status": "pending"}
    units[2] |= changed
    file = folder / name
    file.write_text(json.dumps([unit for unit in units if unit.get("status") != "gone"]))
    succeed_here("inventory", "import", file, "--dir", folder)


def test_a_person_sees_the_stock_as_buyers_do_and_where_a_unit_came_from(tmp_path: Path) -> None:
    folder = tmp_path / "my-store"
    succeed_here("init", folder)
    at = ("--dir", folder)
    imported(folder, "first.json")
    listed = json.loads(succeed_here("inventory", "list", *at, "--json"))
    assert len(listed) == 30
    for chosen in (("--make", "toyota"), ("--model", "rav4"), ("--status", "pending")):
        (row,) = json.loads(succeed_here("inventory", "list", *at, *chosen, "--json"))
        assert (row["stock"], row["vehicle"], row["price"]) == ("N1", "2020 Toyota RAV4 Hybrid", 19000)
    assert "There are more than these 5" in command_here("inventory", "list", *at, "--limit", "5").stderr
    assert "2020 Toyota RAV4 Hybrid" in succeed_here("inventory", "list", *at, "--make", "Toyota")

    shown = json.loads(succeed_here("inventory", "show", "n1", *at, "--json"))
    assert shown["buyers_see"]["price"] == shown["feed"]["selling_price"] == 19000
    assert (shown["came_from"]["file"], shown["held"]) == ("first.json", None)

    imported(folder, "second.json", price=1)
    shown = json.loads(succeed_here("inventory", "show", "N2", *at, "--json"))
    assert (shown["buyers_see"]["price"], shown["held"]["feed"]["selling_price"]) == (19000, 1)
    text = succeed_here("inventory", "show", "N2", *at)
    assert "The price is $1" in text
    assert "selling price: 1" in text

    imported(folder, "third.json", status="gone")
    assert "left the stock" in command_here("inventory", "show", "N2", *at).stderr
    unknown = command_here("inventory", "show", "N999", *at)
    assert (unknown.returncode, "No such unit" in unknown.stderr) == (1, True)
