"""`dealer-agent price`: a vehicle's price in lines, for people and as JSON."""

import json
import re
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


PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "all-in-price.md").read_text("utf-8")


def test_the_example_of_the_documentation_is_what_the_command_prints(folder: Path, tmp_path: Path) -> None:
    (lines,), (printed,) = (re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL) for kind in ("toml", "text"))
    made = tmp_path / "my-store"
    succeed_here("init", made)
    file = made / "dealer.toml"
    fees = 'fees = [{name = "Documentation fee", amount = 399}]\n'
    file.write_text(re.sub(r"(?m)^timezone = .*\n", lambda found: found[0] + fees, file.read_text(), count=1) + lines)
    unit = {"stock": "N1042", "year": 2020, "make": "Honda", "model": "Civic", "condition": "used", "price": 19399}
    (tmp_path / "feed.json").write_text(json.dumps([unit]))
    # Where no tax line holds at the rooftop, the settings are refused: it has no address yet.
    place = 'address = {address_line_1 = "1 A", city = "Salt Lake City", state = "UT", zip = "84115"}\n'
    file.write_text(file.read_text().replace(fees, fees + place))
    succeed_here("inventory", "import", tmp_path / "feed.json", "--dir", made)
    shown = succeed_here("price", "N1042", "--zip", "84115", "--dir", made)
    assert [line.rstrip() for line in shown.splitlines() if line] == [line for line in printed.splitlines() if line]


def test_the_messages_of_the_documentation_are_those_of_the_settings() -> None:
    tested = (Path(__file__).parent / "test_pricing_settings.py").read_text("utf-8")
    joined = re.sub(r"""["']\s+f?["']""", "", tested)
    messages = re.findall(r"^\| .* \| `(.+)` \|$", PAGE, re.MULTILINE)
    assert len(messages) == 5
    assert [
        message for message in messages if message.replace('"', '\\"') not in joined and message not in joined
    ] == []
