"""Whatever a lead says, its ADF is sound, and says it (ADF 1.0; docs/reference/delivery.md)."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree
from msgspec import UNSET
from tests.leads.adf_documents import complaints, prospect_of, text_at
from tests.leads.lead_views import LEAD_ID, NASTY, a_view, nasty, views
from tests.published_files import ADF_DTD, needs

from dealer_agent.leads.adf import render_adf
from dealer_agent.leads.lead_view import LeadView
from dealer_agent.protocol.requests import Customer, SourceAgent, VehicleOfInterest

pytestmark = pytest.mark.outside_protocol("ADF")

PROLOG = b'<?xml version="1.0" encoding="UTF-8"?>\n<?adf version="1.0"?>\n<adf>'


DTD = etree.DTD(str(ADF_DTD)) if ADF_DTD.is_file() else None


@given(view=views())
def test_every_lead_that_the_contract_admits_has_sound_adf(view: LeadView) -> None:
    """In the DTD's order, which is checked by hand too: the DTD itself is not everywhere."""
    rendered = render_adf(view)
    assert rendered.startswith(PROLOG)
    assert rendered.isascii()
    document = etree.fromstring(rendered)
    assert not complaints(document)
    assert DTD is None or DTD.validate(document), DTD.error_log
    assert rendered == render_adf(view)
    assert text_at(document[0], "id") == LEAD_ID


@needs(ADF_DTD)
def test_the_dtd_finds_what_is_out_of_order() -> None:
    document = etree.fromstring(render_adf(a_view()))
    document[0].append(document[0][0])
    assert DTD is not None
    assert not DTD.validate(document)
    assert complaints(document)


def essence(text: str) -> str:
    """What of a text must come through: neither white space, which may change, nor what XML cannot hold."""
    return "".join(
        character
        for character in text
        if not character.isspace()
        and re.fullmatch("[\x20-\x7e\xa0-\ud7ff\ue000-\ufdcf\ufdf0-\ufffc\U00010000-\U0010ffff]", character)
    )


def essence_read(text: str | None) -> str:
    """The essence of a text of the ADF, in which U+FFFD replaces what XML cannot hold."""
    return essence((text or "").replace("\ufffd", ""))


@given(text=nasty.filter(lambda text: "\ufffd" not in text))
def test_every_text_of_a_lead_is_in_its_adf_without_what_xml_cannot_hold(text: str) -> None:
    interest = VehicleOfInterest(make=text, trim=text, features=(text,))
    customer = Customer(text, text, email="jordan@example.com")
    prospect = prospect_of(
        a_view(vehicle=None, interest=interest, interest_extras={"wanted": text}, customer=customer, messages=(text,))
    )
    if text_at(prospect, "vehicle/make") == "Not specified":
        # Nothing of the text can be read: control characters and separators only.
        assert all(unicodedata.category(character)[0] in "CZ" for character in text)
        return
    for path in ("customer/contact/name[@part='first']", "customer/contact/name[@part='last']", "vehicle/make"):
        assert essence_read(text_at(prospect, path)) == essence(text)
    for path in ("vehicle/trim", "vehicle/option/optionname"):
        assert essence_read(text_at(prospect, path)) == essence(text)
    for path in ("vehicle/comments", "customer/comments"):
        assert essence_read(text_at(prospect, path)).endswith(essence(text))


@pytest.mark.parametrize("text", NASTY)
def test_a_field_of_one_line_stays_one_and_a_name_is_never_empty(text: str) -> None:
    prospect = prospect_of(a_view(customer=Customer(text, text, email="jordan@example.com"), agent=SourceAgent(text)))
    names = [name.text or "" for name in prospect.iter("name")]
    assert len(names) == 4
    for name in names:
        assert name.strip() == name
        assert len(name.splitlines()) == 1


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("Jo\0rdan", "Jo\ufffdrdan"),
        ("Jo\x1b[31mrdan", "Jo\ufffd[31mrdan"),
        ("Jo\ud800rdan", "Jo\ufffdrdan"),
        ("Jo\ufffe\uffffrdan", "Jo\ufffd\ufffdrdan"),
        ("Jo\x85rdan", "Jo rdan"),
        ("  Jo\r\n rdan\t", "Jo rdan"),
        ("]]>&<\"'", "]]>&<\"'"),
        ("\U0001f600 \u05d0\u200f\u202e", "\U0001f600 \u05d0\u200f\u202e"),
        # Newer than the tables of some Pythons.
        ("\U0001fae9", "\U0001fae9"),
        ("\u200b\u2060", "Not specified"),
    ],
)
def test_characters_that_xml_cannot_hold_are_replaced_and_all_others_kept(said: str, read: str) -> None:
    prospect = prospect_of(a_view(customer=Customer(said, "Example", email="jordan@example.com")))
    assert text_at(prospect, "customer/contact/name") == read


def test_the_lines_of_a_long_message_are_short_enough_for_mail() -> None:
    """RFC 5322, 2.1.1: 998 octets. There are CRMs that do not undo what longer lines make necessary."""
    rendered = render_adf(
        a_view(messages=("\U0001f600\U0001f697 " * 1300, "word " * 800), interest=UNSET, vehicle=None)
    )
    assert max(map(len, rendered.splitlines())) <= 998


@given(words=st.lists(st.text("ab", min_size=1, max_size=9), min_size=30))
def test_a_long_message_keeps_its_words(words: list[str]) -> None:
    read = text_at(prospect_of(a_view(messages=(" ".join(words),))), "customer/comments")
    assert (read or "").split()[-len(words) :] == words


def test_the_check_of_the_order_bites() -> None:
    wrong = etree.fromstring(
        "<adf><prospect status='old'><vehicle><make/><year/><model/></vehicle><customer><contact><name/></contact>"
        "</customer><requestdate/><vendor><vendorname>x<b/></vendorname><contact/></vendor></prospect></adf>"
    )
    found = "\n".join(complaints(wrong))
    for complaint in (
        "prospect: 0 of requestdate",
        "prospect: requestdate out of order",
        "prospect status=old",
        "vehicle: year out of order",
        "contact: 0 of name",
        "contact without e-mail and phone",
        "vendorname holds elements",
    ):
        assert complaint in found
