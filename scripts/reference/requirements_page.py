"""The page with the requirements of `dealer-agent check`, from their tables."""

from itertools import groupby
from operator import attrgetter

from scripts.reference.markdown import code, page, table

from dealer_agent.checker.requirement import LEVELS, Requirement, requirements


def requirements_page() -> str:
    """`requirements.md`."""
    rows = sorted(requirements().values(), key=attrgetter("subject"))
    levels = ", ".join(f"{sum(row.level == level for row in rows)} {level}" for level in LEVELS)
    introduction = (
        f"[`dealer-agent check`](../how-to/check-a-dealer-agent.md) checks {len(rows)} requirements: {levels}. A "
        "requirement without an entry under *Where* is checked everywhere. *With leads*: the check submits leads, and "
        "runs only with `--leads`.\n\n"
        "*Source* is what demands it. *Specification*: a section of the specification of the dealer agent service. "
        "*AAP*: a schema or a rule of the published versions of the Auto Agent Protocol, of one version if it has a "
        "number. It binds the cards of these versions. *dealer-agent*: a decision of this project where these leave "
        "something open. With `--profile dealer-agent`, its decisions are checked, and each source binds every card."
    )
    header = ("Id", "Level", "Requirement", "Source", "Where")
    return page(
        "Requirements of a dealer agent",
        introduction,
        [
            f"## {subject}\n\n"
            + table(header, [(code(row.id), row.level, _says(row), row.source, _where(row)) for row in group])
            for subject, group in groupby(rows, attrgetter("subject"))
        ],
    )


def _says(row: Requirement) -> str:
    return f"{row.says} [Rule](../{row.link})" if row.link.startswith("protocol.md") else row.says


def _where(row: Requirement) -> str:
    return ", ".join((*row.revisions, *row.bindings, *row.vocabularies, *(["with leads"] if row.leads else [])))
