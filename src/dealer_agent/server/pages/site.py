"""Common to all pages: templates, stylesheet, addresses of links, and the markup of JSON and code."""

import hashlib
import re
from functools import cache
from importlib.resources import files
from urllib.parse import urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from dealer_agent.apidocs.openapi import server_root
from dealer_agent.protocol.card import CardFacts

_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none'; form-action {}; "
    "frame-ancestors 'none'"
)
CONTENT_SECURITY_POLICY = _POLICY.format("'none'")
"""The header of pages without a form: they load their stylesheet and the icon in the page, nothing else."""
FORM_SECURITY_POLICY = _POLICY.format("'self'")
"""The header of pages with a form: they may send it to this service only."""


@cache
def stylesheet() -> bytes:
    """The CSS in UTF-8. Its address has its digest, so a browser may cache it for a long time."""
    return files(__package__).joinpath("style.css").read_bytes()


@cache
def _stylesheet_digest() -> str:
    return hashlib.sha256(stylesheet()).hexdigest()[:12]


def stylesheet_address(below: str) -> str:
    """The path of the stylesheet of a service below a path."""
    return f"{below}/static/style.css?v={_stylesheet_digest()}"


class Site:
    """The addresses that pages link to. They are paths, so that they are valid under every name of the host."""

    def __init__(self, facts: CardFacts) -> None:
        self._below = urlsplit(server_root(facts)).path
        self.home = self.to("/")
        self.docs = self.to("/docs")
        self.openapi = self.to("/openapi.json")
        self.card = self.to("/.well-known/agent-card.json")
        self.card_1_0_0 = self.to("/cards/1.0.0.json")
        self.card_0_1_0 = self.to("/cards/0.1.0.json")
        self.stylesheet = stylesheet_address(self._below)
        self.schemas = [
            (payload_type, self.to(f"/schemas/{payload_type}.json"))
            for skill in facts.skills
            for payload_type in (skill.request_type, skill.response_type)
        ]

    def to(self, path: str) -> str:
        """The path of an address of the service."""
        return self._below + path


def with_code(text: str) -> Markup:
    """Text in which backquotes mark code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped first


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


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("dealer_agent.server.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"with_code": with_code, "coloured_json": coloured_json}
    return environment


_templates = _environment()


def render(template: str, facts: CardFacts, **shown: object) -> str:
    """A page of a dealer, in HTML. The values are escaped."""
    return render_page(template, site=Site(facts), facts=facts, **shown)


def render_page(template: str, **shown: object) -> str:
    """A page of HTML. The values are escaped."""
    return _templates.get_template(template).render(**shown)
