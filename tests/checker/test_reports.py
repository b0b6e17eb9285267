"""The reports of a run: what they show, and that a hostile target controls none of them."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from xml.etree import ElementTree as ET

import html5lib
import pytest

from dealer_agent.checker.events import Outcome, RunEnded, RunStarted, Variant, Verdict
from dealer_agent.checker.exchange import Exchange
from dealer_agent.checker.reports import REPORTS
from dealer_agent.checker.requirement import Level, requirements
from dealer_agent.checker.result import ExpectedFailure, RunResult

pytestmark = pytest.mark.outside_protocol("checker")

HOSTILE = (
    "</pre></style></textarea><script>alert(1)</script>]]>--><img src=https://evil.example/x onerror=alert(1)>"
    "\x00\x1b[31m\u202e\ufffe{{ 7 * 7 }}"
)
TOKEN = "secret-token-of-the-buyer"
VARIANT = Variant("https://dealer.example/card.json", "1.0.0", "JSONRPC", "proto")
MUST, SHOULD = "envelope.reply.role", "http.no-store"


def exchange(body: bytes = HOSTILE.encode()) -> Exchange:
    headers = [("Content-Type", "application/json"), ("Authorization", f"Bearer {TOKEN}")]
    answered = [("X-Evil", HOSTILE), ("Content-Type", "text/html")]
    return Exchange("POST", f"https://dealer.example/{HOSTILE}", headers, b'{"a": 1}', 200, answered, body, 0.1)


def verdict(outcome: Outcome = "fail", requirement_id: str = MUST, sentence: str = HOSTILE) -> Verdict:
    shown = exchange() if outcome in ("fail", "could not check") else None
    return Verdict(VARIANT, requirements()[requirement_id], outcome, sentence, shown, 0.1)


def failure(requirement_id: str) -> Verdict:
    return verdict("fail", requirement_id, "The `total` is text.")


def result_of(*verdicts: Verdict, **options: object) -> RunResult:
    result = RunResult(f"https://dealer.example/{HOSTILE}", datetime(2026, 11, 23, tzinfo=UTC))
    for name, value in options.items():
        setattr(result, name, value)
    result(RunStarted(result.url, (VARIANT,), len(verdicts), (HOSTILE,)))
    for each in verdicts:
        result(each)
    result(RunEnded(2.0, 7))
    return result


@pytest.mark.parametrize("suffix", sorted(REPORTS))
def test_no_report_shows_the_token_or_raw_control_characters(suffix: str) -> None:
    text = REPORTS[suffix](result_of(verdict(), verdict("could not check"), verdict("skipped"), verdict("pass")))
    assert TOKEN not in text
    assert not set(text) & set("\x00\x1b\u202e\ufffe")
    text.encode("utf-8")


def test_the_page_has_no_script_and_loads_nothing() -> None:
    page = REPORTS[".html"](result_of(verdict(), verdict("could not check"), verdict("pass")))
    tree = html5lib.parse(page, treebuilder="etree", namespaceHTMLElements=False)
    names = {element.tag for element in tree.iter() if isinstance(element.tag, str)}
    assert not names & {"script", "img", "iframe", "link", "object", "form"}
    attributes = {name for element in tree.iter() for name in element.attrib}
    assert not any(name.startswith("on") or name in ("src", "srcset", "action") for name in attributes)
    assert "{{ 7 * 7 }}" in page
    assert "default-src 'none'" in page
    assert "url(" not in page


def test_the_page_shows_request_response_and_advice_of_a_failure() -> None:
    failed = replace(verdict(sentence="It is wrong."), exchange=exchange(b'{"error":{"code":-32602}}'))
    page = REPORTS[".html"](result_of(failed))
    for text in ("It is wrong.", failed.requirement.advice, "&#34;a&#34;: 1", "&#34;code&#34;: -32602", "HTTP 200"):
        assert text in page


def test_junit_is_well_formed_and_counts() -> None:
    text = REPORTS[".xml"](
        result_of(verdict(), verdict(requirement_id=SHOULD), verdict("could not check"), verdict("pass"))
    )
    (suite,) = ET.fromstring(text).iter("testsuite")
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "4",
        "failures": "1",
        "errors": "1",
        "skipped": "1",
    }


def test_junit_says_that_a_should_failed_and_from_what_a_failure_follows() -> None:
    verdicts = [verdict("pass"), failure("range.price-max"), failure("listing.price"), failure(SHOULD)]
    (suite,) = ET.fromstring(REPORTS[".xml"](result_of(*verdicts))).iter("testsuite")
    assert [(each.get("name"), [(part.tag, part.get("message")) for part in each]) for each in suite] == [
        ("range.price-max (MUST)", [("failure", "MUST failed: The total is text. Follows from listing.price.")]),
        ("listing.price (MUST)", [("failure", "MUST failed: The total is text.")]),
        (f"{SHOULD} (SHOULD)", [("skipped", "SHOULD failed: The total is text.")]),
        (f"{MUST} (MUST)", []),
    ]


@pytest.mark.parametrize("suffix", [".html", ".xml", ".svg"])
def test_a_report_for_people_shows_no_backticks(suffix: str) -> None:
    result = result_of(replace(failure("listing.price"), exchange=None), verdict("could not check", sentence="`a`"))
    assert "`" not in REPORTS[suffix](result)


def test_the_page_shows_a_failure_below_its_cause_and_a_must_first() -> None:
    page = REPORTS[".html"](result_of(failure(SHOULD), failure("sort.price-asc"), failure("listing.price")))
    positions = [page.index(f"<code>{each}</code></span>") for each in ("listing.price", "sort.price-asc", SHOULD)]
    assert positions == sorted(positions)
    assert "1 more failure follows from it." in page


@pytest.mark.parametrize(
    ("failed", "causes"),
    [
        (["listing.price", "range.price-max", "range-absent.price-max"], {"listing.price"}),
        (["range.price-max", "range-absent.price-max"], {"range.price-max"}),
        (["listing.mileage", "range.price-max"], {"listing.mileage", "range.price-max"}),
        # A SHOULD does not hide a MUST.
        (["cards.security-true", "authentication.lead"], {"cards.security-true", "authentication.lead"}),
    ],
)
def test_a_failure_is_grouped_below_the_one_from_which_it_follows(failed: list[str], causes: set[str]) -> None:
    assert {cause.requirement.id for cause, _ in result_of(*map(failure, failed)).failures} == causes


def test_an_accepted_request_does_not_follow_from_the_form_of_an_error() -> None:
    refusal = replace(exchange(), status=422)
    refused = [replace(failure(each), exchange=refusal) for each in ("errors.payload", "envelope.role-required")]
    accepted = failure("envelope.role-unknown")
    found = {cause.requirement.id: len(below) for cause, below in result_of(*refused, accepted).failures}
    assert found == {"errors.payload": 1, "envelope.role-unknown": 0}


GREEN = "#1a7f37"


@pytest.mark.parametrize(
    ("verdicts", "green"),
    [
        ([verdict("pass")], True),
        ([verdict("pass"), verdict("fail", SHOULD)], True),
        ([verdict("pass"), verdict("fail", "listing.price")], False),
        ([verdict("pass"), verdict("skipped", SHOULD), verdict("skipped", "listing.price")], False),
        ([verdict("pass"), verdict("could not check", SHOULD)], False),
    ],
)
def test_the_badge_is_green_only_if_most_was_checked_and_no_must_failed(verdicts: list[Verdict], green: bool) -> None:
    expected = [ExpectedFailure("listing.price", "Known.")]
    badge = REPORTS[".svg"](result_of(*verdicts, expected=expected))
    assert (GREEN in badge) is green


def test_the_badge_is_well_formed() -> None:
    badge = ET.fromstring(REPORTS[".svg"](result_of(verdict("pass"))))
    assert badge.get("aria-label") == "dealer agent: 1 of 1 passed"


def test_the_json_report_has_all_verdicts() -> None:
    document = json.loads(REPORTS[".json"](result_of(verdict(), verdict("pass"))))
    assert document["conclusion"] == "failed"
    assert document["requirements"] == {"fail": 1, "could not check": 0, "skipped": 0, "pass": 0}
    assert [each["outcome"] for each in document["verdicts"]] == ["fail", "pass"]
    assert document["verdicts"][0]["exchange"]["status"] == 200


@pytest.mark.parametrize(
    ("outcome", "level", "strict", "conclusion"),
    [
        ("pass", "MUST", False, "passed"),
        ("fail", "MUST", False, "failed"),
        ("fail", "SHOULD", False, "passed"),
        ("fail", "SHOULD", True, "failed"),
        ("fail", "MAY", True, "passed"),
        ("could not check", "MUST", False, "incomplete"),
        ("skipped", "MUST", False, "failed"),
    ],
)
def test_the_conclusion_follows_from_level_and_outcome(
    outcome: Outcome, level: Level, strict: bool, conclusion: str
) -> None:
    wanted = next(each.id for each in requirements().values() if each.level == level)
    assert result_of(verdict(outcome, wanted), strict=strict).conclusion == conclusion


@pytest.mark.parametrize(
    ("failed", "sentence"),
    [
        ([MUST], "1 of 1 requirements failed."),
        ([MUST, SHOULD], "2 of 2 requirements failed, 1 of them a MUST."),
        ([SHOULD], "Every MUST that was checked is fulfilled or expected to fail. Others failed: 1."),
    ],
)
def test_the_sentence_says_how_many_failed(failed: list[str], sentence: str) -> None:
    assert result_of(*(verdict(requirement_id=each) for each in failed)).sentence == sentence


def test_a_run_with_failures_never_says_that_nothing_failed() -> None:
    result = result_of(verdict("fail", SHOULD), verdict("could not check"))
    assert result.conclusion == "incomplete"
    assert result.sentence.endswith("Others failed: 1. Some could not be checked.")


def test_a_run_that_checked_nothing_fails() -> None:
    assert result_of().conclusion == "failed"
    assert result_of().sentence == "Nothing was checked."


def test_an_expected_failure_does_not_count() -> None:
    result = result_of(verdict(), expected=[ExpectedFailure(MUST, "Known.", binding="JSONRPC")])
    assert result.conclusion == "passed"
    assert "Known." in REPORTS[".html"](result)
    assert json.loads(REPORTS[".json"](result))["verdicts"][0]["expected"] == "Known."


def test_an_expectation_of_another_variant_does_not_count() -> None:
    assert result_of(verdict(), expected=[ExpectedFailure(MUST, "Known.", binding="HTTP+JSON")]).conclusion == "failed"


@pytest.mark.parametrize(
    ("entry", "stale"),
    [
        (ExpectedFailure(MUST, "It passes."), True),
        (ExpectedFailure("envelope.no-such-id", "Unknown."), True),
        (ExpectedFailure(MUST, "Another variant.", revision="0.1.0"), False),
        (ExpectedFailure(SHOULD, "Not checked in this run."), False),
    ],
)
def test_a_stale_expectation_fails_the_run(entry: ExpectedFailure, stale: bool) -> None:
    result = result_of(verdict("pass"), expected=[entry])
    assert bool(result.stale) is stale
    assert result.conclusion == ("failed" if stale else "passed")
