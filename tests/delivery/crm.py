"""A dealer whose leads go to a CRM over HTTP, at an intake whose loop runs for a block."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import msgspec
from sqlalchemy import create_engine, update
from tests.delivery.receivers import HttpReceiver, MailReceiver
from tests.delivery.shop import loop_of_one, so
from tests.leads.lead_views import LINKS
from tests.skills.intake_setup import IntakeSetup
from tests.skills.sample_dealers import a_lead
from tests.skills.visiting import PROFILE

from dealer_agent.config.settings import DeliverySettings, MailSettings
from dealer_agent.dealers.profile import Deliver, FolderChannel, HttpChannel, Profile
from dealer_agent.delivery.outlets import DealerOutlets, outlets_of
from dealer_agent.storage.database_url import database_url as parsed_url
from dealer_agent.storage.deliveries.outbox import DeliveryRecord
from dealer_agent.storage.schema import outbox

LATER = DeliverySettings(first_retry_seconds=3600, longest_retry_minutes=60, breaker_failures=100)
"""A failure is tried again when the test says so."""
EMAIL, PHONE = "sam@example.com", "+12025550123"
SAM = {"first_name": "Sam", "last_name": "Sample", "email": EMAIL, "phone": PHONE}


def a_time() -> str:
    """Noon in Chicago in a few days: a free time for a visit."""
    return (datetime.now(UTC) + timedelta(days=3)).strftime("%Y-%m-%dT12:00:00-06:00")


def lead_of_sam(*channels: str, **members: Any) -> dict[str, Any]:
    """A lead of one customer who agreed to these channels."""
    made = a_lead(customer=SAM, **members)
    return made | {"consent": made["consent"] | {"allowed_channels": list(channels or ("email", "phone"))}}


def profile_of(*http: HttpChannel, notify: tuple[str, ...] = (), folder: Path | None = None) -> Profile:
    """One rooftop with these channels."""
    folders = () if folder is None else (FolderChannel(name="folder", path=str(folder)),)
    deliver = Deliver(http=http, directory=folders, notify=notify)
    return msgspec.structs.replace(
        PROFILE, rooftops=(msgspec.structs.replace(PROFILE.rooftops[1], deliver=deliver), PROFILE.rooftops[0])
    )


def mail_settings(receiver: MailReceiver) -> MailSettings:
    """The section `[mail]` of a dealer whose mail server is the receiver."""
    return MailSettings(
        host="127.0.0.1",
        port=receiver.port,
        security="none",
        from_address="leads@dealer.example.com",
        timeout_seconds=120,
    )


class Sending:
    """Sends what waits at an intake."""

    def __init__(self, intake: IntakeSetup, profile: Profile, mail: MailReceiver | None = None) -> None:
        self.intake, self.profile = intake, profile
        self.mail_settings = MailSettings() if mail is None else mail_settings(mail)

    def rows(self, **wanted: str) -> list[DeliveryRecord]:
        """The deliveries with these values, oldest first."""
        found = sorted(self.intake.deliveries(), key=lambda row: row.delivery_id)
        return [row for row in found if all(getattr(row, name) == value for name, value in wanted.items())]

    def until(self, done: Callable[[], object], settings: DeliverySettings = LATER) -> None:
        """Sends until something is so; what is being sent then is let end."""

        async def run() -> None:
            async with httpx.AsyncClient() as client:
                outlets = outlets_of(
                    self.profile, self.mail_settings, folder=Path("/nowhere"), links=LINKS, secrets={}, client=client
                )
                store = self.intake.store
                loop = loop_of_one(store, self.intake.writer, DealerOutlets(self.profile, outlets, settings))
                running = asyncio.create_task(loop.run())
                try:
                    await so(done)
                finally:
                    loop.stop()
                    await running

        asyncio.run(run())

    def attempt(self) -> None:
        """Tries what is free to be tried, then stops."""
        before = sum(row.attempts for row in self.rows())
        self.due()

        def tried() -> bool:
            rows = self.rows()
            return sum(row.attempts for row in rows) > before and all(row.leased_until is None for row in rows)

        self.until(tried)

    def all(self) -> None:
        """Sends until nothing waits."""
        self.due()
        self.until(lambda: not self.rows(state="waiting"))

    def due(self) -> None:
        """What waits is due now, as after a long time."""
        with create_engine(parsed_url(self.intake.url)).begin() as connection:
            connection.execute(
                update(outbox).where(outbox.c.state == "waiting").values(due_at=datetime.now(UTC) - timedelta(1))
            )


def arrived(receiver: HttpReceiver) -> list[tuple[str, dict[str, Any]]]:
    """Delivery id and document of everything that came, in order."""
    return [(one.headers["x-delivery-id"], msgspec.json.decode(one.body)) for one in receiver.taken]
