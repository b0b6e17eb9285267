"""The text of a cell: absent values, and HTML to plain, printable text. Pure functions."""

import html
import re
from functools import lru_cache

PROSE_LIMIT = 20_000
"""The most characters of a description."""

_ABSENT = frozenset(
    {"", "-", "--", "?", "\\n", "#n/a", "#na", "n/a", "na", "n.a.", "null", "(null)", "none", "nan", "nil", "undefined"}
    | {"unknown", "unspecified", "not specified", "tbd"}
    | {"#ref!", "#value!", "#name?", "#div/0!", "#num!", "#null!"}
)
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
_EXCEL_TEXT = re.compile(r'="(.*)"', re.DOTALL)
_HIDDEN_START = re.compile(r"<(?:(script|style)\b|!--)", re.IGNORECASE)
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


def _visible(text: str) -> str:
    """HTML without scripts, style sheets and comments. One that is not closed is kept.

    Each end is searched once. A single regular expression would search it from every start, in quadratic time.
    """
    kept: list[str] = []
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
            kept.append(text[at : start.start()])
            at = end.end()
    return "".join((*kept, text[at:]))


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


def _line(text: str, limit: int) -> str:
    if not (text.isascii() and text.isprintable()) or "<" in text or "&" in text or text.startswith("="):
        text = _plain(text[: limit * 10])
    text = " ".join(text.split())
    return text if len(text) <= limit else text[:limit].rstrip()


# Short cells repeat from row to row. The cache also makes all of them one object.
_CACHED = 32
_cached_line = lru_cache(maxsize=65_536)(_line)


def prose(text: str, limit: int = PROSE_LIMIT) -> str:
    """Plain text with line ends, without repeated blank lines, at most `limit` characters."""
    lines: list[str] = []
    for raw in _plain(text[: limit * 3]).splitlines():
        tidy = " ".join(raw.split())
        if tidy or (lines and lines[-1]):
            lines.append(tidy)
    return "\n".join(lines).strip()[:limit].rstrip()
