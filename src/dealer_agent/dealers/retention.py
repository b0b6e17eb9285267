"""The times of `[privacy]`: what is older is deleted. Pure."""

from datetime import datetime, timedelta

from dealer_agent.dealers.profile import Privacy


def erase_before(kept: Privacy, now: datetime) -> dict[str, datetime]:
    """The limits for `storage.erasure.dispose`."""
    return {
        "leads_unused_since": now - timedelta(days=kept.keep_leads_days),
        "consents_before": now - timedelta(days=kept.keep_consents_days),
    }


def purge_before(kept: Privacy, now: datetime) -> dict[str, datetime]:
    """The limits for `storage.erasure.purge`.

    The limit of the access log is a midnight, so that its hourly deletion, which adds an entry, deletes once a day.
    """
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    return {
        "refusals_before": now - timedelta(days=kept.keep_refusals_days),
        "accesses_before": today - timedelta(days=kept.keep_accesses_days),
        "counts_before": today - timedelta(days=kept.keep_counts_days),
    }
