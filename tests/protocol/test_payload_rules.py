"""What each request payload may hold, row by row of the tables (docs/protocol.md)."""

from typing import Any

import pytest
from tests.protocol.bodies import ABSENT, VIN, body, changed, decode, payload, pointers, refused

DATA = "/message/parts/0/data"

TEXT_LISTS = {
    "make": ["Honda", "Kia"],
    "model": ["CR-V"],
    "trim": ["EX-L"],
    "transmission": ["automatic"],
    "fuel": ["gas"],
    "charge_port": ["nacs"],
    "driveline": ["awd"],
    "body": ["suv"],
    "exterior_color": ["Glacier White"],
    "interior_color": ["Black"],
    "rooftops": ["Test Motors North"],
}
NATURALS = (
    "electric_range_mi_min",
    "electric_range_mi_max",
    "displacement_cc_min",
    "displacement_cc_max",
    "price_min",
    "price_max",
    "mileage_max",
)


def with_filter(skill: str, name: str, value: object) -> dict[str, Any]:
    return body(skill, filters={name: value})


def fails(document: dict[str, Any], pointer: str, keyword: str) -> None:
    """A payload is refused for one thing alone."""
    error = refused(document)
    assert (error.code, error.http) == ("SCHEMA_VALIDATION_FAILED", 422)
    assert error.details["in"] == "payload"
    assert [(each["instancePath"], each["keyword"]) for each in error.details["errors"]] == [(pointer, keyword)]


SEARCHES = pytest.mark.parametrize("skill", ["inventory.search", "inventory.facets"])


@SEARCHES
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("make", marks=pytest.mark.requirement("filter-make")),
        pytest.param("model", marks=pytest.mark.requirement("filter-model")),
        pytest.param("trim", marks=pytest.mark.requirement("filter-trim")),
        pytest.param("transmission", marks=pytest.mark.requirement("filter-transmission")),
        pytest.param("fuel", marks=pytest.mark.requirement("filter-fuel")),
        pytest.param("charge_port", marks=pytest.mark.requirement("filter-charge-port")),
        pytest.param("driveline", marks=pytest.mark.requirement("filter-driveline")),
        pytest.param("body", marks=pytest.mark.requirement("filter-body")),
        pytest.param("exterior_color", marks=pytest.mark.requirement("filter-exterior-color")),
        pytest.param("interior_color", marks=pytest.mark.requirement("filter-interior-color")),
        pytest.param("rooftops", marks=pytest.mark.requirement("filter-rooftops")),
    ],
)
@pytest.mark.requirement("facets-filters-whole")
def test_a_filter_of_words_is_an_array_of_strings(skill: str, name: str) -> None:
    assert decode(with_filter(skill, name, TEXT_LISTS[name]))
    assert decode(with_filter(skill, name, []))
    fails(with_filter(skill, name, TEXT_LISTS[name][0]), f"/filters/{name}", "type")
    fails(with_filter(skill, name, [7]), f"/filters/{name}/0", "type")
    fails(with_filter(skill, name, ["x", None]), f"/filters/{name}/1", "type")
    fails(with_filter(skill, name, None), f"/filters/{name}", "type")


@SEARCHES
@pytest.mark.parametrize(
    ("name", "words", "others"),
    [
        pytest.param(
            "condition",
            ["new", "used", "cpo"],
            ["certified", "New", "good"],
            marks=pytest.mark.requirement("filter-condition"),
        ),
        pytest.param(
            "vehicle_type",
            ["car", "motorcycle", "trailer", "rv", "other"],
            ["truck", "Car", "boat"],
            marks=pytest.mark.requirement("filter-vehicle-type"),
        ),
    ],
)
def test_a_filter_with_fixed_values_accepts_no_others(
    skill: str, name: str, words: list[str], others: list[str]
) -> None:
    assert decode(with_filter(skill, name, words))
    assert decode(with_filter(skill, name, []))
    for other in others:
        fails(with_filter(skill, name, [words[0], other]), f"/filters/{name}/1", "enum")
    fails(with_filter(skill, name, words[0]), f"/filters/{name}", "type")


@SEARCHES
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("electric_range_mi_min", marks=pytest.mark.requirement("filter-electric-range-mi-min")),
        pytest.param("electric_range_mi_max", marks=pytest.mark.requirement("filter-electric-range-mi-max")),
        pytest.param("displacement_cc_min", marks=pytest.mark.requirement("filter-displacement-cc-min")),
        pytest.param("displacement_cc_max", marks=pytest.mark.requirement("filter-displacement-cc-max")),
        pytest.param("price_min", marks=pytest.mark.requirement("filter-price-min")),
        pytest.param("price_max", marks=pytest.mark.requirement("filter-price-max")),
        pytest.param("mileage_max", marks=pytest.mark.requirement("filter-mileage-max")),
    ],
)
@pytest.mark.requirement("filter-not-below-zero")
def test_a_filter_of_numbers_is_an_integer_of_at_least_zero(skill: str, name: str) -> None:
    assert name in NATURALS
    for value in (0, 1, 2**63 - 1):
        assert decode(with_filter(skill, name, value))
    fails(with_filter(skill, name, -1), f"/filters/{name}", "minimum")
    fails(with_filter(skill, name, "1"), f"/filters/{name}", "type")
    fails(with_filter(skill, name, 1.5), f"/filters/{name}", "type")
    fails(with_filter(skill, name, None), f"/filters/{name}", "type")


@SEARCHES
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("year_min", marks=pytest.mark.requirement("filter-year-min")),
        pytest.param("year_max", marks=pytest.mark.requirement("filter-year-max")),
    ],
)
@pytest.mark.requirement("filter-year-bounds")
def test_a_year_is_an_integer_from_1900_to_2100(skill: str, name: str) -> None:
    assert decode(with_filter(skill, name, 1900))
    assert decode(with_filter(skill, name, 2100))
    fails(with_filter(skill, name, 1899), f"/filters/{name}", "minimum")
    fails(with_filter(skill, name, 2101), f"/filters/{name}", "maximum")
    fails(with_filter(skill, name, "2020"), f"/filters/{name}", "type")


@SEARCHES
@pytest.mark.requirement("filter-dc-fast-charge")
def test_dc_fast_charge_is_a_boolean(skill: str) -> None:
    for value in (True, False):
        assert decode(with_filter(skill, "dc_fast_charge", value))
    wrong_values: list[object] = [1, 0, "true", None, []]
    for wrong in wrong_values:
        fails(with_filter(skill, "dc_fast_charge", wrong), "/filters/dc_fast_charge", "type")


@SEARCHES
@pytest.mark.parametrize(
    "vin",
    [
        "1HGCY2F57RA00000",
        "1HGCY2F57RA0000011",
        "1HGCY2F57RA00000I",
        "1HGCY2F57RA00000O",
        "1HGCY2F57RA00000Q",
        "1hgcy2f57ra000001",
        VIN + "\n",
        " " + VIN[1:],
        "1HGCY2F57RA00000\uff11",
        "",
    ],
)
@pytest.mark.requirement("filter-vin", "filter-vin-pattern")
def test_a_vin_has_17_characters_of_the_pattern(skill: str, vin: str) -> None:
    assert decode(with_filter(skill, "vin", VIN))
    fails(with_filter(skill, "vin", vin), "/filters/vin", "pattern")


@SEARCHES
@pytest.mark.requirement("filter-stock")
def test_a_stock_number_is_a_string(skill: str) -> None:
    assert decode(with_filter(skill, "stock", "A-17 b"))
    fails(with_filter(skill, "stock", 17), "/filters/stock", "type")


@SEARCHES
@pytest.mark.requirement("filter-query", "filter-query-length")
def test_a_query_has_at_most_200_characters(skill: str) -> None:
    for text in ("", "x" * 200, "é" * 200, "🚗" * 200):
        assert decode(with_filter(skill, "query", text))
    for text in ("x" * 201, "🚗" * 201):
        fails(with_filter(skill, "query", text), "/filters/query", "maxLength")


@SEARCHES
@pytest.mark.parametrize("name", ["colour", "year", "condition_min", "Make", "mileage_min", "", "a/b~c"])
@pytest.mark.requirement("filters-unknown-refused")
def test_unknown_filters_are_refused_and_named(skill: str, name: str) -> None:
    pointer = "/filters/" + name.replace("~", "~0").replace("/", "~1")
    fails(with_filter(skill, name, "x"), pointer, "additionalProperties")


PAGE_CASES = [
    pytest.param("skip", 0, None, marks=pytest.mark.requirement("pagination-skip")),
    pytest.param("skip", 2**40, None, marks=pytest.mark.requirement("pagination-skip")),
    pytest.param("skip", -1, "minimum", marks=pytest.mark.requirement("pagination-skip-bounds")),
    pytest.param("skip", "0", "type", marks=pytest.mark.requirement("pagination-skip")),
    pytest.param("limit", 1, None, marks=pytest.mark.requirement("pagination-limit")),
    pytest.param("limit", 1000, None, marks=pytest.mark.requirement("pagination-limit")),
    pytest.param("limit", 0, "minimum", marks=pytest.mark.requirement("pagination-limit-bounds")),
    pytest.param("limit", 1001, "maximum", marks=pytest.mark.requirement("pagination-limit-bounds")),
    pytest.param("limit", None, "type", marks=pytest.mark.requirement("pagination-limit")),
    pytest.param("page", 1, "additionalProperties", marks=pytest.mark.requirement("pagination-unknown-refused")),
]


@pytest.mark.parametrize(("name", "value", "keyword"), PAGE_CASES)
def test_pagination_has_skip_and_limit_within_their_bounds(name: str, value: object, keyword: str | None) -> None:
    document = body(pagination={name: value})
    if keyword is None:
        assert decode(document)
    else:
        fails(document, f"/pagination/{name}", keyword)


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize(
    "field",
    [
        pytest.param("price", marks=pytest.mark.requirement("sort-price")),
        pytest.param("list_price", marks=pytest.mark.requirement("sort-list-price")),
        pytest.param("msrp", marks=pytest.mark.requirement("sort-msrp")),
        pytest.param("mileage", marks=pytest.mark.requirement("sort-mileage")),
        pytest.param("year", marks=pytest.mark.requirement("sort-year")),
        pytest.param("make", marks=pytest.mark.requirement("sort-make")),
        pytest.param("model", marks=pytest.mark.requirement("sort-model")),
        pytest.param("stock", marks=pytest.mark.requirement("sort-stock")),
        pytest.param("updated_at", marks=pytest.mark.requirement("sort-updated-at")),
    ],
)
@pytest.mark.requirement("sort-order")
def test_every_sort_field_is_valid_in_both_directions(field: str, order: str) -> None:
    assert decode(body(sort={"field": field, "order": order}))


@pytest.mark.parametrize(
    ("sort", "pointer", "keyword"),
    [
        pytest.param(
            {"field": "trim", "order": "asc"},
            "/sort/field",
            "enum",
            marks=pytest.mark.requirement("sort-fields-only"),
        ),
        pytest.param(
            {"field": "changed_at", "order": "asc"},
            "/sort/field",
            "enum",
            marks=pytest.mark.requirement("sort-fields-only"),
        ),
        pytest.param(
            {"field": "price", "order": "ASC"},
            "/sort/order",
            "enum",
            marks=pytest.mark.requirement("sort-order"),
        ),
        ({"field": "price", "order": None}, "/sort/order", "enum"),
        pytest.param(
            {"field": "price", "order": "asc", "nulls": "last"},
            "/sort/nulls",
            "additionalProperties",
            marks=pytest.mark.requirement("sort-both-required"),
        ),
    ],
)
def test_a_sort_of_other_words_is_refused(sort: dict[str, Any], pointer: str, keyword: str) -> None:
    error = refused(body(sort=sort))
    assert error.code == "SCHEMA_VALIDATION_FAILED"
    assert pointers(error) == [pointer]
    assert error.details["errors"][0]["keyword"] in (keyword, "type")


@pytest.mark.parametrize(
    ("sort", "missing"),
    [({"field": "price"}, ["/sort/order"]), ({"order": "asc"}, ["/sort/field"]), ({}, ["/sort/field", "/sort/order"])],
)
@pytest.mark.requirement("sort-both-required")
def test_field_and_order_are_both_required_in_a_sort(sort: dict[str, Any], missing: list[str]) -> None:
    error = refused(body(sort=sort))
    assert error.code == "MISSING_REQUIRED_FIELD"
    assert pointers(error) == missing


@pytest.mark.requirement("privacy-anonymous", "privacy-unknown-refused")
def test_privacy_says_whether_the_buyer_is_anonymous_and_nothing_else() -> None:
    for value in (True, False):
        assert decode(body(privacy={"anonymous": value}))
    for wrong in (None, "true", 1):
        fails(body(privacy={"anonymous": wrong}), "/privacy/anonymous", "type")
    fails(body(privacy={"name": "x"}), "/privacy/name", "additionalProperties")


@pytest.mark.parametrize(
    ("skill", "section"),
    [
        ("inventory.search", "filters"),
        ("inventory.search", "pagination"),
        ("inventory.search", "privacy"),
        ("inventory.facets", "filters"),
    ],
)
@pytest.mark.requirement("search-members-absent-or-empty", "search-filters-optional", "facets-filters")
def test_a_section_may_be_absent_or_empty_and_is_otherwise_an_object(skill: str, section: str) -> None:
    assert decode(body(skill))
    assert decode(body(skill, **{section: {}}))
    wrong_values: list[object] = [None, [], "x", 7]
    for wrong in wrong_values:
        fails(body(skill, **{section: wrong}), f"/{section}", "type")


@pytest.mark.parametrize(
    ("skill", "name"),
    [
        pytest.param("dealer.information", "filters", marks=pytest.mark.requirement("dealer-type-only")),
        pytest.param("dealer.information", "rooftop", marks=pytest.mark.requirement("dealer-type-only")),
        pytest.param("inventory.facets", "sort", marks=pytest.mark.requirement("facets-unknown-refused")),
        pytest.param("inventory.facets", "pagination", marks=pytest.mark.requirement("facets-unknown-refused")),
        pytest.param("inventory.search", "facets", marks=pytest.mark.requirement("search-unknown-refused")),
        pytest.param("inventory.vehicle", "privacy", marks=pytest.mark.requirement("vehicle-unknown-refused")),
    ],
)
def test_anything_else_in_a_payload_is_refused(skill: str, name: str) -> None:
    fails(body(skill, **{name: {}}), f"/{name}", "additionalProperties")


@pytest.mark.parametrize("type_name", ["inventory.search.request"])
@pytest.mark.requirement("search-type")
def test_the_type_of_a_payload_names_the_skill(type_name: str) -> None:
    assert payload("inventory.search")["type"] == type_name
    assert decode(body("inventory.search")).skill.request_type == type_name


@pytest.mark.parametrize(
    ("members", "pointer", "keyword"),
    [
        ({"vin": "anything at all"}, None, None),
        ({"vin": ABSENT, "stock": "A1"}, None, None),
        ({"vin": ABSENT, "vehicle_id": "v"}, None, None),
        ({"stock": "A1", "vehicle_id": "v", "zip": "22301"}, None, None),
        ({"zip": "1"}, None, None),
        ({"zip": "1234567890123456"}, None, None),
        ({"vin": 7}, "/vin", "type"),
        ({"stock": 7}, "/stock", "type"),
        ({"vehicle_id": None}, "/vehicle_id", "type"),
        ({"zip": 22301}, "/zip", "type"),
        pytest.param({"zip": ""}, "/zip", "minLength", marks=pytest.mark.requirement("zip-length")),
        pytest.param({"zip": "1" * 17}, "/zip", "maxLength", marks=pytest.mark.requirement("zip-length")),
    ],
)
@pytest.mark.requirement("vehicle-members", "vin-compared", "deviation-identifiers")
def test_a_vehicle_is_named_by_strings(members: dict[str, Any], pointer: str | None, keyword: str | None) -> None:
    document = body("inventory.vehicle")
    for name, value in members.items():
        document = changed(document, f"{DATA}/{name}", value)
    if pointer is None or keyword is None:
        assert decode(document)
    else:
        fails(document, pointer, keyword)


@pytest.mark.parametrize("members", [{}, {"zip": "22301"}])
@pytest.mark.requirement("vehicle-identifier-required")
def test_a_vehicle_without_any_identifier_lacks_a_required_field(members: dict[str, Any]) -> None:
    document = changed(body("inventory.vehicle"), DATA, {"type": "inventory.vehicle.request", **members})
    error = refused(document)
    assert error.code == "MISSING_REQUIRED_FIELD"
    assert pointers(error) == ["/vin"]
