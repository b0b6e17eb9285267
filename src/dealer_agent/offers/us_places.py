"""States of the United States and the ZIP codes in them. Pure.

The first three digits of a ZIP code decide the state. `_EXCEPTIONS` has the few codes in another one. The ranges are
those that the Postal Service uses. Prefixes that it does not use are not in the table.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

_PREFIXES_OF_STATE = {
    "AA": "340",
    "AE": "090-099",
    "AK": "995-999",
    "AL": "350-352 354-369",
    "AP": "962-966",
    "AR": "716-729",
    "AZ": "850-853 855-857 859-860 863-865",
    "CA": "900-908 910-928 930-961",
    "CO": "800-816",
    "CT": "060-069",
    "DC": "200 202-205 569 888",
    "DE": "197-199",
    "FL": "320-339 341-342 344 346-347 349",
    "GA": "300-319 398-399",
    "GU": "969",
    "HI": "967-968",
    "IA": "500-516 520-528",
    "ID": "832-838",
    "IL": "600-620 622-629",
    "IN": "460-479",
    "KS": "660-662 664-679",
    "KY": "400-418 420-427",
    "LA": "700-701 703-708 710-714",
    "MA": "010-027 055",
    "MD": "206-212 214-219",
    "ME": "039-049",
    "MI": "480-499",
    "MN": "550-551 553-567",
    "MO": "630-631 633-641 644-658",
    "MS": "386-397",
    "MT": "590-599",
    "NC": "270-289",
    "ND": "580-588",
    "NE": "680-681 683-693",
    "NH": "030-038",
    "NJ": "070-089",
    "NM": "870-871 873-884",
    "NV": "889-891 893-895 897-898",
    "NY": "005 100-149",
    "OH": "430-459",
    "OK": "730-731 734-741 743-749",
    "OR": "970-979",
    "PA": "150-196",
    "PR": "006-007 009",
    "RI": "028-029",
    "SC": "290-299",
    "SD": "570-577",
    "TN": "370-385",
    "TX": "733 750-770 772-799 885",
    "UT": "840-847",
    "VA": "201 220-246",
    "VI": "008",
    "VT": "050-054 056-059",
    "WA": "980-986 988-994",
    "WI": "530-532 534-535 537-549",
    "WV": "247-268",
    "WY": "820-831",
}
_EXCEPTIONS = {
    "06390": "NY",  # Fishers Island
    "72643": "MO",
    "73960": "TX",
    "83414": "WY",  # Alta
    "96799": "AS",
    "96939": "PW",
    "96940": "PW",
    **dict.fromkeys(("96941", "96942", "96943", "96944"), "FM"),
    **dict.fromkeys(("96950", "96951", "96952"), "MP"),
    "96960": "MH",
    "96970": "MH",
}
PREFIX_LENGTH = 3


def _expanded(ranges: str) -> Iterator[str]:
    for each in ranges.split():
        first, _, last = each.partition("-")
        yield from (f"{number:03}" for number in range(int(first), int(last or first) + 1))


_STATE_BY_PREFIX = {prefix: state for state, ranges in _PREFIXES_OF_STATE.items() for prefix in _expanded(ranges)}
PREFIXES = frozenset(_STATE_BY_PREFIX)
"""The first three digits of all ZIP codes."""
STATES = frozenset(_STATE_BY_PREFIX.values()) | frozenset(_EXCEPTIONS.values())
"""The two letters of each state, district and territory, and of the three regions of military addresses."""


class UsLocation(NamedTuple):
    """Where a buyer or a rooftop is. `state` has two letters, `zip_code` five digits. None means unknown."""

    state: str | None = None
    zip_code: str | None = None


def states_of(code: str) -> frozenset[str]:
    """The states with ZIP codes that begin with three or five digits. Empty if the Postal Service does not use them."""
    usual = _STATE_BY_PREFIX.get(code[:PREFIX_LENGTH])
    if usual is None:
        return frozenset()
    if len(code) > PREFIX_LENGTH:
        return frozenset({_EXCEPTIONS.get(code, usual)})
    return frozenset({usual, *(state for other, state in _EXCEPTIONS.items() if other.startswith(code))})


def place_of(zip_code: str) -> UsLocation:
    """The place of a ZIP code of five digits, or nine with a hyphen. Raises ValueError with a sentence for people."""
    code = zip_code.strip()
    if re.fullmatch(r"[0-9]{5}(-[0-9]{4})?", code):
        usual = _STATE_BY_PREFIX.get(code[:PREFIX_LENGTH])
        if usual is not None:
            return UsLocation(_EXCEPTIONS.get(code[:5], usual), code[:5])
    raise ValueError(f"'{zip_code[:20]}' is not a ZIP code of the United States; write five digits, such as '84115'")


def place_of_address(state: str, zip_code: str, country: str) -> UsLocation:
    """The place of a postal address: that of its ZIP code. Unknown outside the United States."""
    if country != "US":
        return UsLocation()
    try:
        return place_of(zip_code)
    except ValueError:
        return UsLocation(state if state in STATES else None)


def read_state(value: str) -> str:
    """The two letters of a state."""
    if value not in STATES:
        letters = value.upper() if value.upper() in STATES else "UT"
        raise ValueError(f"'{value}' is not a state; write its two letters in capitals, such as '{letters}'")
    return value


def read_zip(value: str) -> str:
    """A ZIP code of five digits, or the first three digits of some."""
    if not re.fullmatch(r"[0-9]{3}([0-9]{2})?", value):
        raise ValueError(f"'{value}' must be a ZIP code of five digits, or its first three, such as '84115' or '841'")
    if not states_of(value):
        raise ValueError(f"'{value}' is not used: no ZIP code begins with {value[:PREFIX_LENGTH]}; correct it")
    return value
