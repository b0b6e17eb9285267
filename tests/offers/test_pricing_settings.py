"""`[pricing]` is checked when the settings are read (docs/reference/settings.md#pricing)."""

import time
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.offers.oracle import PLACES
from tests.offers.schedules import line

from dealer_agent.config import Settings, SettingsError, load_settings
from dealer_agent.offers.pricing_rules import pricing_fits
from dealer_agent.offers.pricing_settings import MOST_AMOUNT, MOST_LINES, MOST_STATES, MOST_ZIPS
from dealer_agent.offers.us_places import STATES, states_of
from dealer_agent.protocol.problems import Problem

pytestmark = pytest.mark.outside_protocol("settings")

ROOFTOPS = """\
id = "acme"
name = "Acme Motors"
feed_price = "advertised"
[[rooftops]]
name = "North"
timezone = "America/Denver"
address = {address_line_1 = "1 Example Way", city = "Salt Lake City", state = "UT", zip = "84115"}
[[rooftops]]
name = "South"
timezone = "America/Los_Angeles"
address = {address_line_1 = "1 Example Way", city = "Las Vegas", state = "NV", zip = "89101"}
"""
LINE = '[[pricing.lines]]\nlabel = "A line"\nkind = "addon"\npayee = "dealer"\n'
TAX = '[[pricing.lines]]\nlabel = "Tax"\nkind = "tax"\npayee = "government"\nrate = "0.07"\nbase = "taxable"\n'
TITLE = '[[pricing.lines]]\nlabel = "Title"\nkind = "title"\npayee = "government"\namount = "5"\n'


def load(folder: Path, more: str) -> Settings:
    folder.chmod(0o700)
    (folder / "dealer.toml").write_text(ROOFTOPS + more, encoding="utf-8")
    return load_settings(folder, {})


def problems(folder: Path, more: str) -> list[str]:
    with pytest.raises(SettingsError) as refused:
        load(folder, more)
    return [each.partition(": ")[2] for each in str(refused.value).splitlines()]


def test_without_the_section_there_is_no_line(tmp_path: Path) -> None:
    pricing = load(tmp_path, "").pricing
    assert (pricing.currency, pricing.lines) == ("USD", ())


def test_amounts_and_rates_are_exact(tmp_path: Path) -> None:
    more = '[pricing]\ncurrency = "CAD"\n' + LINE + 'amount = "0.10"\n' + TAX.replace("0.07", "0.07250001")
    pricing = load(tmp_path, more).pricing
    assert pricing.currency == "CAD"
    assert (pricing.lines[0].amount, pricing.lines[1].rate) == (Decimal("0.10"), Decimal("0.07250001"))


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("[pricing]\ncurrency = 'usd'", "pricing.currency: 'usd' must be the three letters of a currency, such as "
         "'USD'"),
        (LINE, 'pricing.lines[0]: says neither amount nor rate; write amount = "85.00", or rate and base'),
        (LINE + "amount = '1'\nrate = '0.1'", "pricing.lines[0].rate: the line also has an amount; remove one of the "
         "two"),
        (LINE + "rate = '0.1'", 'pricing.lines[0].rate: of what? write base = "vehicle_price" or base = "price" or '
         'base = "taxable"'),
        (LINE + "amount = '1'\nbase = 'price'", "pricing.lines[0].base: is for a rate; remove it, because the line has "
         "an amount"),
        (LINE + "rate = '0.1'\nbase = 'taxable'\ntaxable = true", "pricing.lines[0].taxable: would be a part of its "
         "own base; write false, or another base"),
        (LINE + "rate = '0.1'\nbase = 'list_price'", "pricing.lines[0].base: 'list_price' must be one of 'price', "
         "'taxable', 'vehicle_price'; did you mean price?"),
        (LINE + "amount = 85.50", 'pricing.lines[0].amount: 85.5 must be a number in quotes, such as "85.50"'),
        (LINE + "amount = 85", 'pricing.lines[0].amount: 85 must be a number in quotes, such as "85.50"'),
        (LINE + "amount = '-5'", "pricing.lines[0].amount: '-5' must be an amount with at most two decimals, in quotes,"
         " such as '85' or '85.50'"),
        (LINE + "amount = '5.001'", "pricing.lines[0].amount: '5.001' must be an amount with at most two decimals, in "
         "quotes, such as '85' or '85.50'"),
        (LINE + "amount = '1e3'", "pricing.lines[0].amount: '1e3' must be an amount with at most two decimals, in "
         "quotes, such as '85' or '85.50'"),
        (LINE + f"amount = '{MOST_AMOUNT}.01'", "pricing.lines[0].amount: 1000000.01 is too large; write at most "
         "1000000"),
        (LINE + "rate = 0.07\nbase = 'price'", "pricing.lines[0].rate: 0.07 must be a number in quotes, such as "
         '"85.50"'),
        (LINE + "rate = '7.75'\nbase = 'price'", "pricing.lines[0].rate: 7.75 is more than 1, the whole price; if it "
         "is 7.75 %, write '0.0775'"),
        (LINE + "rate = '20'\nbase = 'price'", "pricing.lines[0].rate: 20 is more than 1, the whole price; if it is 20 "
         "%, write '0.2'"),
        (LINE + "rate = '7.75 %'\nbase = 'price'", "pricing.lines[0].rate: '7.75 %' must be a rate in quotes: write "
         "7.75 % as '0.0775'"),
        (LINE + "rate = '0.000000001'\nbase = 'price'", "pricing.lines[0].rate: '0.000000001' must be a rate in "
         "quotes: write 7.75 % as '0.0775'"),
        (LINE.replace("A line", "x" * 81) + "amount = '5'", "pricing.lines[0].label: has 81 characters; write at most "
         "80"),
        (LINE.replace("A line", " ") + "amount = '5'", "pricing.lines[0].label: is empty; write something, or leave "
         "the key out"),
        (LINE + f"amount = '5'\nlegal_basis = '{'x' * 201}'", "pricing.lines[0].legal_basis: has 201 characters; write "
         "at most 200"),
        (LINE.replace("addon", "vehicle_price") + "amount = '5'", "pricing.lines[0].kind: 'vehicle_price' must be one "
         "of 'addon', 'discount', 'doc', 'rebate', 'registration', 'tax', 'title', 'transport'"),
        (LINE.replace('"dealer"', '"dealr"') + "amount = '5'", "pricing.lines[0].payee: 'dealr' must be one of "
         "'dealer', 'government', 'manufacturer', 'third_party'; did you mean dealer?"),
        (LINE + "amount = '5'\nrooftops = ['Noth']", "pricing.lines[0].rooftops[0]: 'Noth' is not a rooftop; name one "
         "of North, South; did you mean North?"),
        (LINE + "amount = '5'\nstates = ['Utah']", "pricing.lines[0].states[0]: 'Utah' is not a state; write its two "
         "letters in capitals, such as 'UT'"),
        (LINE + "amount = '5'\nstates = ['nv']", "pricing.lines[0].states[0]: 'nv' is not a state; write its two "
         "letters in capitals, such as 'NV'"),
        (LINE + "amount = '5'\nzips = ['8411']", "pricing.lines[0].zips[0]: '8411' must be a ZIP code of five digits, "
         "or its first three, such as '84115' or '841'"),
        (LINE + "amount = '5'\nzips = ['00012']", "pricing.lines[0].zips[0]: '00012' is not used: no ZIP code begins "
         "with 000; correct it"),
        (LINE + "amount = '5'\nzips = ['213']", "pricing.lines[0].zips[0]: '213' is not used: no ZIP code begins with "
         "213; correct it"),
        (LINE + "amount = '5'\nzip = ['841']", "pricing.lines[0].zip: unknown key; it belongs under "
         "[rooftops.address]"),
        (TAX + TAX, "pricing.lines[1]: is for a place that lines[0] is for too, and a place has one line of kind "
         "tax; write their sum"),
        (LINE + "amount = '5'\n" + LINE.replace("A line", "a LINE") + "amount = '6'", "pricing.lines[1]: is "
         "for a place that lines[0] is for too, with the same label; give each its own, or remove one"),
        (TAX + "rooftops = ['North']", "rooftops[1]: 'South' (NV 89101) has no tax line in [pricing], but others have; "
         'write one, with rate = "0" where there is no tax'),
        (TAX + "states = ['UT', 'NV']\n" + TITLE + "states = ['UT', 'OR']", "pricing.lines[1].states[1]: OR has no tax "
         'line, but others have; write one, with rate = "0" where there is no tax'),
        (LINE + f"amount = '5'\nstates = {['UT'] * (MOST_STATES + 1)}", f"pricing.lines[0].states: has "
         f"{MOST_STATES + 1} entries; write at most {MOST_STATES}"),
        (LINE + f"amount = '5'\nzips = {['841'] * (MOST_ZIPS + 1)}", f"pricing.lines[0].zips: has {MOST_ZIPS + 1} "
         f"entries; write at most {MOST_ZIPS}"),
    ],
)  # fmt: skip
def test_a_problem_names_its_key_and_says_what_to_do(tmp_path: Path, more: str, problem: str) -> None:
    assert problems(tmp_path, more) == [problem]


def test_a_schedule_has_a_bound(tmp_path: Path) -> None:
    many = "".join(LINE.replace("A line", f"Line {number}") + "amount = '5'\n" for number in range(MOST_LINES + 1))
    assert problems(tmp_path, many) == [f"pricing.lines: has {MOST_LINES + 1} entries; write at most {MOST_LINES}"]


def test_a_problem_has_the_line_of_its_key(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as refused:
        load(tmp_path, LINE + "rate = '7.75'\nbase = 'price'\n")
    line_number = (ROOFTOPS + LINE).count("\n") + 1
    assert str(refused.value).startswith(f"dealer.toml, line {line_number}: pricing.lines[0].rate: 7.75 is more")


def test_a_rooftop_without_an_address_needs_a_tax_line_of_everywhere(tmp_path: Path) -> None:
    third = '[[rooftops]]\nname = "East"\ntimezone = "America/Denver"\n'
    (found,) = problems(tmp_path, third + TAX + "states = ['UT', 'NV']\n")
    assert found.startswith("rooftops[2]: 'East' (without a US address) has no tax line in [pricing], but others have;")
    assert load(tmp_path, third + TAX).pricing.lines


@pytest.mark.parametrize(
    "more",
    [
        TAX,
        TITLE + "states = ['OR']\n",
        TAX + "states = ['UT']\n" + TAX + "states = ['NV']\n",
        TAX + "zips = ['841']\n" + TAX + "zips = ['89101', '89102']\n" + TITLE + "states = ['UT']\n",
        TAX + "rooftops = ['North']\n" + TAX + "rooftops = ['South']\n",
        TAX + TITLE + LINE + "amount = '5'\n" + LINE.replace("A line", "Another") + "amount = '5'\n",
        LINE + "rate = '1'\nbase = 'price'\n",
        LINE + f"amount = '{MOST_AMOUNT}.00'\n",
    ],
)
def test_what_a_dealer_may_write_is_taken(tmp_path: Path, more: str) -> None:
    assert load(tmp_path, more).pricing.lines


def found_in(*lines: Any, rooftops: Any = ()) -> list[Problem]:
    return list(pricing_fits({"pricing": {"lines": list(lines)}, "rooftops": list(rooftops)}))


SHARING: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
    ({}, {}, True),
    ({}, {"states": ["UT"]}, True),
    ({}, {"zips": ["84115"]}, True),
    ({"states": ["UT"]}, {"states": ["NV", "UT"]}, True),
    ({"states": ["UT"]}, {"states": ["NV"]}, False),
    ({"states": ["UT"]}, {"zips": ["841"]}, True),
    ({"states": ["UT"]}, {"zips": ["84115"]}, True),
    ({"states": ["UT"]}, {"zips": ["891", "89101"]}, False),
    ({"states": ["NY"]}, {"zips": ["063"]}, True),
    ({"states": ["NY"]}, {"zips": ["06390"]}, True),
    ({"states": ["CT"]}, {"zips": ["06390"]}, False),
    ({"zips": ["841"]}, {"zips": ["841"]}, True),
    ({"zips": ["841"]}, {"zips": ["84115"]}, True),
    ({"zips": ["840"]}, {"zips": ["84115"]}, False),
    ({"zips": ["84115"]}, {"zips": ["84115"]}, True),
    ({"zips": ["84115"]}, {"zips": ["84116"]}, False),
    ({"rooftops": ["North"]}, {}, True),
    ({"rooftops": ["North"]}, {"rooftops": ["South"]}, False),
    ({"rooftops": ["North", "South"]}, {"rooftops": ["South"]}, True),
    ({"rooftops": ["North"], "states": ["UT"]}, {"rooftops": ["North"], "states": ["NV"]}, False),
    ({"rooftops": ["North"], "states": ["UT"]}, {"zips": ["84115"]}, True),
]


@pytest.mark.parametrize(("one", "other", "share"), SHARING)
def test_two_lines_of_a_kind_share_no_place(one: dict[str, Any], other: dict[str, Any], share: bool) -> None:
    north = [{"name": "North"}, {"name": "South"}]
    for first, second in ((one, other), (other, one)):
        rules = [line("title", "5", **first), line("title", "6", **second)]
        paths = [each.path for each in found_in(*rules, rooftops=north)]
        assert paths == ([("pricing", "lines", 1)] if share else [])


@pytest.mark.parametrize("kind", ["doc", "addon", "transport", "discount", "rebate", "title", "registration", "tax"])
def test_lines_of_some_kinds_need_other_labels_only(kind: str) -> None:
    two = [line(kind, "5", label="One"), line(kind, "5", label="Two")]
    assert bool(found_in(*two)) == (kind in {"doc", "title", "registration", "tax"})
    assert found_in(*two[:1], line("transport" if kind == "addon" else "addon", "5", label="One")) == []


def test_lines_that_share_a_place_are_those_that_both_hold_at_one() -> None:
    """The check of pairs finds a pair exactly if a place and a rooftop exist at which both lines hold."""
    random, pairs = Random(1), 0
    for _ in range(1_000):
        rules = []
        for label in ("One", "Two"):
            more: dict[str, Any] = {}
            if random.random() < 0.6:
                more["states"] = random.sample(sorted(set(PLACES.values())), random.randrange(1, 3))
            if random.random() < 0.6:
                more["zips"] = [code[: random.choice((3, 5))] for code in random.sample(sorted(PLACES), 2)]
            if random.random() < 0.3:
                more["rooftops"] = random.sample(["North", "South"], 1)
            rules.append(line("title", "5", label=label, **more))
        here = [
            all(
                (not rule.get("states") and not rule.get("zips"))
                or state in rule.get("states", ())
                or any(code.startswith(start) for start in rule.get("zips", ()))
                for rule in rules
            )
            # The named codes, and codes that no line names: every state and every prefix of a line has one.
            for code, state in [*PLACES.items(), *OTHER_CODES.items()]
        ]
        sold = not set(rules[0].get("rooftops", "NS")).isdisjoint(rules[1].get("rooftops", "NS")) or any(
            "rooftops" not in rule for rule in rules
        )
        both = any(here) and sold
        rooftops = [{"name": "North"}, {"name": "South"}]
        assert bool(found_in(*rules, rooftops=rooftops)) == both, rules
        pairs += both
    assert pairs > 200


OTHER_CODES = {
    f"{prefix}77": state
    for prefix in ("841", "846", "891", "895", "372", "063", "834", "967", "005", "972")
    for state in states_of(prefix)
    if (prefix, state) not in {("063", "NY"), ("834", "WY"), ("967", "AS")}
} | {"89001": "NV", "38501": "TN", "10001": "NY", "82001": "WY", "97001": "OR", "84701": "UT", "96801": "HI"}
"""Other ZIP codes of the states and of the prefixes."""


def test_any_schedule_is_checked_in_a_moment() -> None:
    """500 lines for 500 rooftops with 900 ZIP codes: as much as the largest file of settings can have."""
    zips = sorted({f"{code:05}" for code in range(84001, 84999)})[:300]
    lines = [line("tax", rate="0.01", rooftops=[f"R{number}"], zips=zips) for number in range(MOST_LINES)]
    rooftops = [{"name": f"R{number}", "address": {"state": "UT", "zip": "84115"}} for number in range(MOST_LINES)]
    start = time.process_time()
    assert found_in(*lines, rooftops=rooftops) == []
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    "file",
    [
        {},
        {"pricing": 3},
        {"pricing": {"lines": 3}, "rooftops": []},
        {"pricing": {"lines": [3, {"kind": 5}, {"label": "x", "kind": "tax", "payee": "dealer", "rate": "x"}]},
         "rooftops": [3, {"name": 3}, {"name": "North", "address": 3}, {"name": "North", "address": {"zip": 3}}]},
        {"pricing": {"lines": [line("addon", "5", states=["Utah", "??"], zips=["1", "000", "00012"])]},
         "rooftops": [{"name": "North", "address": {"state": "UT", "zip": "84115", "country": 5}}]},
    ],
)  # fmt: skip
def test_parts_of_a_wrong_type_are_left_to_other_checks(file: dict[str, Any]) -> None:
    assert list(pricing_fits(file)) == []


def test_each_state_may_have_its_own_line(tmp_path: Path) -> None:
    each = "".join(TITLE + f"states = ['{state}']\n" for state in sorted(STATES))
    assert len(load(tmp_path, each).pricing.lines) == len(STATES)
