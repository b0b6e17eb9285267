"""Reads the facts of a monthly report from the database."""

from dealer_agent.dealers.profile import Profile
from dealer_agent.reports.month import Month
from dealer_agent.reports.report import Facts, Names, Report, make_report, shown_units
from dealer_agent.storage.daily_counts import requests_by_day, sum_counts
from dealer_agent.storage.monthly_reports import count_leads
from dealer_agent.storage.stock import find_units
from dealer_agent.storage.tokens import list_tokens
from dealer_agent.storage.transaction import Transaction


def read_report(tx: Transaction, profile: Profile, month: Month) -> Report:
    """The report of a month, up to now if the month is not over. Raises StorageError."""
    facts, before = _read_facts(tx, profile, month), _read_facts(tx, profile, month.previous)
    tokens = {token.token_id: token.name for token in list_tokens(tx)}
    return make_report(profile, month, facts, before, Names(tokens, find_units(tx, shown_units(facts))))


def _read_facts(tx: Transaction, profile: Profile, month: Month) -> Facts:
    return Facts(
        sum_counts(tx, month.first_day, month.last_day),
        count_leads(tx, month.start(profile.timezone), month.end(profile.timezone)),
        requests_by_day(tx, month.first_day, month.last_day),
    )
