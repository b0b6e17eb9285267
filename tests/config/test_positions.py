"""On which line each key of a TOML text stands."""

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dealer_agent.config.settings_problems import key_lines, nearest_line
from dealer_agent.protocol.problems import Path

DOCUMENT = '''\
# a problem with key = 1 and [header]
id = "acme" # not = "this"
name = """
[not.a.header]
not_a_key = 1 \\""" still
"""
quote = \'\'\'it's
# no problem\'\'\'
"odd key" . 'and # another' = 5

[[rooftops]]
name = "North # not a problem"
hours.sales.monday = "closed"
feed_ids = [
  "one",   # a problem, with ] and ,

  "two",
]

[rooftops.hours.service]
sunday = "closed"

[[rooftops.fees]]
name = "Doc"
[[rooftops.fees]]
name = "Prep"

[[rooftops]]
name = "South"
fees = [ { name = "Doc", amount = 1 },
         { name = "Prep", amount = 2 } ]
when = 2026-11-20T10:00:00Z
geo = {latitude=1.5,longitude=-2}
[ rooftops . hours . sales ]
monday = 'closed'
[policies]
max_shrink = 0.3
[rooftops.hours]
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("id",), 2),
        (("name",), 3),
        (("quote",), 7),
        (("odd key", "and # another"), 9),
        (("rooftops", 0), 11),
        (("rooftops", 0, "name"), 12),
        (("rooftops", 0, "hours", "sales", "monday"), 13),
        (("rooftops", 0, "feed_ids"), 14),
        (("rooftops", 0, "feed_ids", 0), 15),
        (("rooftops", 0, "feed_ids", 1), 17),
        (("rooftops", 0, "hours", "service"), 20),
        (("rooftops", 0, "hours", "service", "sunday"), 21),
        (("rooftops", 0, "fees", 0, "name"), 24),
        (("rooftops", 0, "fees", 1), 25),
        (("rooftops", 0, "fees", 1, "name"), 26),
        (("rooftops", 1), 28),
        (("rooftops", 1, "name"), 29),
        (("rooftops", 1, "fees", 0, "amount"), 30),
        (("rooftops", 1, "fees", 1), 31),
        (("rooftops", 1, "fees", 1, "name"), 31),
        (("rooftops", 1, "when"), 32),
        (("rooftops", 1, "geo", "longitude"), 33),
        (("rooftops", 1, "hours"), 34),
        (("rooftops", 1, "hours", "sales", "monday"), 35),
        (("policies", "max_shrink"), 37),
    ],
)
def test_a_key_is_found_on_its_line(path: Path, line: int) -> None:
    assert key_lines(DOCUMENT)[path] == line


def test_a_windows_line_end_counts_as_one_line() -> None:
    assert key_lines(DOCUMENT.replace("\n", "\r\n")) == key_lines(DOCUMENT)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("rooftops", 1, "timezone"), 28),
        (("rooftops", 0, "hours", "service", "monday"), 20),
        (("feed_price",), 1),
        (("policies", "max_shrink", 3), 37),
    ],
)
def test_what_is_not_there_is_looked_for_at_what_should_hold_it(path: Path, line: int) -> None:
    assert nearest_line(key_lines(DOCUMENT), path) == line


def test_every_path_of_the_data_has_a_line_and_no_other_path_has() -> None:
    assert set(key_lines(DOCUMENT)) == set(_paths(tomllib.loads(DOCUMENT), ()))


_TEXT = st.text(st.characters(min_codepoint=32, max_codepoint=1000, exclude_characters="\x7f"), max_size=6)
_SCALAR = st.one_of(
    _TEXT.map(lambda text: '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'),
    _TEXT.map(lambda text: "'" + text.replace("'", "") + "'"),
    st.integers().map(str),
    st.sampled_from(['"""a\n# "b" ]"""', "'''\n}'''", "1.5e3", "true", "12:30:00", "2026-11-20 10:00:00", '"""x"""""']),
)
_VALUE = st.recursive(
    _SCALAR,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: "[ # ]\n" + ",\n".join(items) + "\n]"),
        st.lists(st.sampled_from(["1", "'x,}'", "[2, 3]"]), max_size=2).map(
            lambda items: "{ " + ", ".join(f"k{place} = {item}" for place, item in enumerate(items)) + " }"
        ),
    ),
    max_leaves=6,
)


@given(st.lists(_VALUE, max_size=6))
def test_any_sound_text_gives_every_path_a_line(values: list[str]) -> None:
    headers = ["", "[[a]]\n", "[a.b]\n", "[[a]]\n", "[c . d]\n", "[[c.e]]\n"]
    pairs = zip(headers, values, strict=False)
    text = "".join(f"{header}key{place}={value} # = [\n" for place, (header, value) in enumerate(pairs))
    assert set(key_lines(text)) == set(_paths(tomllib.loads(text), ()))


def _paths(value: Any, path: Path) -> list[Path]:
    match value:
        case dict():
            members = list(value.items())
        case list():
            members = list(enumerate(value))
        case _:
            members = []
    return [path, *(found for key, member in members for found in _paths(member, (*path, key)))]
