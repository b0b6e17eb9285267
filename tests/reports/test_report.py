"""The monthly report says what was counted, compared with the month before, as a page, a text, JSON and a mail."""

from datetime import UTC, date, datetime
from email import message_from_bytes, policy

import msgspec
import pytest
from tests.reports.samples import NOTHING, TOKEN, sample_report
from tests.server.pages.conftest import read_page
from tests.storage.samples import NO_NOTICES

from dealer_agent.leads.plain_text import WIDTH
from dealer_agent.reports.rendering import render_mail, render_page, render_text
from dealer_agent.reports.report import Figure, Report, ReportLine, agent_label

pytestmark = pytest.mark.outside_protocol("the monthly report")


def shown(lines: list[ReportLine]) -> dict[str, tuple[int, int]]:
    return {line.label: (line.number, line.before) for line in lines}


def test_requests_are_counted_by_skill_and_refusals_by_code() -> None:
    report = sample_report()
    assert report.requests == Figure(1_475, 901)
    assert shown(report.answered) == {
        "Dealer information": (0, 0),
        "Inventory facets": (0, 0),
        "Inventory search": (1_200, 900),
        "Vehicle detail": (230, 0),
        "Lead submission": (17, 0),
    }
    assert [(line.item, line.number) for line in report.refused] == [
        ("VEHICLE_NOT_FOUND", 9),
        ("RATE_LIMITED", 7),
        ("SCHEMA_VALIDATION_FAILED", 7),
    ]
    assert report.vehicles == Figure(230, 0)


def test_the_most_frequent_words_come_first_and_the_others_last() -> None:
    makes = sample_report().asked.make
    assert [line.label for line in makes] == [f"Make {number:02}" for number in range(13, 3, -1)] + ["Other"]
    assert (makes[0].number, makes[0].before) == (13, 5)


def test_words_prices_filters_and_units_have_labels_for_people() -> None:
    report = sample_report()
    assert [line.label for line in report.asked.model] == [
        "Honda Accord",
        "Toyota, another model",
        "Leaf",
    ]
    assert [line.label for line in report.asked.body] == ["SUV", "Truck"]
    assert [line.label for line in report.asked.price] == ["Up to $20,000", "From $30,000", "Above $100,000"]
    assert [line.label for line in report.not_found_filters] == ["Make", "Price, at most", "Words of a free text"]
    assert [line.label for line in report.no_price] == [
        "2024 Honda Accord EX, stock N-7",
        "A vehicle that is no longer for sale, stock S-9",
        "A vehicle that is no longer for sale, v3",
    ]
    assert shown(report.viewed) == {
        "A vehicle that is no longer for sale, stock S-9": (30, 0),
        "Other vehicles": (5, 0),
    }


def test_leads_and_visits_come_from_the_stored_ones_and_refusals_from_the_counts() -> None:
    leads = sample_report().leads
    assert (leads.accepted, leads.added, leads.repeated) == (Figure(12, 10), Figure(3, 0), Figure(2, 0))
    assert (leads.visits, leads.confirmed, leads.cancelled) == (Figure(5, 0), Figure(4, 0), Figure(1, 0))
    assert [(line.item, line.number, line.before) for line in leads.refused] == [("INVALID_CONSENT", 4, 1)], (
        "a lead without a time for its visit is stored"
    )


def test_agents_have_the_names_of_their_tokens() -> None:
    agents = sample_report().agents
    assert [(each.agent, each.label) for each in agents] == [
        ("Acme Shopper", "Acme Shopper"),
        (TOKEN, "Partner & Sons <bots>"),
        ("other", "Other agents"),
    ]
    assert (agents[0].searches, agents[0].vehicles, agents[0].all) == (
        Figure(700, 600),
        Figure(230, 0),
        Figure(930, 600),
    )
    assert (agents[1].searches, agents[1].leads) == (Figure(200, 0), Figure(10, 0))
    assert agents[2].all == Figure(305, 0)


@pytest.mark.parametrize("agent", ["https://agent.example", "https://login.example#shopping-agent"])
def test_an_agent_that_signs_or_has_a_token_of_an_issuer_has_its_identity(agent: str) -> None:
    assert agent_label(agent, {TOKEN: "Partner"}) == agent


def test_the_page_needs_nothing_else_and_escapes_names() -> None:
    report = sample_report(profile=msgspec.structs.replace(NO_NOTICES, name="Bob's <script>alert(1)</script>"))
    page = read_page(render_page(report))
    assert page.all("//script") == page.all("//link") == page.all("//img") == []
    assert page.values("src") == page.values("href") == []
    assert "url(" not in page.html
    assert page.texts("//h1") == ["What AI agents asked in October 2026"]
    assert page.texts("//header/p") == ["Bob's <script>alert(1)</script>"]
    assert len(page.all("//*[local-name()='rect']")) == 31, "every day has a bar"
    assert "October 2: 0" in page.html
    assert "1,200" in page.html
    assert "900 in September" in page.html


def test_the_page_of_a_mail_has_no_chart() -> None:
    page = read_page(render_page(sample_report(), is_mail=True))
    assert page.all("//*[local-name()='svg']") == []


def test_a_month_without_requests_and_without_a_month_before_is_reported_too() -> None:
    report = sample_report(facts=NOTHING, before=NOTHING)
    page = read_page(render_page(report))
    assert "No agent searched your stock in October 2026." in page.html
    assert "September" not in page.html
    assert "September" not in render_text(report)


def test_the_text_fits_a_mail() -> None:
    text = render_text(sample_report())
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "\n\n\n" not in text
    assert "  Inventory search" in text
    assert "90 of 1,000 searches found nothing (9 %)." in text
    words = " ".join(text.split())
    assert "3 vehicles that matched otherwise had no price, and 2.5 had a price outside the limit." in words


def test_the_json_has_all_of_the_report() -> None:
    report = sample_report()
    assert msgspec.json.decode(msgspec.json.encode(report), type=Report) == report
    assert report.days[0].day == date(2026, 10, 1)


def test_the_mail_has_the_report_as_text_and_as_a_page() -> None:
    at = datetime(2026, 11, 1, 12, tzinfo=UTC)
    report = sample_report(profile=msgspec.structs.replace(NO_NOTICES, name="Élan\nMotors"))
    mail = message_from_bytes(
        render_mail(report, "a@dealer.example.com", ("b@example.com",), at), policy=policy.default
    )
    assert mail["Subject"] == "What AI agents asked Élan Motors in October 2026"
    assert mail["Message-ID"] == "<report.2026-10.ridgeline@dealer.example.com>"
    assert (str(mail["From"]), str(mail["To"])) == ("Élan Motors <a@dealer.example.com>", "b@example.com")
    assert mail["Auto-Submitted"] == "auto-generated"
    assert [part.get_content_type() for part in mail.iter_parts()] == ["text/plain", "text/html"]
    plain = mail.get_body(("plain",))
    assert plain is not None
    assert plain.get_content().splitlines() == render_text(report).splitlines()
