"""The report in the format of JUnit, for CI. Pure."""

from xml.etree.ElementTree import Element, SubElement, indent, tostring

from dealer_agent.checker.events import Verdict
from dealer_agent.checker.reports.shown import body_text, plain, request_head, response_head
from dealer_agent.checker.result import Result


def junit(result: Result) -> str:
    """A suite for each place, and a case for each requirement. A failure that does not count is a skipped case."""
    root = Element("testsuites", name=f"dealer-agent check {plain(result.url)}", time=f"{result.seconds:.3f}")
    for place in dict.fromkeys(each.place for each in result.verdicts):
        found = [each for each in result.verdicts if each.place == place]
        suite = SubElement(
            root,
            "testsuite",
            name=plain(f"{place} {place.card}"),
            tests=str(len(found)),
            failures=str(sum(result.counts_as_failure(each) for each in found)),
            errors=str(sum(each.outcome == "could not check" for each in found)),
            skipped=str(sum(_is_skipped(result, each) for each in found)),
            timestamp=result.started_at.isoformat(timespec="seconds"),
            time=f"{sum(each.seconds for each in found):.3f}",
        )
        for verdict in found:
            _add_case(suite, result, verdict)
    if result.problem is not None or result.stale:
        suite = SubElement(root, "testsuite", name="run", tests="1", failures="0", errors="1", skipped="0")
        case = SubElement(suite, "testcase", classname="run", name="run")
        SubElement(case, "error", message=plain(result.problem or result.stale[0])).text = plain(
            "\n".join(result.stale)
        )
    indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _is_skipped(result: Result, verdict: Verdict) -> bool:
    return verdict.outcome == "skipped" or (verdict.outcome == "fail" and not result.counts_as_failure(verdict))


def _add_case(suite: Element, result: Result, verdict: Verdict) -> None:
    requirement = verdict.requirement
    name = f"{requirement.id} ({requirement.level})"
    case = SubElement(suite, "testcase", classname=requirement.subject, name=name, time=f"{verdict.seconds:.3f}")
    if _is_skipped(result, verdict):
        SubElement(case, "skipped", message=plain(result.expectation(verdict) or verdict.sentence))
    elif verdict.outcome == "could not check":
        SubElement(case, "error", message=plain(verdict.sentence))
    elif verdict.outcome == "fail":
        lines = [requirement.says, f"Advice: {requirement.advice}", f"See {requirement.link}"]
        if exchange := verdict.exchange:
            lines += ["", request_head(exchange), "", body_text(exchange.request_body)]
            lines += ["", response_head(exchange), "", body_text(exchange.body)]
        SubElement(case, "failure", message=plain(verdict.sentence), type=requirement.level).text = "\n".join(lines)
