"""The all-in price of a vehicle (docs/how-to/all-in-price.md)."""

import statistics
import time
from decimal import ROUND_UP, Decimal, localcontext
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.offers.schedules import amounts, line, priced, pricing, rooftop, vehicle

from dealer_agent.dealers.profile import RooftopAddress
from dealer_agent.offers.pricing import (
    MOST_PRICE,
    LineJurisdiction,
    NoPriceError,
    WrongZipError,
    all_in_price,
    json_number,
    price_document,
)
from dealer_agent.offers.pricing_settings import MOST_AMOUNT, MOST_LINES

pytestmark = pytest.mark.outside_protocol("the all-in price")


@pytest.mark.parametrize(
    ("price", "fees", "list_price", "lines"),
    [
        (30_000, None, None, {"Vehicle price": "30000.00"}),
        (30_000, {}, None, {"Vehicle price": "30000.00"}),
        (30_399, {"Doc fee": 399}, 30_000, {"Vehicle price": "30000.00", "Doc fee": "399.00"}),
        # Without a list price, and with one of another meaning: the rest of the advertised price.
        (30_399, {"Doc fee": 399}, None, {"Vehicle price": "30000.00", "Doc fee": "399.00"}),
        (30_399, {"Doc fee": 399}, 35_000, {"Vehicle price": "30000.00", "Doc fee": "399.00"}),
        (30_399, {"Doc fee": 399, "Nitrogen": 0}, 30_000,
         {"Vehicle price": "30000.00", "Doc fee": "399.00", "Nitrogen": "0.00"}),
        # Fees that cannot be inside the price.
        (399, {"Doc fee": 399}, None, {"Vehicle price": "399.00"}),
        (300, {"Doc fee": 399}, 10, {"Vehicle price": "300.00"}),
        (0, {}, None, {"Vehicle price": "0.00"}),
    ],
)  # fmt: skip
def test_the_advertised_price_is_the_vehicle_and_the_fees_inside_it(
    price: int, fees: dict[str, int] | None, list_price: int | None, lines: dict[str, str]
) -> None:
    found = priced(of=vehicle(price, fees, list_price))
    assert amounts(found) == lines
    assert all(each.firm and each.payee == "dealer" for each in found.lines)
    assert found.price == found.total == price


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Doc fee", "doc"),
        ("Documentation Service Charge", "doc"),
        ("Docking", "doc"),
        ("Freight & PDI", "transport"),
        ("Destination", "transport"),
        ("Delivery and handling", "transport"),
        ("Window tint", "addon"),
        ("Pediatric", "addon"),
    ],
)
def test_a_fee_has_the_kind_of_its_name(name: str, kind: str) -> None:
    assert [each.kind for each in priced(of=vehicle(30_000, {name: 100})).lines] == ["vehicle_price", kind]


def test_a_long_name_of_a_fee_is_cut() -> None:
    assert len(priced(of=vehicle(30_000, {"x" * 200: 100})).lines[1].label) == 80


@pytest.mark.parametrize("price", [None, MOST_PRICE + 1, 2**63 - 1])
def test_a_vehicle_without_a_price_has_no_all_in_price(price: int | None) -> None:
    with pytest.raises(NoPriceError, match="has no all-in price"):
        priced(of=vehicle(price, {}, 30_000))


@pytest.mark.parametrize(
    ("rule", "amount"),
    [
        (line("title", "85"), "85.00"),
        (line("title", "85.5"), "85.50"),
        (line("title", "0"), "0.00"),
        (line("tax", rate="0.0775", base="vehicle_price"), "2325.00"),
        (line("tax", rate="0.0775", base="price"), "2355.92"),  # 30,399 * 0.0775 = 2355.9225
        (line("tax", rate="0.0775", base="taxable"), "2355.92"),
        (line("tax", rate="0"), "0.00"),
        (line("tax", rate="1"), "30399.00"),
        (line("tax", rate="0.00000001"), "0.00"),  # 0.00030399
        (line("discount", "500"), "-500.00"),
        (line("rebate", "500.01"), "-500.01"),
        (line("discount", "0"), "0.00"),
        (line("discount", rate="0.1", base="vehicle_price"), "-3000.00"),
    ],
)
def test_a_line_has_an_amount_or_a_share_of_its_base(rule: dict[str, Any], amount: str) -> None:
    found = priced(rule, of=vehicle(30_399, {"Doc fee": 399}))
    assert str(found.lines[-1].amount) == amount
    assert found.total == found.price + Decimal(amount)


@pytest.mark.parametrize(
    ("price", "rate", "amount"),
    [
        (1, "0.005", "0.01"),  # half a cent is rounded up, also after an even digit
        (1, "0.025", "0.03"),
        (1, "0.0149", "0.01"),
        (1, "0.01499999", "0.01"),
        (1, "0.015", "0.02"),
        (105, "0.07", "7.35"),
        (10_005, "0.0725", "725.36"),  # 725.3625
        (100, "0.00145", "0.15"),
        (1_005, "0.005", "5.03"),  # 5.025, which is less as a binary fraction
        (2_675, "0.001", "2.68"),  # 2.675, likewise
    ],
)
def test_a_line_is_rounded_half_up_by_itself(price: int, rate: str, amount: str) -> None:
    assert str(priced(line("tax", rate=rate), of=vehicle(price)).lines[-1].amount) == amount
    assert str(priced(line("discount", rate=rate), of=vehicle(price)).lines[-1].amount) == f"-{amount}"


def test_the_total_is_the_sum_of_rounded_lines() -> None:
    thirds = [line("addon", rate="0.00333333", label=f"Part {number}") for number in range(3)]
    found = priced(*thirds, of=vehicle(100))
    assert [str(each.amount) for each in found.lines[1:]] == ["0.33"] * 3
    assert str(found.total) == "100.99"


def test_the_taxable_base_is_the_price_with_the_lines_that_are_marked() -> None:
    found = priced(
        line("tax", rate="0.1", base="taxable"),
        line("addon", "100.00", taxable=True),
        line("transport", "1000"),
        line("discount", "50", taxable=True),
        line("rebate", "500"),
        of=vehicle(20_000, {"Doc fee": 400}),
    )
    # 20,000 + 100 - 50, although the marked lines come later.
    assert amounts(found)["The tax"] == "2005.00"
    assert found.total == 20_000 + 2005 + 100 + 1000 - 50 - 500


def test_a_taxable_base_below_zero_has_no_tax() -> None:
    found = priced(line("discount", "200", taxable=True), line("tax", rate="0.1", base="taxable"), of=vehicle(100))
    assert amounts(found) == {"Vehicle price": "100.00", "The discount": "-200.00", "The tax": "0.00"}
    assert found.total == -100


PLACES = [
    line("addon", "1", label="everywhere"),
    line("addon", "1", label="UT", states=["UT"]),
    line("addon", "1", label="NV or 841", states=["NV"], zips=["841"]),
    line("addon", "1", label="84115", zips=["84115"]),
    line("addon", "1", label="of North", rooftops=["North"]),
    line("addon", "1", label="of South in UT", rooftops=["South"], states=["UT"]),
]


@pytest.mark.parametrize(
    ("zip_code", "at", "labels"),
    [
        (None, "North", ["everywhere", "UT", "NV or 841", "84115", "of North"]),
        (None, "South", ["everywhere", "UT", "NV or 841", "84115", "of South in UT"]),
        ("84115-1234", "North", ["everywhere", "UT", "NV or 841", "84115", "of North"]),
        ("84101", "North", ["everywhere", "UT", "NV or 841", "of North"]),
        ("84601", "South", ["everywhere", "UT", "of South in UT"]),
        ("89101", "North", ["everywhere", "NV or 841", "of North"]),
        ("90210", "South", ["everywhere"]),
    ],
)
def test_a_line_holds_at_its_places_for_its_rooftops(zip_code: str | None, at: str, labels: list[str]) -> None:
    found = all_in_price(vehicle(), rooftop(at), zip_code, pricing(*PLACES))
    assert [each.label for each in found.lines[1:]] == labels


@pytest.mark.parametrize(
    ("zip_code", "address", "jurisdiction"),
    [
        (None, rooftop().address, LineJurisdiction("rooftop", "UT", "84115")),
        ("89101-0001", rooftop().address, LineJurisdiction("buyer", "NV", "89101")),
        (None, None, LineJurisdiction("rooftop")),
        (None, RooftopAddress("1 A", "Toronto", "ON", "M4B 1B3", country="CA"), LineJurisdiction("rooftop")),
        ("89101", None, LineJurisdiction("buyer", "NV", "89101")),
    ],
)
def test_the_jurisdiction_is_that_of_the_buyer_else_of_the_rooftop(
    zip_code: str | None, address: Any, jurisdiction: LineJurisdiction
) -> None:
    tax = line("tax", rate="0.01", states=["UT"])
    found = all_in_price(vehicle(), rooftop(address=address or None), zip_code, pricing(tax))
    assert found.jurisdiction == jurisdiction
    assert ("tax" in found.missing) == (jurisdiction.state != "UT")


def test_a_wrong_zip_code_is_not_answered_with_the_price_of_another_place() -> None:
    with pytest.raises(WrongZipError, match="'99' is not a ZIP code"):
        priced(zip_code="99")


@pytest.mark.parametrize(
    ("kinds", "missing"),
    [
        ([], ("tax", "title", "registration")),
        (["tax"], ("title", "registration")),
        (["doc", "addon", "transport", "discount", "rebate"], ("tax", "title", "registration")),
        (["title", "registration"], ("tax",)),
        (["registration", "title", "tax"], ()),
    ],
)
def test_a_total_without_tax_title_or_registration_is_not_complete(kinds: list[str], missing: tuple[str, ...]) -> None:
    here = [line(kind, "0") for kind in kinds]
    elsewhere = [line(kind, "5", states=["NV"]) for kind in ("tax", "title", "registration") if kind not in kinds]
    found = priced(*here, *elsewhere)
    assert found.missing == missing
    assert found.complete == (not missing)
    assert len(found.lines) == 1 + len(kinds), "no line is invented"


def test_a_line_has_what_the_settings_say_of_it() -> None:
    rule = line("title", "85", label="Title", payee="third_party", firm=True, legal_basis="Section 1")
    (_, found) = priced(rule).lines
    assert (found.label, found.kind, found.payee, found.firm, found.legal_basis) == (
        "Title",
        "title",
        "third_party",
        True,
        "Section 1",
    )
    assert not priced(line("title", "85")).lines[1].firm
    assert priced(line("title", "85")).lines[1].legal_basis is None


def test_the_document_has_amounts_in_the_unit_of_price() -> None:
    found = priced(
        line("tax", rate="0.0775", legal_basis="Section 1"),
        line("discount", "0.50", payee="dealer"),
        of=vehicle(30_399, {"Doc fee": 399}),
    )
    assert msgspec.json.decode(msgspec.json.encode(price_document(found))) == {
        "lines": [
            {"label": "Vehicle price", "kind": "vehicle_price", "payee": "dealer", "amount": 30000, "firm": True},
            {"label": "Doc fee", "kind": "doc", "payee": "dealer", "amount": 399, "firm": True},
            {
                "label": "The tax",
                "kind": "tax",
                "payee": "government",
                "amount": 2355.92,
                "firm": False,
                "legal_basis": "Section 1",
            },
            {"label": "The discount", "kind": "discount", "payee": "dealer", "amount": -0.5, "firm": False},
        ],
        "price": 30399,
        "total": 32754.42,
        "complete": False,
        "missing": ["title", "registration"],
        "jurisdiction": {"of": "rooftop", "state": "UT", "zip": "84115"},
        "currency": "USD",
    }


LARGEST_TOTAL = (MOST_PRICE + MOST_LINES * MOST_PRICE) * MOST_LINES
"""More than any total: each line is at most the price, or at most all taxable lines."""


def test_the_largest_total_is_less_than_2_to_the_53_cents() -> None:
    assert MOST_AMOUNT <= MOST_PRICE
    assert LARGEST_TOTAL * 100 < 2**53
    half = MOST_LINES // 2
    lines = [line("addon", rate="1", label=f"A{number}", taxable=True) for number in range(half)]
    lines += [line("addon", rate="1", base="taxable", label=f"B{number}") for number in range(half)]
    assert priced(*lines, of=vehicle(MOST_PRICE)).total < LARGEST_TOTAL


@given(st.integers(-LARGEST_TOTAL * 100, LARGEST_TOTAL * 100))
def test_an_amount_in_json_has_its_exact_cents(cents: int) -> None:
    amount = Decimal(cents).scaleb(-2)
    text = msgspec.json.encode(json_number(amount)).decode()
    assert Decimal(text) == amount
    assert "e" not in text.lower()
    assert ("." in text) == (cents % 100 != 0)


def test_the_decimal_settings_of_a_thread_change_no_cent() -> None:
    rules = [line("tax", rate="0.0775"), line("discount", rate="0.00333333"), line("title", "85.50")]
    usual = priced(*rules)
    with localcontext() as other:
        other.prec, other.rounding = 3, ROUND_UP
        assert priced(*rules) == usual


def test_a_price_takes_well_under_100_microseconds() -> None:
    """Among 500 lines, ten of which hold. The median of the fastest runs, because other processes take time too."""
    here = [line("addon", rate="0.0123", label=f"A{number}") for number in range(8)]
    here += [line("tax", rate="0.0775", base="taxable", states=["UT"]), line("title", "85", states=["UT"])]
    others = [line("tax", rate="0.01", zips=[f"9{number:04}"]) for number in range(1000, 1490)]
    settings, one, place = pricing(*here, *others), vehicle(30_399, {"Doc fee": 399}), rooftop()
    assert len(all_in_price(one, place, "84115", settings).lines) == 12
    times = []
    for _ in range(300):
        start = time.perf_counter()
        all_in_price(one, place, "84115", settings)
        times.append(time.perf_counter() - start)
    assert statistics.median(sorted(times)[:50]) < 100e-6
