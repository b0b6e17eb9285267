"""Reading a rendered page."""

from dataclasses import dataclass
from functools import cache

import html5lib
from lxml import etree
from lxml.html import document_fromstring


@dataclass(frozen=True)
class Page:
    """A page as a browser reads it. Parsing is strict: a page that is no valid HTML raises ParseError."""

    html: str
    tree: etree._Element

    def texts(self, path: str) -> list[str]:
        """The text of the elements that an XPath finds, spaces made one."""
        return [" ".join(written(element).split()) for element in self.all(path)]

    def all(self, path: str) -> list[etree._Element]:
        found = self.tree.xpath(path)
        assert isinstance(found, list)
        return [element for element in found if isinstance(element, etree._Element)]

    def values(self, name: str) -> list[str]:
        """The values of an attribute, in document order."""
        return [str(element.get(name)) for element in self.all(f"//*[@{name}]")]


def written(element: etree._Element, between: str = "") -> str:
    """All text in an element, with `between` between its pieces."""
    return between.join(str(piece) for piece in element.itertext())


@cache
def read_page(html: str) -> Page:
    parser = html5lib.HTMLParser(html5lib.getTreeBuilder("lxml"), strict=True, namespaceHTMLElements=False)
    return Page(html, parser.parse(html).getroot())


def read_quickly(html: str) -> Page:
    """Reads a page of a kind that another test reads strictly: far faster."""
    return Page(html, document_fromstring(html))
