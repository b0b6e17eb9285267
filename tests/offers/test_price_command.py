"""`dealer-agent price`: a vehicle's price in lines, for people and as JSON."""

import json
from pathlib import Path

import pytest
from tests.acceptance.running import command_here, succeed_here

pytestmark = pytest.mark.outside_protocol("the all-in price")

LINES = """
[[pricing.lines]]
label = "Sales tax"
kind = "tax"
payee = "government"
rate = "0.0775"
base = "taxable"
legal_basis = "Tax Act"
[[pricing.lines]]
label = "Title"
kind = "title"
payee = "government"
amount = "6.00"
firm = true
[[pricing.lines]]
label = "Registration"
kind = "registration"
payee = "government"
amount = "150"
states = ["UT"]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dealer with three units. One has no price, and one is held back."""
    folder = tmp_path_factory.mktemp("price")
    made = folder / "my-store"
    succeed_here("init", made)
    described = {"year": 2020, "make": "Honda", "model": "Civic", "condition": "used"}
    units = [
        described | {"vin": "1HGCY2F57RA000001", "stock": "N1", "price": 19000},
        described | {"stock": "N2"},
        described | {"stock": "N3", "price": 18000},
    ]
    (folder / "feed.json").write_text(json.dumps(units))
    succeed_here("inventory", "import", folder / "feed.json", "--dir", made)
    succeed_here("inventory", "hide", "N3", "--dir", made)
    with (made / "dealer.toml").open("a") as file:
        file.write(LINES)
    return made


def test_the_lines_are_marked_as_firm_or_estimated_and_a_gap_is_named(folder: Path) -> None:
    printed = succeed_here("price", "n1", "--dir", folder)
    for line in (
        " Vehicle price              │ $19,000.00 │ firm     │ dealer     ",
        " Sales tax                  │  $1,472.50 │ estimate │ government ",
        " Title                      │      $6.00 │ firm     │ government ",
        " Total without registration │ $20,478.50 │ estimate │            ",
        "The advertised price, $19,000.00, is firm.",
        "The total is for a buyer at the rooftop.",
        "Not stated for this place, so not in the total: registration.",
        "Sales tax: Tax Act",
    ):
        assert line in printed.splitlines()


def test_the_lines_are_those_of_the_buyers_zip_code(folder: Path) -> None:
    printed = succeed_here("price", "vin-1HGCY2F57RA000001", "--zip", "84115-0001", "--dir", folder)
    assert " All-in price  │ $20,628.50 │ estimate │            " in printed.splitlines()
    assert "The total is for a buyer in UT 84115." in printed
    assert "not in the total" not in printed


def test_json_has_the_same_price(folder: Path) -> None:
    found = json.loads(succeed_here("price", "1hgcy2f57ra000001", "--zip", "84115", "--json", "--dir", folder))
    assert found["total"] == 20628.5
    assert [line["amount"] for line in found["lines"]] == [19000, 1472.5, 6, 150]
    assert (found["complete"], found["missing"]) == (True, [])
    assert found["jurisdiction"] == {"of": "buyer", "state": "UT", "zip": "84115"}
    assert (found["stock"], found["currency"]) == ("N1", "USD")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("N2",), 1, "This vehicle has no advertised price, so it has no all-in price."),
        (("N3",), 1, "N3 is held back, so buyers do not see it. See dealer-agent inventory show --dir"),
        (("N9",), 1, "No such unit: 'N9'"),
        (("N1", "--zip", "99"), 2, "is not a ZIP code of the United States"),
        ((), 2, "Missing argument 'UNIT'"),
    ],
)
def test_an_error_says_what_happened(folder: Path, words: tuple[str, ...], code: int, message: str) -> None:
    done = command_here("price", *words, "--dir", folder, "--json")
    assert (done.returncode, done.stdout) == (code, "")
    assert message in " ".join(done.stderr.replace("│", " ").split())
