"""Sends messages about alerts: mails through the mail server, and webhooks signed as Standard Webhooks.

The specification of the signature is at https://github.com/standard-webhooks/standard-webhooks.
"""

import asyncio
import base64
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import httpx
import msgspec

from dealer_agent.alerts.rules import AlertMessage
from dealer_agent.alerts.texts import MailText, Sender, mail_text, webhook_body
from dealer_agent.config.alert_settings import AlertSettings, webhook_secret
from dealer_agent.config.settings import MailSettings
from dealer_agent.config.settings_problems import error_with_lines
from dealer_agent.delivery.attempt import NotDelivered
from dealer_agent.delivery.mail_headers import new_mail
from dealer_agent.delivery.mail_server import MailServer
from dealer_agent.outgoing.addresses import AddressRefused, AddressRule
from dealer_agent.outgoing.connections import http_client
from dealer_agent.protocol.problems import Path, Problem
from dealer_agent.storage.alerts import NewMessage, Receiver
from dealer_agent.storage.errors import CANNOT_BE_REACHED

WEBHOOK_SECONDS = 20.0


@dataclass(frozen=True)
class MailReceiver:
    """People who get mails."""

    server: MailServer
    to: tuple[str, ...]

    async def send(self, message_id: str, document: bytes, now: datetime) -> None:
        """Sends a document of `mail_text`. Raises NotDelivered."""
        text = msgspec.json.decode(document, type=MailText)
        await self.server.send(self.render(message_id, text, now), self.to)

    def render(self, message_id: str, text: MailText, now: datetime) -> bytes:
        """The mail."""
        mail = new_mail(self.server.sender, self.to, text.subject, message_id, now)
        mail.set_content(text.text)
        return mail.as_bytes()


@dataclass(frozen=True)
class WebhookReceiver:
    """A URL that gets signed POST requests. A status from 200 to 299 confirms one. A redirect is not followed."""

    url: str
    secret: bytes = field(repr=False)
    rule: AddressRule

    async def send(self, message_id: str, document: bytes, now: datetime) -> None:
        """Posts a document of `webhook_body`. Raises NotDelivered."""
        headers = {"Content-Type": "application/json", **self.signature(message_id, document, now)}
        try:
            async with (
                asyncio.timeout(WEBHOOK_SECONDS),
                http_client(self.rule, timeout=WEBHOOK_SECONDS) as client,
                client.stream("POST", self.url, content=document, headers=headers) as response,
            ):
                status = response.status_code
        except TimeoutError:
            raise NotDelivered(f"the webhook did not answer within {WEBHOOK_SECONDS:g} s") from None
        except AddressRefused as refused:
            raise NotDelivered(f"the webhook is not called: {refused}") from None
        except httpx.HTTPError:
            raise NotDelivered(f"the webhook {CANNOT_BE_REACHED}") from None
        if not 200 <= status < 300:
            raise NotDelivered(f"the webhook answered {status}")

    def signature(self, message_id: str, document: bytes, now: datetime) -> dict[str, str]:
        """The headers of the signature."""
        timestamp = str(int(now.timestamp()))
        signed = f"{message_id}.{timestamp}.".encode() + document
        digest = base64.b64encode(hmac.digest(self.secret, signed, "sha256")).decode()
        return {"webhook-id": message_id, "webhook-timestamp": timestamp, "webhook-signature": f"v1,{digest}"}


@dataclass(frozen=True)
class Receivers:
    """Who gets the messages of one dealer, or of the operator."""

    sender: Sender
    by_kind: Mapping[Receiver, MailReceiver | WebhookReceiver]

    def message(self, message: AlertMessage, now: datetime) -> NewMessage:
        """A message with a document for each receiver."""
        make = {
            "mail": lambda: msgspec.json.encode(mail_text(message, self.sender)),
            "webhook": lambda: webhook_body(message, self.sender, now),
        }
        return NewMessage(message.kind, {kind: make[kind]() for kind in self.by_kind})

    async def send(self, receiver: Receiver, message_id: str, document: bytes, now: datetime) -> None:
        """Sends a document to a receiver. Raises NotDelivered."""
        found = self.by_kind.get(receiver)
        if found is None:
            raise NotDelivered(f"no {receiver} is set any more under [alerts]")
        await found.send(message_id, document, now)


def receivers_of(
    settings: AlertSettings,
    mail: MailSettings,
    sender: Sender,
    env: Mapping[str, str],
    rule: AddressRule,
    *,
    where: Path = ("alerts",),
    text: str | None = None,
) -> Receivers:
    """The receivers that the settings name. `rule` says which addresses the webhook may have.

    `text` is the settings file, for the lines in messages.

    Raises SettingsError with all problems.
    """
    found: dict[Receiver, MailReceiver | WebhookReceiver] = {}
    problems = []
    if settings.mail:
        if not mail.host or not mail.from_address:
            advice = "needs a mail server: write host and from_address under [mail]"
            problems.append(Problem((*where, "mail"), advice))
        found["mail"] = MailReceiver(MailServer.of(mail, sender.name, env), settings.mail)
    if settings.webhook_url:
        try:
            found["webhook"] = WebhookReceiver(settings.webhook_url, webhook_secret(settings, env), rule)
        except ValueError as problem:
            problems.append(Problem((*where, "webhook_secret_env"), str(problem)))
    if problems:
        raise error_with_lines(sender.file, text, problems)
    return Receivers(sender, found)
