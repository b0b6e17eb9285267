"""Which values of a listing are clearly different, whatever words a dealer matches as synonyms. Pure.

The specification leaves open how words are matched. A dealer may find `4wd` for `awd`, "Crossover" for `suv`, or a
paint name for its basic colour. A check therefore calls a vehicle wrong only if its value and that of the filter cannot
mean the same. Everything between "equal" and "clearly different" is accepted.

The tables are the checker's own. They are independent of the catalogue that they may have to judge.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

Listing = Mapping[str, Any]

_MEANINGS: Mapping[str, Mapping[str, str]] = {
    "transmission": {
        "manual": r"manual|stick",
        "automatic": r"automatic|auto|cvt|dct|dual.?clutch|single.?speed|variable|tiptronic",
    },
    "fuel": {
        "petrol": r"gas|gasoline|petrol|unleaded|flex\w*|e85|hybrid|phev|plug.?in|mhev",
        "diesel": r"\w*diesel|tdi",
        "electricity": r"electric\w*|bev|ev|phev|plug.?in|hybrid|mhev|battery",
        "hydrogen": r"hydrogen|fuel.?cell|fcev",
    },
    "driveline": {
        "front": r"fwd|front\w*|2wd|two|4x2",
        "rear": r"rwd|rear\w*|2wd|two|4x2",
        "all": r"awd|all|4wd|4x4|four|4matic|quattro|xdrive",
    },
    "body": {
        "sedan": r"sedan|saloon",
        "suv": r"suv|crossover|utility|cuv",
        "truck": r"truck|pick.?up|cab",
        "coupe": r"coupe",
        "open": r"convertible|roadster|cabriolet|spyder|spider",
        "hatchback": r"hatch\w*|liftback|wagon|estate",
        "van": r"\w*van|mpv",
        "cruiser": r"cruiser",
        "sport": r"sport\w*",
        "touring": r"\w*touring|tourer",
        "adventure": r"adventure|enduro|dual",
        "standard": r"standard|naked",
        "scooter": r"scooter|moped",
    },
    # A CCS socket also takes J1772 plugs, so that a dealer may find it for both.
    "charge_port": {
        "nacs": r"nacs|tesla|j3400",
        "alternating": r"j1772|type.?1|ccs\w*|combo",
        "chademo": r"chademo",
    },
    "exterior_color": (
        _colours := {
            "black": r"black",
            "white": r"white",
            "gray": r"gr[ae]y|silver",
            "red": r"red|maroon|burgundy",
            "blue": r"blue|navy",
            "green": r"green",
            "brown": r"brown|beige|tan|bronze",
            "yellow": r"yellow|gold",
            "orange": r"orange",
            "purple": r"purple",
        }
    ),
    "interior_color": _colours,
}
"""For each member, its meanings and the words that show them. A value may have several meanings, or none."""

LONGEST_WORD = 100
"""Characters of a word that checks filter by. A dealer may refuse longer ones."""

_ONE_MAKER: Sequence[frozenset[str]] = tuple(
    frozenset(names.split("|"))
    for names in (
        "chevrolet|chevy",
        "volkswagen|vw",
        "mercedesbenz|mercedes|benz|smart|amg",
        "landrover|rangerover|jaguar",
        "dodge|ram",
        "hyundai|genesis",
        "nissan|datsun|infiniti",
        "toyota|scion|lexus",
        "gmc|gm|chevrolet",
        "harleydavidson|harley|hd",
        "bmw|mini",
    )
)
"""Makes that one maker uses, or that people call by another name."""

_FINISHES = frozenset({"metallic", "pearl", "tintcoat", "coat", "mica", "crystal", "effect", "clearcoat", "solid"})


def tokens(text: str) -> list[str]:
    """The words and numbers of a text: in lower case, without accents."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    return re.findall(r"[a-z0-9]+", "".join(each for each in plain if not unicodedata.combining(each)))


def joined(text: str) -> str:
    """A text without case, accents, spaces and punctuation."""
    return "".join(tokens(text))


def are_clearly_different(member: str, one: object, other: object) -> bool:
    """Whether two values of a member cannot mean the same. Values of unknown meaning are not clearly different."""
    if one == other or not isinstance(one, str) or not isinstance(other, str):
        return False
    return _are_different(member, one, other)


@lru_cache(100_000)
def _are_different(member: str, one: str, other: str) -> bool:
    """Whether two values of a member certainly mean different things."""
    if member == "condition":
        # A certified vehicle is a used one. `filter.condition-exact` tells them apart.
        return {one, other} != {"used", "cpo"}
    if member in ("vehicle_type", "vin"):
        return True
    if member in _MEANINGS:
        ours, theirs = _meanings(member, one), _meanings(member, other)
        return bool(ours) and bool(theirs) and not ours & theirs
    short, long = sorted((joined(one), joined(other)), key=len)
    if member == "rooftop":
        return short != long
    if short in long or set(tokens(one)) & set(tokens(other)):
        return False
    if member == "make":
        return not any({short, long} <= names for names in _ONE_MAKER)
    # "330i" is a "3 Series".
    has_digits = any(each.isdigit() for each in one + other)
    return not (member in ("model", "trim") and has_digits and short[:1] == long[:1])


def typical_value(member: str, listings: Iterable[Listing], most: int) -> str | None:
    """Returns a value to filter by, such as a make. Some listings have a clearly different value of this member.

    So a correct filter leaves listings out. Of the values that at most `most` listings have, it is the most frequent
    one. If more listings have each value, it is the least frequent one. None if no value has a clear difference.
    """
    counts = Counter(each[member] for each in listings if isinstance(each.get(member), str) and each[member].strip())
    few = sorted((value for value, count in counts.items() if count <= most), key=lambda value: (-counts[value], value))
    many = sorted(counts.keys() - set(few), key=lambda value: (counts[value], value))
    for value in (*few, *many):
        if _is_plain(member, value) and any(are_clearly_different(member, value, each) for each in counts):
            return str(value)
    return None


def _meanings(member: str, text: str) -> set[str]:
    """The known meanings of a value, such as its colours. Empty if they are not certain."""
    words = tokens(text)
    if member.endswith("_color"):
        # "Black Cherry" is red: only the last word decides that a colour is known.
        named = [word for word in words if word not in _FINISHES]
        if not named or not any(re.fullmatch(words_of, named[-1]) for words_of in _colours.values()):
            return set()
    plain = " ".join(words)
    return {
        name for name, shown in _MEANINGS[member].items() if re.search(rf"\b(?:{shown})\b", plain.replace("_", " "))
    }


def _is_plain(member: str, value: str) -> bool:
    """Whether a value is short, and has one meaning only."""
    return len(value) <= LONGEST_WORD and (member not in _MEANINGS or len(_meanings(member, value)) == 1)
