"""Checks the dealer agent in benchmarks/peers/, which is written on the official SDK, and writes its report.

.venv/bin/python -m tests.checker.independent_dealer
"""

import asyncio
import json
import os
import tempfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import patch

import httpx
from benchmarks.peers import sdk_agent, sdk_dealer
from tests.checker.agents import HonestAgent, running

from dealer_agent.checker.events import OUTCOMES
from dealer_agent.checker.requirement import LEVELS
from dealer_agent.checker.result import Group, RunResult
from dealer_agent.checker.runner import Options, run_checks
from dealer_agent.self_test.dealer import make_dealer

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "independent-dealer.md"
ADDRESS = "http://peer.example"
TITLES = {"pass": "Passed", "fail": "Failed", "skipped": "Skipped", "could not check": "Not checked"}

BEGINNING = """# An independent dealer agent

`benchmarks/peers/sdk_dealer.py` is a dealer agent that does not share code with this project. A user of the official
A2A SDK for Python could have written it: an in-memory list, pydantic models, and the five skills. It was written to
compare speed, not to fulfil the protocol. So it is a good target for [the checker](../how-to/check-a-dealer-agent.md):
it shows what an agent misses that follows A2A and does not know this protocol.

This page is the result of the checks, without the decisions of this project (`--profile`).
`.venv/bin/python -m tests.checker.independent_dealer` writes it, and a test compares the failed requirements.

A few causes explain most failures:

- Errors have A2A's codes only (`INVALID_PARAMS`, `INVALID_REQUEST`) and no error payload. So a buyer cannot tell an
  unknown vehicle from a wrong filter.
- The card has no JSON-RPC interface.
- Payloads pass through protobuf's `Struct`, which knows doubles only: `total` is `60.0`.
- The SDK ignores what it does not know. So it accepts a part without `mediaType`, or with that of another skill.
- The models have only the filters that the benchmark needs, and convert types: `"2"` and `true` are accepted as
  numbers.
- A lead needs no scope of consent, and the idempotency key is ignored.

"""


def stock_of(agent: HonestAgent) -> list[dict[str, object]]:
    """All listings of our own agent, which the independent one offers, too."""
    found: list[dict[str, object]] = []
    while page := agent.dealership.ask("inventory.search", pagination={"skip": len(found), "limit": 100})["vehicles"]:
        found += page
    return found


def check_independent_dealer(agent: HonestAgent, folder: Path) -> RunResult:
    """The result of the checks. The folder gets the stock of the agent."""
    stock, dealer = folder / "stock.json", folder / "dealer.json"
    stock.write_text(json.dumps(stock_of(agent)), "utf-8")
    dealer.write_text(json.dumps(agent.dealership.ask("dealer.information")), "utf-8")
    files = {sdk_dealer.STOCK_FILE: str(stock), sdk_dealer.DEALER_FILE: str(dealer), sdk_agent.URL: ADDRESS}
    with patch.dict(os.environ, files):
        app = sdk_dealer.app()
    result = RunResult(ADDRESS, datetime.now(UTC))

    async def run() -> None:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport) as client:
            await run_checks(ADDRESS, Options(rate=1e9, leads=True), client, result)

    asyncio.run(run())
    return result


def page_of(result: RunResult) -> str:
    """The page."""
    groups = result.groups
    lines = [BEGINNING, "## Numbers\n", f"| Subject | {' | '.join(TITLES[each] for each in reversed(OUTCOMES))} |"]
    lines.append("|---|" + "---:|" * len(OUTCOMES))
    for subject in sorted({group.requirement.subject for group in groups}):
        numbers = Counter(group.outcome for group in groups if group.requirement.subject == subject)
        lines.append(f"| {subject} | {' | '.join(str(numbers[each]) for each in reversed(OUTCOMES))} |")
    numbers = result.numbers()
    lines.append(f"| all | {' | '.join(str(numbers[each]) for each in reversed(OUTCOMES))} |\n")
    for level in LEVELS:
        failed = [each for each in result.failures if each[0].requirement.level == level]
        if failed:
            lines += [
                f"## {level}: {len(failed)} causes\n",
                "| Requirement | What happened | Follows |",
                "|---|---|---|",
            ]
            lines += [
                f"| `{cause.requirement.id}`<br>{cause.requirement.says} | {_cell(cause)} | {_ids(following)} |"
                for cause, following in failed
            ]
            lines.append("")
    reasons: dict[str, list[str]] = {}
    for group in groups:
        if group.outcome == "skipped":
            reasons.setdefault(group.verdicts[0].sentence, []).append(f"`{group.requirement.id}`")
    lines += ["## Skipped\n", "| Reason | Requirements |", "|---|---|"]
    lines += [f"| {_plain(reason)} | {', '.join(ids)} |" for reason, ids in reasons.items()]
    return "\n".join(lines) + "\n"


def _ids(groups: list[Group]) -> str:
    return ", ".join(f"`{each.requirement.id}`" for each in groups)


def _cell(group: Group) -> str:
    return _plain(group.having("fail")[0].sentence)


def _plain(text: str) -> str:
    short = " ".join(text.split())
    short = short if len(short) <= 200 else f"{short[:200]} …"
    return short.replace("|", "\\|").replace("<", "&lt;").replace("[", "\\[")


def main() -> None:
    """Writes the page."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_dealer(folder / "dealer")
        with running(folder / "dealer") as agent:
            result = check_independent_dealer(agent, folder)
    PAGE.write_text(page_of(result), "utf-8")
    print(f"Wrote {PAGE}")


if __name__ == "__main__":
    main()
