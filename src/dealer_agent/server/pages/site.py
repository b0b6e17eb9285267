"""What the dealer's public pages share (not the console): templates, stylesheet, URLs of links, markup of JSON."""

import hashlib
import re
from functools import cache
from importlib.resources import files
from urllib.parse import urlsplit

import phonenumbers
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from dealer_agent.apidocs.openapi import server_root
from dealer_agent.leads.us_formats import money
from dealer_agent.protocol.card import CardFacts

_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self' data:{}; base-uri 'none'; form-action {}; "
    "frame-ancestors 'none'"
)
CONTENT_SECURITY_POLICY = _POLICY.format("", "'none'")
"""The header of pages without a form: they load their stylesheet and the icon in the page, nothing else."""
FORM_SECURITY_POLICY = _POLICY.format("", "'self'")
"""The header of pages with a form: they may send it to this service only."""
PHOTO_SECURITY_POLICY = _POLICY.format(" https:", "'self'")
"""The header of pages about vehicles: their photos are on hosts of the dealer's vendor."""


@cache
def stylesheet() -> bytes:
    """The CSS in UTF-8. Its URL has its digest, so a browser may cache it for a long time."""
    return files(__package__).joinpath("style.css").read_bytes()


def stylesheet_address(below: str) -> str:
    """The path of the stylesheet of a service below a path."""
    return f"{below}/static/style.css?v={hashlib.sha256(stylesheet()).hexdigest()[:12]}"


class Site:
    """The URLs that pages link to. They are paths, so that they are valid under every name of the host."""

    def __init__(self, facts: CardFacts) -> None:
        self._below = urlsplit(server_root(facts)).path
        self.stylesheet = stylesheet_address(self._below)
        self.schemas = [
            (payload_type, self.to(f"/schemas/{payload_type}.json"))
            for skill in facts.skills
            for payload_type in (skill.request_type, skill.response_type)
        ]

    def to(self, path: str) -> str:
        """A path of the service with the path of `public_url` before it."""
        return self._below + path


def with_code(text: str) -> Markup:
    """Text in which backquotes mark code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped first


_LABELS = {
    "suv": "SUV",
    "gas": "Gasoline",
    "hybrid": "Hybrid",
    "phev": "Plug-in hybrid",
    "bev": "Electric",
    "flex": "Flex fuel",
    "rv": "RV",
    "ev_charging": "EV charging",
    **{word: word.upper() for word in ("awd", "fwd", "rwd", "2wd", "4wd", "cvt", "dct", "ccs", "nacs")},
}
"""Values whose English label is more than a capital letter."""


def label_of(word: str) -> str:
    """The English label of a value."""
    plain = word.replace("_", " ")
    return _LABELS.get(word) or plain[:1].upper() + plain[1:]


def local_phone(e164: str) -> str:
    """A phone number as it is dialled in the United States."""
    number = phonenumbers.parse(e164, None)
    style = phonenumbers.PhoneNumberFormat
    return phonenumbers.format_number(number, style.NATIONAL if number.country_code == 1 else style.INTERNATIONAL)


_JSON_TOKEN = re.compile(r'(?P<text>"(?:\\.|[^"\\])*")(?P<colon>\s*:)?|(?P<literal>-?\d[\d.eE+-]*|true|false|null)')


def coloured_json(text: str) -> Markup:
    """JSON text with markup for names, strings and other values."""
    pieces, end = [], 0
    for token in _JSON_TOKEN.finditer(text):
        kind = "name" if token["colon"] else "text" if token["text"] else "literal"
        shown = token["text"] or token["literal"]
        pieces += [escape(text[end : token.start()]), Markup('<span class="json-{}">{}</span>').format(kind, shown)]
        end = token.start() + len(shown)
    return Markup("").join([*pieces, escape(text[end:])])


_templates = Environment(
    loader=PackageLoader("dealer_agent.server.pages"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters |= {each.__name__: each for each in (with_code, coloured_json, label_of, local_phone, money)}


def render(template: str, facts: CardFacts, **shown: object) -> str:
    """A page of a dealer, in HTML. The values are escaped."""
    return render_page(template, site=Site(facts), facts=facts, **shown)


def render_page(template: str, **shown: object) -> str:
    """A page of HTML. The values are escaped."""
    return _templates.get_template(template).render(**shown)
