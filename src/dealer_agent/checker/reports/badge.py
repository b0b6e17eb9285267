"""The badge: an SVG picture for a README or a page. Pure."""

from html import escape

from dealer_agent.checker.result import Conclusion, Result

COLOURS: dict[Conclusion, str] = {"passed": "#1a7f37", "failed": "#cf222e", "incomplete": "#9a6700"}
LABEL = "dealer agent"
CHARACTER = 6.6
"""Units of the width of a character of this size of Verdana, on average."""


def badge(result: Result) -> str:
    """Two fields: `dealer agent`, and how many requirements are fulfilled."""
    numbers = result.numbers()
    checked = numbers["pass"] + numbers["fail"]
    words = {
        "passed": f"{numbers['pass']} of {checked} passed",
        "failed": f"{numbers['fail']} of {checked} failed",
        "incomplete": "not checked" if not checked else f"{numbers['pass']} passed, incomplete",
    }[result.conclusion]
    left, right = _width(LABEL), _width(words)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" \
aria-label="{escape(LABEL)}: {escape(words)}">
<title>{escape(LABEL)}: {escape(words)}</title>
<clipPath id="r"><rect width="{left + right}" height="20" rx="3"/></clipPath>
<g clip-path="url(#r)"><rect width="{left}" height="20" fill="#444c56"/>\
<rect x="{left}" width="{right}" height="20" fill="{COLOURS[result.conclusion]}"/></g>
<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
<text x="{left / 2}" y="14">{escape(LABEL)}</text>
<text x="{left + right / 2}" y="14">{escape(words)}</text>
</g>
</svg>
"""


def _width(words: str) -> int:
    return round(len(words) * CHARACTER + 14)
