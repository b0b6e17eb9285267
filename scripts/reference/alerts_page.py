"""`docs/how-to/alerts.md`: a person writes the page, the table of conditions gives the table."""

import re

from scripts.reference.markdown import code, table

from dealer_agent.alerts.conditions import CONDITIONS
from dealer_agent.config.alert_settings import AlertSettings

MARK = "<!-- The conditions. Written by `make docs`. -->\n"


def alerts_page(text: str) -> str:
    """The page with one row for each condition."""
    defaults = AlertSettings()
    rows = []
    for each in CONDITIONS.values():
        threshold = f"{code(each.setting)}: {getattr(defaults, each.setting)}" if each.setting else ""
        who = "operator" if each.of_installation else "dealer"
        rows.append((code(each.id), each.begins, each.ends, threshold, who, " ".join(each.advice.split())))
    header = ("Condition", "It begins", "It ends", "Threshold and default", "In an installation for", "What to do")
    before, _, rest = text.partition(MARK)
    after = re.sub(r"\A\n(\|[^\n]*\n)*\n*", "", rest)
    return f"{before}{MARK}\n{table(header, rows)}\n\n{after}"
