"""The table of conditions that alerts are about. Pure. docs/how-to/alerts.md is written from it."""

from datetime import timedelta
from typing import NamedTuple

from dealer_agent.config.alert_settings import AlertSettings, ConditionId

LEAD_FAILED_QUIET = timedelta(hours=1)
"""An alert about failed leads ends after this time without another one."""
DATABASE_AWAY_AFTER = timedelta(minutes=1)
QUIET = timedelta(minutes=10)
"""An alert ends when its condition was not observed for this time. A short break is not an end."""
AT_ONCE = timedelta(0)


class Condition(NamedTuple):
    """What the message says at the start (`sentence`) and at the end, and what to do.

    The sentences may have `{subject}`, `{amount}` and `{since}`, and `advice` may have `{subject}` and `{feed}`. A
    command in `advice` is a line of its own, which is never wrapped. `setting` is the key of `[alerts]` with the
    threshold. `begins` and `ends` explain when, in the documentation. It begins after the condition was observed for
    the time `after`, and ends after it was not observed for the time `quiet`. `of_installation`: in a service of many
    dealers it is about what they share, so the operator gets it. `unit` is what `{amount}` counts: one, and several.
    """

    id: ConditionId
    sentence: str
    end_sentence: str
    advice: str
    begins: str
    ends: str
    setting: str = ""
    of_installation: bool = False
    unit: tuple[str, str] = ("", "")
    after: timedelta = AT_ONCE
    quiet: timedelta = QUIET


CONDITIONS: dict[str, Condition] = {
    each.id: each
    for each in (
        Condition(
            "feed_late",
            "The {subject} is late: no new file since {since}.",
            "The {subject} arrived again.",
            "Ask its vendor, and see the last files:\ndealer-agent inventory history",
            "No new file for `late_after_hours` of `[[feeds]]`. Without `[[feeds]]`, no import for the threshold; a "
            "dealer without any import gets no alert.",
            "A file is imported.",
            "feed_late_hours",
            quiet=AT_ONCE,
        ),
        Condition(
            "feed_refused",
            "A file of the {subject} was refused: {since}. The stock is unchanged.",
            "A newer file of the {subject} was imported.",
            "If the file is wrong, ask its vendor for another: buyers still see the stock before it. If it is right, "
            "type the line above that accepts it. All files of [[feeds]]:\ndealer-agent feeds files",
            "The newest file was refused by the checks, or cannot be read.",
            "A file is imported.",
            quiet=AT_ONCE,
        ),
        Condition(
            "feed_failing",
            "The {subject} cannot be fetched since {since}.",
            "The {subject} can be fetched again.",
            "Check the address, the login, and that the other server works. Then try again:\n"
            "dealer-agent feeds run {feed}",
            "Each attempt to fetch a feed of `[[feeds]]` failed for the time of the threshold.",
            "The feed is fetched.",
            "feed_failing_minutes",
            quiet=AT_ONCE,
        ),
        Condition(
            "feed_warned",
            "The newest file of the {subject} was imported with {amount}: {since}.",
            "The newest file of the {subject} was imported without new warnings.",
            "Look at the warnings above, and ask the vendor to correct the export. All imports:\n"
            "dealer-agent inventory history",
            "The checks of a feed have warned about its newest import, and the one before it did not have the same "
            "warning.",
            "A file is imported without new warnings.",
            unit=("warning", "warnings"),
            quiet=AT_ONCE,
        ),
        Condition(
            "deliveries_failing",
            "Leads do not reach {subject}. Waiting: {amount}, the oldest since {since}.",
            "Leads reach {subject} again.",
            "See each:\ndealer-agent deliveries list --state waiting\nWhen the problem is solved:\n"
            "dealer-agent deliveries retry --all",
            "A delivery of the channel waits longer than the threshold.",
            "No delivery of the channel waits that long.",
            "deliveries_waiting_minutes",
            unit=("delivery", "deliveries"),
        ),
        Condition(
            "deliveries_undeliverable",
            "Undeliverable for {subject}: {amount}, the first since {since}. The service does not send them any more.",
            "Nothing is undeliverable for {subject} any more.",
            "Contact these customers:\ndealer-agent deliveries list --state undeliverable\n"
            "Or repair the channel and send again:\ndealer-agent deliveries retry --all",
            "A delivery of the channel is undeliverable, for example after `give_up_after_hours` of failures.",
            "No delivery of the channel is undeliverable.",
            unit=("delivery", "deliveries"),
        ),
        Condition(
            "lead_failed",
            "{amount} could not be stored, the last one at {since}. Their senders were asked to send again.",
            "No lead failed in the last hour.",
            "Look for the event `fault` in the service's log. Check the service:\ndealer-agent doctor",
            "A lead was answered with a status of 500 or higher.",
            "No lead failed for an hour.",
            unit=("lead", "leads"),
            quiet=AT_ONCE,
        ),
        Condition(
            "leads_quarantined",
            "In quarantine: {amount} of {subject}, since {since}. Nobody gets them until you decide.",
            "No lead of {subject} waits in quarantine any more.",
            "Type the commands above, or list the leads of all senders in quarantine:\ndealer-agent leads quarantined",
            "A lead of a sender in quarantine has come (`dealer-agent agents`). Each sender has an alert of its own.",
            "All leads of the sender are released or refused.",
            unit=("lead", "leads"),
            quiet=AT_ONCE,
        ),
        Condition(
            "agent_doubtful",
            "The leads of {subject} are often bad. Its leads in 30 days: {amount}.",
            "The leads of {subject} are not often bad any more, or a policy limits this agent.",
            "Decide whether its next leads wait for a person, with a command above. All agents:\n"
            "dealer-agent agents list",
            "Of the leads of a known agent in 30 days, at least `propose_quarantine_percent` (in `[agents]`) are spam "
            "or wrong (`dealer-agent leads mark`), or have a mail to the customer that was refused for good. The agent "
            "has sent at least 10.",
            "The share is smaller, the agent is in quarantine or blocked, or a person gave it a policy in the last 30 "
            "days.",
            unit=("lead", "leads"),
            quiet=AT_ONCE,
        ),
        Condition(
            "agent_quarantined",
            "The service has put {subject} into quarantine, on {since}.",
            "The quarantine of {subject} is 30 days old, or a person has decided about it.",
            "Look at what waits, and decide with the commands above. All agents:\ndealer-agent agents list",
            "As `agent_doubtful`, with `quarantine_automatically` of `[agents]`.",
            "A person gives the agent a policy, or 30 days have passed.",
            quiet=AT_ONCE,
        ),
        Condition(
            "disk_low",
            "The disk of the service's folder is nearly full: {amount} left.",
            "The disk of the service's folder has space again.",
            "Delete what is not needed, or enlarge the disk. On a full disk no lead can be stored.",
            "Less space is free than the threshold. The disk of a PostgreSQL server is not seen.",
            "More space is free.",
            "disk_free_mib",
            of_installation=True,
            unit=("MiB", "MiB"),
        ),
        Condition(
            "disk_full",
            "The disk of {subject} is full since {since}. No lead can be stored.",
            "The disk of {subject} has space again.",
            "Delete what is not needed on this disk, or enlarge it. The service then goes on by itself.",
            "The database fails for a minute because of a full disk. Each machine sends this alert by itself.",
            "The database works for a minute.",
            of_installation=True,
            after=DATABASE_AWAY_AFTER,
            quiet=DATABASE_AWAY_AFTER,
        ),
        Condition(
            "database_away",
            "The database does not answer since {since}. No lead can be stored.",
            "The database answers again.",
            "Start the database, or check its address and password (DATABASE_URL). The service's log has the error.",
            "The database fails for a minute. Each machine sends this alert by itself.",
            "The database works for a minute.",
            of_installation=True,
            after=DATABASE_AWAY_AFTER,
            quiet=DATABASE_AWAY_AFTER,
        ),
        Condition(
            "database_slow",
            "The database is slow: a small transaction took {amount}.",
            "The database is fast again.",
            "Check the load of the database server and its disk, and the service:\ndealer-agent doctor",
            "Reading and storing the state of the alerts takes longer than the threshold, for five minutes.",
            "It takes less time.",
            "database_seconds",
            of_installation=True,
            unit=("second", "seconds"),
            after=timedelta(minutes=5),
        ),
        Condition(
            "key_copy_unknown",
            "Nobody has confirmed a copy of the key to customer data. The key is in use since {since}.",
            "A copy of the key to customer data is confirmed.",
            "Copy the key file to another place, away from the backups of the database. Then type:\n"
            "dealer-agent keys confirm-copy",
            "The active key is in use longer than the threshold, and nobody has confirmed a copy of it.",
            "Somebody types `dealer-agent keys confirm-copy`. After each rotation of the key it is due again.",
            "key_copy_days",
            of_installation=True,
            quiet=AT_ONCE,
        ),
        Condition(
            "public_address_failing",
            "The public address {subject} does not answer as it should.",
            "The public address {subject} answers again.",
            "Check the proxy in front of the service, DNS, and the certificate. Then look again:\ndealer-agent doctor",
            "The card at `public_url` cannot be fetched, or is that of another service, for the time of the threshold. "
            "The service fetches it from its own machine.",
            "The card is fetched.",
            "public_address_minutes",
            of_installation=True,
        ),
        Condition(
            "certificate_expiring",
            "The certificate of {subject} expires on {since}.",
            "The certificate of {subject} was renewed.",
            "Renew it, and check why it was not renewed by itself.",
            "The TLS certificate of `public_url` expires within the threshold.",
            "The address has a newer certificate.",
            "certificate_days",
            of_installation=True,
            quiet=AT_ONCE,
        ),
        Condition(
            "clock_wrong",
            "The clock of this machine seems to be wrong.",
            "The clock is right again.",
            "Start time synchronisation (chrony or systemd-timesyncd). If the clock is right, type:\n"
            "dealer-agent leads dispose --clock-is-right",
            "The clock differs from that of a PostgreSQL server by more than the threshold, or is far from the last "
            "time that the service ran.",
            "The clock is right.",
            "clock_seconds",
            of_installation=True,
        ),
        Condition(
            "proxy_undeclared",
            "Requests come through {subject}, which trusted_proxies does not name. Its buyers share one rate limit.",
            "No request comes through {subject} any more, or trusted_proxies names it.",
            "If {subject} is your proxy, add this line below [service], and restart the service:\n"
            'trusted_proxies = ["{subject}"]',
            "A card or a page was asked for by a private or loopback address that has forwarded the request of another "
            "client, and `trusted_proxies` is not set.",
            "The settings have changed, and the service was restarted.",
            of_installation=True,
            quiet=AT_ONCE,
        ),
    )
}


def begins_after(condition: Condition, settings: AlertSettings) -> timedelta:
    """How long a condition must be observed before its alert begins."""
    minutes = {"public_address_failing": settings.public_address_minutes, "feed_failing": settings.feed_failing_minutes}
    return timedelta(minutes=minutes[condition.id]) if condition.id in minutes else condition.after
