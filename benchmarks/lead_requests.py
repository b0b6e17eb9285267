"""Lead requests of different customers. Pure; the same in every run, except for the times of the visits."""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from benchmarks.buyers import post
from dealer_agent.apidocs.examples import example_body
from dealer_agent.protocol.skill import SKILL_BY_ID
from dealer_agent.protocol.vocabulary import proto

AREAS = ("202", "203", "205", "206", "207", "208", "209", "210", "212", "213")
MOST_LEADS = 10_000 * len(AREAS)
LEADS = 60_000
"""More than one round of a database sends, so no customer sends twice."""
VISITS = ("test_drive", "sales", "service", "phone_call")


def lead_requests(vins: Sequence[str], now: datetime, count: int = LEADS) -> Iterator[bytes]:
    """So many requests, at most MOST_LEADS.

    Every lead has an idempotency key. Every third asks for a visit, each at another time of the next weeks.
    """
    tomorrow = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    for number in range(count):
        body = example_body(SKILL_BY_ID["lead.submit"], proto(), now=now, vin=vins[number % len(vins)])
        payload = body["message"]["parts"][0]["data"]
        payload["customer"]["email"] = f"customer-{number}@example.com"
        payload["customer"]["phone"] = f"+1{AREAS[number // 10_000]}555{number % 10_000:04d}"
        payload["idempotency_key"] = f"benchmark-{number}"
        if number % 3:
            del payload["appointment"]
        else:
            # Between nine and four in Chicago, on one of 21 days.
            at = tomorrow + timedelta(days=number // 42 % 21, hours=15, minutes=30 * (number // 3 % 14))
            payload["appointment"] = {
                "appointment_type": VISITS[number // 3 % len(VISITS)],
                "appointment_at": at.isoformat(),
            }
        yield post(json.dumps(body).encode())
