"""Renders a monthly report as a page, as a text and as a mail. Pure."""

import re
from datetime import datetime, timedelta
from functools import cache
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from dealer_agent.delivery.mail_headers import mail_address, new_mail
from dealer_agent.leads.plain_text import WIDTH
from dealer_agent.leads.texts import paragraph
from dealer_agent.reports.month import Month
from dealer_agent.reports.report import Figure, Report, ReportLine

CHART_HEIGHT = 100
"""The height of the chart of days, in units of its picture."""
DAY_WIDTH = 20


def render_page(report: Report, *, is_mail: bool = False) -> str:
    """The report as a page of HTML that needs nothing else. Mail programs show no charts, so a mail has none."""
    return _templates().get_template("report.html").render(report=report, is_mail=is_mail)


def render_text(report: Report) -> str:
    """The report as plain text. It ends with a newline."""
    text = _templates().get_template("report.txt").render(report=report)
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n") + "\n"


def render_mail(report: Report, sender: str, to: tuple[str, ...], at: datetime) -> bytes:
    """The mail with the report as text and as HTML. `at` is the time in its header."""
    subject = f"What AI agents asked {report.dealer} in {report.month_name}"
    mail_id = f"report.{report.month}.{report.dealer_id}"
    mail = new_mail(mail_address(sender, report.dealer), to, subject, mail_id, at)
    mail.set_content(render_text(report))
    mail.add_alternative(render_page(report, is_mail=True), subtype="html")
    return mail.as_bytes()


def _change(figure: Figure | ReportLine, before: str) -> str:
    """`1,204 in September`: the number of the month before."""
    return f"{figure.before:,} in {before.split()[0]}"


def _share(number: int, of: int) -> str:
    """A share in percent, such as `12 %`. Less than a half percent is not zero."""
    percent = 100 * number / of if of else 0
    return f"{percent:.0f} %" if percent >= 0.5 or not number else "less than 1 %"


def _percent(number: int, of: int) -> str:
    """The width of a bar in CSS."""
    return f"{100 * number / of if of else 0:.1f}%"


class _Bar(NamedTuple):
    """A day of the chart: the top and the height of its bar."""

    label: str
    requests: int
    top: float
    height: float


def _bars(report: Report) -> list[_Bar]:
    """The chart of all days of the month."""
    month = Month.parse(report.month)
    requests = {day.day: day.requests for day in report.days}
    most = max(requests.values(), default=0)
    bars = []
    for offset in range((month.last_day - month.first_day).days + 1):
        day = month.first_day + timedelta(days=offset)
        number = requests.get(day, 0)
        height = round(CHART_HEIGHT * number / most, 1) if most else 0.0
        bars.append(_Bar(f"{day:%B} {day.day}", number, CHART_HEIGHT - height, height))
    return bars


def _row(label: str, line: Figure | ReportLine, has_before: bool) -> str:
    """A line of the text: a label, its number, and the number of the month before."""
    numbers = f"{line.number:>9,}" + (f"{line.before:>9,}" if has_before else "")
    space = WIDTH - 2 - len(numbers)
    shown = label if len(label) <= space else f"{label[: space - 1]}…"
    return f"  {shown:<{space}}{numbers}"


@cache
def _templates() -> Environment:
    """The templates of the report, with their filters."""
    environment = Environment(
        loader=PackageLoader("dealer_agent.reports"),
        autoescape=select_autoescape(("html",)),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": "{:,}".format,
        "paragraph": paragraph,
        "change": _change,
        "share": _share,
        "percent": _percent,
        "average": lambda number, of: f"{number / of if of else 0:.1f}".removesuffix(".0"),
        "largest": lambda lines: max((line.number for line in lines), default=0),
        "row": _row,
        "bars": _bars,
    }
    environment.globals |= {"chart_height": CHART_HEIGHT, "day_width": DAY_WIDTH}
    return environment
