"""ADF documents read back, and what ADF 1.0 asks of every one of them."""

from lxml import etree
from lxml.etree import _Element as Element

from dealer_agent.leads.adf import render_adf
from dealer_agent.leads.lead_view import LeadView

ORDER = {
    "adf": "prospect+",
    "prospect": "id* requestdate vehicle+ customer vendor provider?",
    "vehicle": "id* year make model vin? stock? trim? doors? bodystyle? transmission? odometer? condition? "
    "colorcombination* imagetag? price? pricecomments? option* finance? comments?",
    "customer": "contact id* timeframe? comments?",
    "vendor": "id* vendorname url? contact",
    "provider": "id* name service? url? email? phone? contact?",
    "contact": "name+ email? phone* address?",
    "address": "street+ apartment? city? regioncode? postalcode? country?",
    "colorcombination": "interiorcolor? exteriorcolor? preference",
    "option": "optionname manufacturercode? stock? weighting? price?",
}
"""Element to its children in ADF's order: `?` at most one, `*` any number, `+` at least one. The others hold text."""

ATTRIBUTES = {
    ("prospect", "status"): {"new", "resend"},
    ("vehicle", "interest"): {"buy", "lease", "sell", "trade-in", "test-drive"},
    ("vehicle", "status"): {"new", "used"},
    ("odometer", "units"): {"mi", "km"},
    ("price", "type"): {"quote", "offer", "msrp", "invoice", "call", "appraisal", "asking"},
    ("price", "currency"): {"USD"},
    ("name", "part"): {"first", "last", "full"},
    ("name", "type"): {"individual", "business"},
    ("phone", "type"): {"voice", "cellphone"},
    ("phone", "preferredcontact"): {"1"},
    ("email", "preferredcontact"): {"1"},
    ("street", "line"): {"1", "2"},
    ("id", "sequence"): {"1"},
    ("id", "source"): {"dealer-agent"},
}


def complaints(document: Element) -> list[str]:
    """What stands in the document against ADF's order and vocabulary."""
    found = []
    for element in document.iter():
        tag = str(element.tag)
        children = [str(child.tag) for child in element]
        if tag in ORDER:
            found += _order_complaints(tag, children)
        elif children:
            found.append(f"{tag} holds elements")
        if tag == "contact" and not {"email", "phone"} & set(children):
            found.append("contact without e-mail and phone")
        if tag == "colorcombination" and len(children) < 2:
            found.append("colorcombination without a colour")
        found += [
            f"{tag} {name}={element.get(name)}"
            for name in map(str, element.attrib)
            if element.get(name) not in ATTRIBUTES.get((tag, name), set())
        ]
    return found


def _order_complaints(tag: str, children: list[str]) -> list[str]:
    rest = list(children)
    found = []
    for wanted in ORDER[tag].split():
        name = wanted.rstrip("?*+")
        count = 0
        while rest and rest[0] == name:
            rest.pop(0)
            count += 1
        if (count == 0 and wanted[-1] not in "?*") or (count > 1 and wanted[-1] not in "*+"):
            found.append(f"{tag}: {count} of {name}")
    return found + [f"{tag}: {name} out of order" for name in rest]


def prospect_of(view: LeadView) -> Element:
    """The prospect that is rendered, read back by a parser."""
    document = etree.fromstring(render_adf(view))
    assert not complaints(document)
    (prospect,) = document
    return prospect


def text_at(element: Element, path: str) -> str | None:
    """The text at a path, None where there is no such element."""
    found = element.find(path)
    return None if found is None else found.text


def comments(element: Element, path: str = "customer") -> list[str]:
    """The comments at a path, by lines."""
    return (text_at(element, f"{path}/comments") or "").split("\n")
