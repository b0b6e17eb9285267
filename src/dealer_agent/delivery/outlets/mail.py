"""Mails through the dealer's own server: ADF to CRMs, plain English to staff and customers.

All attempts of a delivery have the same Message-ID, so that a receiver recognises repeats.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from email import message_from_string, policy

from dealer_agent.dealers.profile import SmtpChannel
from dealer_agent.delivery.attempt import DeliveryDropped, Lease
from dealer_agent.delivery.mail_headers import new_mail
from dealer_agent.delivery.mail_server import MailServer
from dealer_agent.delivery.outlet import OutletParts
from dealer_agent.leads.adf import render_adf
from dealer_agent.leads.consent import EMAIL
from dealer_agent.leads.customer_links import CustomerLinks
from dealer_agent.leads.lead_view import DeliveredMessage, LeadView
from dealer_agent.leads.mails import Mail, adf_mail_subject, staff_mail, visit_mail
from dealer_agent.leads.statuses import CANCELLED, CONFIRMED
from dealer_agent.pasted_commands import Where
from dealer_agent.storage.deliveries.outbox import DueDelivery

LONGEST_LINE = 998
"""Octets of a line of mail without its end (RFC 5322, 2.1.1)."""


@dataclass(frozen=True, slots=True)
class _MailOutlet:
    server: MailServer
    to: tuple[str, ...]

    async def send(self, _: DueDelivery, document: bytes, lease: Lease) -> str | None:
        return await self.server.send(document, self.to, lease)


class CrmMailOutlet(_MailOutlet):
    """Mails the ADF document as plain text to a CRM."""

    def render(self, delivery: DueDelivery, message: DeliveredMessage) -> bytes:
        """The mail."""
        subject, at = adf_mail_subject(message), datetime.now(UTC)
        mail = new_mail(self.server.sender, self.to, subject, delivery.delivery_id, at, _customer_of(message))
        text = render_adf(message).decode("ascii")
        fits = max(map(len, text.splitlines())) <= LONGEST_LINE
        mail.set_content(text, cte="7bit" if fits else "quoted-printable")
        return mail.as_bytes()


@dataclass(frozen=True, slots=True)
class StaffMailOutlet(_MailOutlet):
    """Mails the lead as readable text to the rooftop's staff. `where` completes the commands in it."""

    where: Where = field(default_factory=Where)

    def render(self, delivery: DueDelivery, message: DeliveredMessage) -> bytes:
        """The mail."""
        return _mail(self.server, delivery, self.to, staff_mail(message, self.where), _customer_of(message))


@dataclass(frozen=True, slots=True)
class CustomerMailOutlet:
    """Mails customers about their confirmed and cancelled visits if they consent to e-mail."""

    server: MailServer
    links: CustomerLinks

    def render(self, delivery: DueDelivery, message: DeliveredMessage) -> bytes:
        """The mail. Raises DeliveryDropped if it is out of date or the customer does not consent to e-mail."""
        assert isinstance(message, LeadView), "customers get mails about visits only"
        if EMAIL not in message.channels:
            raise DeliveryDropped("the customer does not agree to e-mail any more")
        if not message.customer.email:
            raise DeliveryDropped("the customer has no e-mail address any more")
        mail = _visit_mail(delivery, message, self.links, datetime.now(UTC))
        return _mail(self.server, delivery, (message.customer.email,), mail)

    async def send(self, _: DueDelivery, document: bytes, lease: Lease) -> str | None:
        """Raises NotDelivered, LeaseLost and StorageError."""
        # Parsed as text: the parser of bytes reads only addresses in ASCII.
        to = message_from_string(document.decode(), policy=policy.SMTPUTF8)["To"]
        return await self.server.send(document, tuple(each.addr_spec for each in to.addresses), lease)


def _visit_mail(delivery: DueDelivery, view: LeadView, links: CustomerLinks, now: datetime) -> Mail:
    """The mail to the customer about a visit. Raises DeliveryDropped if it is no longer true or useful."""
    visit = next((visit for visit in view.visits if visit.appointment_id == delivery.event_id), None)
    if delivery.kind == "cancel":
        if visit is None or visit.status != CANCELLED or not visit.times:
            raise DeliveryDropped("the visit is not cancelled")
        if (visit.times[0].end or visit.times[0].start) <= now:
            raise DeliveryDropped("the cancelled visit would be over by now")
        return visit_mail(view, visit, links)
    if visit is None or visit.status != CONFIRMED:
        raise DeliveryDropped("the visit is not confirmed any more")
    if visit.times[0].start <= now:
        raise DeliveryDropped("the visit has begun")
    return visit_mail(view, visit, links)


def _customer_of(message: DeliveredMessage) -> tuple[str, ...]:
    """The address to which staff reply: that of the customer, who consents to e-mail. Empty without one."""
    if not isinstance(message, LeadView) or EMAIL not in message.channels or not message.customer.email:
        return ()
    return (message.customer.email,)


def _mail(
    server: MailServer, delivery: DueDelivery, to: tuple[str, ...], mail: Mail, reply_to: tuple[str, ...] = ()
) -> bytes:
    """The bytes of a mail to staff or to a customer, with its calendar files."""
    message = new_mail(server.sender, to, mail.subject, delivery.delivery_id, datetime.now(UTC), reply_to)
    message.set_content(mail.text)
    for part in mail.calendars:
        message.add_attachment(
            part.content, maintype="text", subtype="calendar", filename=part.name, params={"method": part.method}
        )
    return message.as_bytes()


CHANNEL = SmtpChannel


def make_outlet(channel: SmtpChannel, parts: OutletParts) -> CrmMailOutlet:
    """The outlet of a channel with these settings."""
    assert parts.mail_server is not None, "config.channels checks that a mail channel has a server"
    return CrmMailOutlet(parts.mail_server, channel.to)
