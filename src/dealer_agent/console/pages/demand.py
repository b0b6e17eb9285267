"""The demand of a month: what agents asked, what they did not find, and which prices kept units out, as plots."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from starlette.responses import Response

from dealer_agent.console.rendering import clipped
from dealer_agent.console.requests import ConsoleRequest, refuse
from dealer_agent.reports.month import Month
from dealer_agent.reports.report import Figure, Report, ReportLine, default_month, read_report
from dealer_agent.storage.daily_counts import first_day
from dealer_agent.storage.transaction import Transaction

MOST_MONTHS = 24
"""The newest months that can be chosen."""
KEPT_FOR = timedelta(minutes=1)
MOST_KEPT = 3
"""The months that a process keeps of a dealer."""
_LABEL = 230
_WIDTH = 640
_HEIGHT = 26
_LONGEST_LABEL = 34
_DAYS_HEIGHT = 120


class PlotBar(NamedTuple):
    """A bar of a plot. `x`, `y`, `width` and `height` are units of the drawing."""

    label: str
    short: str
    number: int
    before: int | None
    x: float
    y: float
    width: float
    height: float


class Plot(NamedTuple):
    """A plot with its title, and the title of the first column of its table. `height` is that of the drawing."""

    id: str
    title: str
    what: str
    bars: list[PlotBar]
    height: int
    is_of_days: bool = False

    @property
    def width(self) -> int:
        """The width of the drawing."""
        return _WIDTH


class Section(NamedTuple):
    """Plots with a heading, and the sentence that explains them."""

    title: str
    about: str
    plots: list[Plot]


def show(request: ConsoleRequest) -> Response:
    """The report of a month, by default of the last one that is over."""
    zone = request.dealer.profile.timezone
    with request.dealer.read() as tx:
        started = first_day(tx)
        month = _month(request) or default_month(tx, request.dealer.profile, request.now)
        report = _report(request, tx, month)
    now = Month.of(request.now, zone)
    return request.page(
        "demand.html",
        report=report,
        months=_months(now, None if started is None else Month(started.year, started.month), month),
        month=month,
        figures=_figures(report),
        sections=_sections(report),
    )


def _report(request: ConsoleRequest, tx: Transaction, month: Month) -> Report:
    """The report of a month. It is read again after KEPT_FOR: to count the items of a busy dealer takes a while."""
    kept: dict[Month, tuple[datetime, Report]] = request.service().documents.setdefault(_report, {})
    if month not in kept or request.now - kept[month][0] > KEPT_FOR:
        if len(kept) >= MOST_KEPT:
            kept.clear()
        kept[month] = request.now, read_report(tx, request.dealer.profile, month)
    return kept[month][1]


def _month(request: ConsoleRequest) -> Month | None:
    """The month of the query. None if it names none. Refuses one that is malformed or has not begun."""
    text = request.query.get("month", "")
    if not text:
        return None
    try:
        month = Month.parse(text)
    except ValueError as problem:
        refuse(f"{problem}.")
    if month > Month.of(request.now, request.dealer.profile.timezone):
        refuse("This month has not begun.")
    return month


def _months(newest: Month, oldest: Month | None, chosen: Month) -> list[Month]:
    """The months that can be chosen, the newest first."""
    months = [newest]
    while len(months) < MOST_MONTHS and oldest is not None and months[-1] > oldest:
        months.append(months[-1].previous)
    return months if chosen in months else [*months, chosen]


def _figures(report: Report) -> list[tuple[str, Figure]]:
    """The figures at the top of the page, each with its name."""
    searches = report.searches
    return [
        ("Requests", report.requests),
        ("Searches", searches.all),
        ("Searches that found nothing", searches.found_nothing),
        ("Searches with a price", searches.with_price),
        ("Times that a unit without a price was left out", searches.no_price_units),
        ("Times that a unit was left out because of its price", searches.outside_price_units),
        ("Units opened", report.vehicles),
        ("Leads", report.leads.accepted),
        ("Visits", report.leads.visits),
    ]


def _sections(report: Report) -> list[Section]:
    """The plots of the report in the order of the page: what could be sold, what a price kept out, what was asked."""
    asked, missing = report.asked, report.not_found
    return [
        Section(
            "Not found",
            "What the searches asked for that found nothing: vehicles to buy, or to describe better.",
            [
                _plot("missing-make", "Makes that were not found", "Make", missing.make),
                _plot("missing-model", "Models that were not found", "Model", missing.model),
                _plot("missing-body", "Body styles that were not found", "Body style", missing.body),
                _plot("missing-price", "Price limits of searches that found nothing", "Price", missing.price),
                _plot("missing-filter", "Filters of searches that found nothing", "Filter", report.not_found_filters),
            ],
        ),
        Section(
            "Priced out",
            "Units that matched a search in everything but the price.",
            [
                _plot("outside-price", "Units that a price limit left out", "Unit", report.outside_price),
                _plot("no-price", "Units that were left out without a price", "Unit", report.no_price),
            ],
        ),
        Section(
            "Asked",
            "What the searches asked for, found or not.",
            [
                _plot("asked-make", "Makes", "Make", asked.make),
                _plot("asked-model", "Models", "Model", asked.model),
                _plot("asked-body", "Body styles", "Body style", asked.body),
                _plot("asked-price", "Price limits", "Price", asked.price),
                _plot("viewed", "Units that agents opened", "Unit", report.viewed),
            ],
        ),
        Section("By day", "All requests of agents.", [_days(report)]),
    ]


def _plot(plot_id: str, title: str, what: str, lines: Sequence[ReportLine]) -> Plot:
    """A plot with a horizontal bar for each line."""
    most = max((line.number for line in lines), default=0) or 1
    space = _WIDTH - _LABEL - 60
    bars = [
        PlotBar(
            label=clipped(line.label, 120),
            short=clipped(line.label, _LONGEST_LABEL),
            number=line.number,
            before=line.before,
            x=_LABEL,
            y=number * _HEIGHT + 4,
            width=round(space * line.number / most, 1),
            height=_HEIGHT - 8,
        )
        for number, line in enumerate(lines)
    ]
    return Plot(plot_id, title, what, bars, len(bars) * _HEIGHT + 4)


def _days(report: Report) -> Plot:
    """A plot with a vertical bar for each day that has requests."""
    most = max((day.requests for day in report.days), default=0) or 1
    width = _WIDTH / 31
    bars = [
        PlotBar(
            label=day.day.isoformat(),
            short=str(day.day.day),
            number=day.requests,
            before=None,
            x=round((day.day.day - 1) * width + 2, 1),
            y=round(_DAYS_HEIGHT * (1 - day.requests / most), 1),
            width=round(width - 4, 1),
            height=round(_DAYS_HEIGHT * day.requests / most, 1),
        )
        for day in report.days
    ]
    return Plot("days", "Requests by day", "Day", bars, _DAYS_HEIGHT + 20, is_of_days=True)
