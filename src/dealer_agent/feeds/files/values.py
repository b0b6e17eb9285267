"""Parsers of single cells: plain text, money, miles, dates and others. Pure functions.

Each parser of a value gets the text of a cell and returns the value, or None for a text that it cannot parse. None
raises.
"""

import html
import math
import re
from collections.abc import Iterable
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from itertools import chain
from operator import mul

VIN_SHAPE = re.compile(r"[A-HJ-NPR-Z0-9]{17}", re.ASCII)
_VIN_CHARACTERS = "0123456789ABCDEFGHJKLMNPRSTUVWXYZ"
_VIN_VALUES = {
    character: int(value) for character, value in zip(_VIN_CHARACTERS, "012345678912345678123457923456789", strict=True)
}
_VIN_WEIGHTS = (8, 7, 6, 5, 4, 3, 2, 10, 0, 9, 8, 7, 6, 5, 4, 3, 2)
PROSE_LIMIT = 20_000
"""The most characters of a description."""

_ABSENT = frozenset(
    {"", "-", "--", "?", "\\n", "#n/a", "#na", "n/a", "na", "n.a.", "null", "(null)", "none", "nan", "nil", "undefined"}
    | {"unknown", "unspecified", "not specified", "tbd"}
    | {"#ref!", "#value!", "#name?", "#div/0!", "#num!", "#null!"}
)
# With the marks that change the direction of text: a mail or a terminal would show another text.
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
_EXCEL_TEXT = re.compile(r'="(.*)"', re.DOTALL)
_HIDDEN_START = re.compile(r"<(?:(script|style)\b|!--)", re.IGNORECASE | re.ASCII)
_HIDDEN_END = {
    "script": re.compile(r"</script\s*>", re.IGNORECASE),
    "style": re.compile(r"</style\s*>", re.IGNORECASE),
    "": re.compile("-->"),
}
"""The end of a script, of a style sheet and of a comment."""
_LONG_REFERENCE = re.compile(r"&#0*[0-9]{8,};?")
"""A character reference beyond Unicode. `html.unescape` raises ValueError when it has more than 4,300 digits."""
_BREAK = re.compile(
    r"<(?:br|/p|/li|/div|/tr|/h[1-6]|/ul|/ol|hr|li|p)\b[^<>]{0,500}>|</(?:p|li|div|tr|ul|ol)>", re.IGNORECASE
)
_TAG = re.compile(
    r"</?(?:a|abbr|article|b|big|blockquote|body|br|button|center|code|dd|del|div|dl|dt|em|embed|font|footer|form|h[1-6]|head|header"
    r"|hr|html|i|iframe|img|input|label|li|link|main|meta|nav|noscript|object|ol|option|p|param|pre|s|script|section|select|small"
    r"|source|span|strike|strong|style|sub|sup|svg|table|tbody|td|tfoot|th|thead|title|tr|tt|u|ul|video|o:p)\b[^<>]{0,2000}>",
    re.IGNORECASE,
)


def is_absent(text: str) -> bool:
    """Whether the cell has no value: blank, `#N/A`, `null` and similar."""
    return len(text) < 40 and text.strip().casefold() in _ABSENT


def has_check_digit(vin: str) -> bool:
    """Whether a VIN has the right check digit, and the code of a model year (49 CFR 565.15)."""
    total = sum(map(mul, map(_VIN_VALUES.__getitem__, vin), _VIN_WEIGHTS))
    return vin[8] == "0123456789X"[total % 11] and vin[9] not in "UZ0"


def _visible(text: str) -> str:
    """HTML without scripts, style sheets and comments. One that is not closed is kept.

    Each end is searched once. A single regular expression would search it from every start, in quadratic time.
    """
    pieces: list[str] = []
    open_kinds: set[str] = set()
    at = 0
    for start in _HIDDEN_START.finditer(text):
        kind = (start[1] or "").lower()
        if start.start() < at or kind in open_kinds:
            continue
        end = _HIDDEN_END[kind].search(text, start.end())
        if end is None:
            open_kinds.add(kind)
        else:
            pieces.append(text[at : start.start()])
            at = end.end()
    return "".join((*pieces, text[at:]))


def _plain(text: str) -> str:
    """Plain text of HTML, with line ends and without unprintable characters and lone surrogates."""
    if text.startswith('="') and (excel := _EXCEL_TEXT.fullmatch(text)):
        text = excel.group(1)
    if "&" in text:
        text = html.unescape(_LONG_REFERENCE.sub("\ufffd", text))
    if "<" in text:
        text = _TAG.sub("", _BREAK.sub("\n", _visible(text)))
    return _UNPRINTABLE.sub("", text)


def line(text: str, limit: int) -> str:
    """One line of plain text, at most `limit` characters. "" for an empty text."""
    return _cached_line(text, limit) if len(text) <= _CACHED else _line(text, limit)


def _is_plain(text: str) -> bool:
    """Whether `_plain` keeps the text as it is, and it has one line. Most have, and the patterns take time."""
    return text.isascii() and text.isprintable() and not ("<" in text or "&" in text or text.startswith("="))


def _line(text: str, limit: int) -> str:
    if not _is_plain(text):
        text = _plain(text[: limit * 10])
    text = " ".join(text.split())
    return text if len(text) <= limit else text[:limit].rstrip()


# Short cells repeat from row to row. The cache also makes all of them one object.
_CACHED = 32
_cached_line = lru_cache(maxsize=65_536)(_line)


def prose(text: str, limit: int = PROSE_LIMIT) -> str:
    """Plain text with line ends, without repeated blank lines, at most `limit` characters."""
    if _is_plain(text):
        return _line(text[: limit * 3], limit)
    lines: list[str] = []
    for raw in _plain(text[: limit * 3]).splitlines():
        tidy = " ".join(raw.split())
        if tidy or (lines and lines[-1]):
            lines.append(tidy)
    return "\n".join(lines).strip()[:limit].rstrip()


KM_PER_MILE = Decimal("1.609344")
CC_PER_CUBIC_INCH = Decimal("16.387064")
MOST_DOLLARS = 10_000_000_000
MOST_MILES = 10_000_000
MOST_CC = 30_000
MOST_PHOTOS = 200
MOST_FEATURES = 500
_LONGEST_NUMBER = 60
"""Characters of a number with its unit. The patterns take quadratic time on many blanks."""

_NUMBER = r"(\d{1,3}(?:,\d{3})+(?:\.\d*)?|\d{1,12}(?:\.\d*)?|\.\d+)"
# Money has at most two decimals, so three digits after the last separator are thousands: `54.932`, `54 932`.
_GROUPED = r"\d{1,3}(?:\.\d{3})+(?:,\d\d?)?|\d{1,3}(?:[ '\u00a0\u202f]\d{3})+(?:[.,]\d\d?)?|\d{1,12},\d\d?"
_MONEY = re.compile(
    rf"(?:USD|US)?\s*\$?\s*(?:(?P<grouped>{_GROUPED})|{_NUMBER})\s*(?:USD|US\$|\$|dollars)?\s*\*{{0,3}}", re.IGNORECASE
)
_CENTS = re.compile(r"[.,](\d\d?)$")
_OTHER = r"CAD|CA?\$|EUR|\u20ac|GBP|\u00a3|MXN?\$?|AUD|AU?\$|JPY|\u00a5|CHF"
_CURRENCY = re.compile(
    rf"(?P<before>{_OTHER})?\s*\$?\s*\d[\d.,' \u00a0\u202f]*\$?\s*(?P<after>{_OTHER})?", re.IGNORECASE
)
_NEGATIVE = re.compile(
    r"\(\s*\$?\s*\d[\d.,]*\s*\)|(?:USD|US)?\s*\$?\s*[-\u2212]\s*\$?\s*\d[\d.,]*\s*[a-z$]*|\$?\s*\d[\d.,]*\s*[-\u2212]",
    re.IGNORECASE,
)
_ROUNDED = re.compile(r"\d(?:[.,]\d+)?E\+?\d{1,2}", re.IGNORECASE)
_MILES = re.compile(rf"{_NUMBER}\s*([a-z. ]*)", re.IGNORECASE)
_AMOUNT = re.compile(rf"{_NUMBER}\s*(?:mpg|mi|mi\.|miles|kwh|hp|bhp|horsepower|\(est\.?\))?", re.IGNORECASE)
_DISPLACEMENT = re.compile(rf"{_NUMBER}\s*-?\s*([a-z. ]*[a-z.]|)", re.IGNORECASE)
_YEAR = re.compile(r"(\d{4})(?:\.0+|-\d{2}(?:-\d{2})?)?", re.ASCII)
_URL = re.compile(r"https?://[^\s/?#@<>\"\\:{}|^`]+(?::\d{1,5})?(?:[/?#][^\s<>\"\\{}|^`]*)?", re.IGNORECASE)
_PLAIN_URL = r"https?://[A-Za-z0-9.-]{1,200}+/[A-Za-z0-9._~:/?#@!$'()*+=%-]{0,1000}+"
_PLAIN_ADDRESS = re.compile(_PLAIN_URL)
_PLAIN_PHOTOS = re.compile(rf"{_PLAIN_URL}(?:([|,;]){_PLAIN_URL}(?:\1{_PLAIN_URL})*+)?")
"""Addresses that need no change. Most are such, and the other patterns take time."""
_FEATURE_BREAK = re.compile(r"<(?:br|/?li|/?p)\b[^<>]{0,200}>", re.IGNORECASE)
_BEFORE_URL = re.compile(r"(?<![|,;\s])[|,;\s]++(?=(?:https?:)?//)", re.IGNORECASE)
_NO_PRICE = frozenset(
    {"call", "callforprice", "callus", "contact", "contactus", "contactdealer", "poa", "ask", "inquire"}
)
_NO_MILEAGE = frozenset(
    {"tmu", "truemileageunknown", "notactual", "notactualmileage", "exempt", "mileageexempt", "nam", "tba"}
)
_MILE_UNITS = frozenset({"", "mi", "mile", "miles", "smi"})
_KM_UNITS = frozenset({"km", "kms", "kmt", "kilometer", "kilometers", "kilometre", "kilometres"})
_LITRE_UNITS = frozenset({"l", "liter", "liters", "litre", "litres", "ltr"})
_CC_UNITS = frozenset({"cc", "ccm", "cm", "cmq", "cubic centimeters"})
_INCH_UNITS = frozenset({"ci", "cid", "cu in", "cuin", "cubic inches", "inq", "cu inches"})
_DATES = ("%m/%d/%Y", "%m-%d-%Y", "%Y/%m/%d", "%b %d, %Y", "%B %d, %Y", "%d-%b-%Y")
_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
_NOT_DIGITS = re.compile(r"\D")
_SHORT = 60
# In a sentence, the word means something else: `sold with a warranty`, `sold and serviced by us`.
_NOT_A_SENTENCE = r"(?! (?:AND|AS|AT|BY|HERE|IN|LOCALLY|NEW|ON|TO|WITH)\b)"
_SOLD_MARK = re.compile(r"(?:^|[*\[({<#!~|])\s*(?i:sold)\s*(?:$|[*\])}>#!~|])|^\W*SOLD\b" + _NOT_A_SENTENCE)
_SOLD_WORD = re.compile(r"(?<![A-Za-z])SOLD(?![A-Za-z])" + _NOT_A_SENTENCE)
_DIGITS = re.compile(r"\d+")
_LETTERS = re.compile(r"[A-Za-z]+")


def _shape(moment: str) -> str:
    """The text with 0 for each number and a for each word: `10/31/2020 6:38 PM` is `0/0/0 0:0 a`."""
    return _LETTERS.sub("a", _DIGITS.sub("0", moment))


def _time_formats() -> dict[str, list[str]]:
    """The formats of dates and times for `strptime`, by the `_shape` of the texts that they match."""
    shapes: dict[str, list[str]] = {}
    for pattern in (day + time for day in _DATES for time in _TIMES):
        shape = re.sub("%[mdYHIMS]", "0", re.sub("%[bBp]", "a", pattern))
        shapes.setdefault(shape, []).append(pattern)
    return shapes


_FORMATS = _time_formats()
"""By shape, because to try all formats takes half a millisecond for each cell."""
_TRUE = frozenset({"yes", "y", "true", "t", "1", "x", "certified", "cpo"})
_FALSE = frozenset({"no", "n", "false", "f", "0", "not certified", "none"})


def _decimal(digits: str) -> Decimal:
    return Decimal(digits.replace(",", ""))


def _rounded(value: Decimal, most: int) -> int | None:
    """The nearest integer, halves rounded up. None above `most`."""
    whole = int(value.to_integral_value(ROUND_HALF_UP))
    return whole if whole <= most else None


def _number(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    text = text.strip()
    return pattern.fullmatch(text) if len(text) <= _LONGEST_NUMBER else None


def is_no_price(text: str) -> bool:
    """Whether the text says that there is no price: `Call`, `Contact us`."""
    return re.sub(r"[\W_]+", "", text).casefold() in _NO_PRICE


def dollars(text: str) -> int | None:
    """Whole US dollars of `28995`, `$28,995.00*`, `18000 USD`, `28.995,00`, `28 995`. Cents are rounded, halves up."""
    if len(text) < 7 and text.isascii() and text.isdecimal():  # A pattern and a Decimal take ten times as long.
        return int(text)
    match = _number(_MONEY, text)
    if match is None:
        return None
    if (grouped := match["grouped"]) is not None:
        cents = _CENTS.search(grouped)
        whole = grouped if cents is None else grouped[: cents.start()]
        return _rounded(Decimal(f"{_NOT_DIGITS.sub('', whole)}.{cents[1] if cents else 0}"), MOST_DOLLARS)
    return _rounded(_decimal(match[2]), MOST_DOLLARS)


def other_currency(text: str) -> str:
    """The currency of an amount that is not in US dollars; "" for another text."""
    match = _number(_CURRENCY, text)
    return "" if match is None else (match["before"] or match["after"] or "").upper()


def is_negative(text: str) -> bool:
    """Whether the text is a negative number, also one in brackets."""
    return _number(_NEGATIVE, text) is not None


def is_rounded(text: str) -> bool:
    """Whether a spreadsheet wrote a long number as `1.23E+16`."""
    return _number(_ROUNDED, text) is not None


def sold_words(texts: Iterable[str]) -> str:
    """The text that says that a unit is sold, among all texts of its row: `*SOLD*`, `SOLD 2021 Accord`; "" for none."""
    for text in texts:
        if "sold" in text.lower() and "://" not in text:
            mark = _SOLD_MARK.search(text) or (_SOLD_WORD.search(text) if len(text) <= _SHORT else None)
            if mark is not None:
                return line(text, _SHORT) if len(text) <= _SHORT else mark[0].strip()
    return ""


def is_no_mileage(text: str) -> bool:
    """Whether the text says that the mileage is not known: `TMU`, `Exempt`."""
    return re.sub(r"[\W_]+", "", text).casefold() in _NO_MILEAGE


def miles(text: str, unit: str = "") -> int | None:
    """Whole miles of `41,200`, `41200 mi`, `66306 KM`. `unit` is for a text without one. Halves are rounded up."""
    if not unit and len(text) < 7 and text.isascii() and text.isdecimal():
        return int(text)
    match = _number(_MILES, text)
    if match is None:
        return None
    named = (match.group(2).strip(" .") or unit.strip(" .")).casefold()
    amount = _decimal(match.group(1))
    if named in _KM_UNITS:
        amount /= KM_PER_MILE
    elif named not in _MILE_UNITS:
        return None
    return _rounded(amount, MOST_MILES)


def year(text: str) -> int | None:
    """A model year of four digits, 1900 to 2100."""
    match = _YEAR.fullmatch(text.strip())
    return int(match.group(1)) if match and 1900 <= int(match.group(1)) <= 2100 else None


def amount(text: str) -> float | None:
    """A number with or without a unit: `26`, `310 mi`, `77.4 kWh`."""
    match = _number(_AMOUNT, text)
    value = float(_decimal(match.group(1))) if match else math.nan
    return value if math.isfinite(value) and value < 1e6 else None


def whole(text: str) -> int | None:
    """The `amount`, rounded to a whole number, halves up."""
    number = amount(text)
    return None if number is None else int(number + 0.5)


def cubic_centimetres(text: str, unit: str = "") -> int | None:
    """Engine displacement of `2.5 L`, `350 cid`, `1998 cc`. Without any unit, a number below 30 is litres."""
    match = _number(_DISPLACEMENT, text)
    if match is None:
        return None
    named = (match.group(2).replace(".", "").strip() or unit).casefold()
    size = _decimal(match.group(1))
    if named in _LITRE_UNITS or (not named and size < 30):
        size *= 1000
    elif named in _INCH_UNITS:
        size *= CC_PER_CUBIC_INCH
    elif named and named not in _CC_UNITS:
        return None
    return _rounded(size, MOST_CC)


def moment(text: str) -> datetime | None:
    """A time in US order or ISO format. A time without a zone is UTC."""
    text = " ".join(text.split())
    if not 8 <= len(text) <= 40 or not text.isascii():
        return None
    parsed: datetime | None = None
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        parsed = _us_moment(text)
    if parsed is None or not 1950 <= parsed.year <= 2100:
        return None
    return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)


@lru_cache(maxsize=4_096)  # `strptime` takes long, and an export gives many units the same time.
def _us_moment(text: str) -> datetime | None:
    """The time in a text of one of the US forms. None for another text."""
    for pattern in _FORMATS.get(_shape(text), ()):
        try:
            return datetime.strptime(text, pattern).replace(tzinfo=UTC)
        except ValueError:
            continue
    return None


def day(text: str) -> date | None:
    """The calendar date of a time, as the feed writes it."""
    parsed = moment(text)
    if parsed is None:
        return None
    # The date of an ISO text with an offset may differ from the date in UTC.
    return date.fromisoformat(text.strip()[:10]) if re.match(r"\d{4}-\d{2}-\d{2}", text.strip()) else parsed.date()


def truth(text: str) -> bool | None:
    """True for yes, false for no, in the spellings of feeds."""
    word = text.strip().casefold()
    return True if word in _TRUE else False if word in _FALSE else None


def web_address(text: str) -> str | None:
    """An http or https URL without credentials, with `%20` for spaces."""
    if _PLAIN_ADDRESS.fullmatch(text):
        return text
    # One character more than allowed, so that a longer address is left out and not cut.
    address = line(text, 2049).replace(" ", "%20")
    if address.startswith("//"):
        address = f"https:{address}"
    return address if len(address) <= 2048 and _URL.fullmatch(address) else None


def plain_photos(text: str) -> tuple[str, ...]:
    """The `photos` of a text with plain URLs and one mark between them. () for another text."""
    plain = _PLAIN_PHOTOS.fullmatch(text)
    return tuple(dict.fromkeys(text.split(plain[1] or "|")))[:MOST_PHOTOS] if plain else ()


def photos(texts: list[str]) -> tuple[list[str], int]:
    """The distinct photo URLs in order, split at separators before `http`, and the number of other texts."""
    addresses: dict[str, None] = {}
    refused = 0
    for piece in chain.from_iterable(_BEFORE_URL.split(text.strip(" |,;\t\r\n")) for text in texts):
        address = web_address(piece.rstrip("|,; \t\r\n"))
        if address is not None:
            addresses[address] = None
        elif not is_absent(piece):
            refused += 1
    return list(addresses)[:MOST_PHOTOS], refused


@lru_cache(maxsize=65_536)
def _feature(piece: str) -> str:
    """One feature as plain text. "" for an absent value. Cached, because units share most of their features."""
    feature = line(piece, 200).strip(" ,;|*•")
    return "" if is_absent(feature) else feature


def features(texts: list[str]) -> list[str]:
    """The distinct features in order, split at line ends, else at `|`, else at `;`, else at `,`.

    HomeNet's form `category@option~category@option` gives the options.
    """
    distinct: dict[str, None] = {}
    for text in texts:
        if "~" in text and "@" in text:
            pieces = [piece.partition("@")[2] or piece for piece in text.split("~")]
        else:
            lines = _FEATURE_BREAK.sub("\n", text) if "<" in text else text
            mark = next((mark for mark in ("\n", "|", ";") if mark in lines), ",")
            pieces = lines.split(mark)
        distinct.update((_feature(piece[:2_000]), None) for piece in pieces)
    distinct.pop("", None)
    return list(distinct)[:MOST_FEATURES]
