"""Mail through the dealer's own server: ADF for CRMs, plain words for people.

Every attempt of a delivery has the same Message-ID, so that who gets it twice can tell.
"""

import asyncio
import ssl
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email import message_from_string, policy
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime

import aiosmtplib

from dealer_agent.config.settings import MailSettings
from dealer_agent.delivery.outlet import DeliveryDocument, DeliveryDropped, NotDelivered, OutgoingMessage
from dealer_agent.leads.adf import adf_of
from dealer_agent.leads.customer_links import CustomerLinks
from dealer_agent.leads.lead_view import LeadView
from dealer_agent.leads.mails import Mail, adf_mail_subject, cancellation_mail, confirmation_mail, people_mail
from dealer_agent.storage.errors import CANNOT_BE_REACHED

GOODBYE_SECONDS = 2.0
LONGEST_LINE = 998
"""Octets of a line of mail without its end (RFC 5322, 2.1.1)."""


@dataclass(frozen=True, slots=True)
class MailServer:
    """The server that sends, and the sender's name. A connection is never less secure than `settings.security`."""

    settings: MailSettings
    from_name: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    async def send(self, content: bytes, recipients: tuple[str, ...]) -> str | None:
        """Sends a mail; a note where only some of the recipients were taken. Raises NotDelivered."""
        mail = self.settings
        client = aiosmtplib.SMTP(
            hostname=mail.host,
            port=mail.port,
            username=self.user,
            password=self.password,
            timeout=mail.timeout_seconds,
            use_tls=mail.security == "tls",
            start_tls=mail.security == "starttls",
            tls_context=None if mail.security == "none" else ssl.create_default_context(),
            local_hostname=mail.from_address.rpartition("@")[2],
        )
        options = ["SMTPUTF8"] if _beyond_ascii(mail.from_address, *recipients) else []
        connected = False
        try:
            async with asyncio.timeout(mail.timeout_seconds):
                await client.connect()
                connected = True
                refused, _ = await client.sendmail(mail.from_address, recipients, content, mail_options=options)
            # It is delivered, even if the end of the session fails.
            with suppress(aiosmtplib.SMTPException, OSError):
                await client.quit(timeout=GOODBYE_SECONDS)
        except (TimeoutError, aiosmtplib.SMTPException, OSError) as error:
            failure = _failure(error)
            answered = isinstance(error, aiosmtplib.SMTPResponseException | aiosmtplib.SMTPRecipientsRefused)
            failure.may_have_arrived = connected and not answered
            raise failure from None
        except ValueError:
            raise NotDelivered("the mail's addresses cannot be used", channel_ails=False, permanent=True) from None
        finally:
            client.close()
        return _partly(refused, len(recipients))


@dataclass(frozen=True, slots=True)
class CrmMailOutlet:
    """A CRM's mailbox: the ADF document alone, as plain text."""

    server: MailServer
    to: tuple[str, ...]

    def make(self, parcel: DeliveryDocument) -> bytes:
        """The mail."""
        message = _message(self.server, parcel, self.to, adf_mail_subject(parcel.message))
        text = adf_of(parcel.message).decode("ascii")
        fits = max(map(len, text.splitlines())) <= LONGEST_LINE
        message.set_content(text, cte="7bit" if fits else "quoted-printable")
        return message.as_bytes()

    async def send(self, letter: OutgoingMessage) -> str | None:
        """Raises NotDelivered."""
        return await self.server.send(letter.content, self.to)


@dataclass(frozen=True, slots=True)
class PeopleMailOutlet:
    """The rooftop's people: the lead in plain words."""

    server: MailServer
    to: tuple[str, ...]

    def make(self, parcel: DeliveryDocument) -> bytes:
        """The mail."""
        return _worded(self.server, parcel, self.to, people_mail(parcel.message))

    async def send(self, letter: OutgoingMessage) -> str | None:
        """Raises NotDelivered."""
        return await self.server.send(letter.content, self.to)


@dataclass(frozen=True, slots=True)
class CustomerMailOutlet:
    """Mails to the customer about a confirmed or cancelled visit, as long as consent allows e-mail."""

    server: MailServer
    links: CustomerLinks

    def make(self, parcel: DeliveryDocument) -> bytes:
        """The mail. Raises DeliveryDropped if it is out of date or consent does not allow it."""
        view = parcel.message
        assert isinstance(view, LeadView), "customers are told of visits only"
        if "email" not in view.channels:
            raise DeliveryDropped("the customer does not agree to e-mail any more")
        if not view.customer.email:
            raise DeliveryDropped("the customer has no e-mail address any more")
        mail = _news_of_visit(parcel, view, self.links, datetime.now(UTC))
        return _worded(self.server, parcel, (view.customer.email,), mail)

    async def send(self, letter: OutgoingMessage) -> str | None:
        """Raises NotDelivered."""
        # As text: the parser of bytes reads no address beyond ASCII.
        to = message_from_string(letter.content.decode(), policy=policy.SMTPUTF8)["To"]
        return await self.server.send(letter.content, tuple(each.addr_spec for each in to.addresses))


def _news_of_visit(parcel: DeliveryDocument, view: LeadView, links: CustomerLinks, now: datetime) -> Mail:
    """The mail. Raises DeliveryDropped if it is no longer true or comes too late."""
    visit = next((visit for visit in view.visits if visit.appointment_id == parcel.event_id), None)
    if parcel.kind == "cancel":
        if visit is None or visit.status != "cancelled" or not visit.times:
            raise DeliveryDropped("the visit is not cancelled")
        if (visit.times[0].end or visit.times[0].start) <= now:
            raise DeliveryDropped("the visit would be over")
        return cancellation_mail(replace(view, visits=(visit,)), links)
    if visit is None or visit.status != "confirmed":
        raise DeliveryDropped("the visit is not confirmed any more")
    if visit.times[0].start <= now:
        raise DeliveryDropped("the visit has begun")
    return confirmation_mail(replace(view, visits=(visit,)), links)


def _message(server: MailServer, parcel: DeliveryDocument, to: tuple[str, ...], subject: str) -> EmailMessage:
    utf8 = _beyond_ascii(server.settings.from_address, *to)
    message = EmailMessage(policy=policy.SMTP.clone(cte_type="7bit", utf8=utf8))
    message["From"] = _address(server.settings.from_address, server.from_name)
    message["To"] = [_address(address) for address in to]
    message["Subject"] = _one_line(subject)
    message["Date"] = format_datetime(datetime.now(UTC))
    message["Message-ID"] = f"<{parcel.delivery_id}@{server.settings.from_address.rpartition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"
    return message


def _worded(server: MailServer, parcel: DeliveryDocument, to: tuple[str, ...], mail: Mail) -> bytes:
    message = _message(server, parcel, to, mail.subject)
    message.set_content(mail.text)
    for part in mail.calendars:
        message.add_attachment(
            part.content, maintype="text", subtype="calendar", filename=part.name, params={"method": part.method}
        )
    return message.as_bytes()


def _beyond_ascii(*addresses: str) -> bool:
    """Whether a server must know SMTPUTF8 (RFC 6531) to take these addresses."""
    return not "".join(addresses).isascii()


def _address(address: str, name: str = "") -> Address:
    local, _, domain = address.rpartition("@")
    if local.startswith('"'):
        return Address(_one_line(name), addr_spec=address)
    # `addr_spec` refuses what lies beyond ASCII, which a mailbox may hold (RFC 6531).
    return Address(_one_line(name), username=local, domain=domain)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _failure(error: BaseException) -> NotDelivered:
    """The problem in the service's own words: a server's text may quote the mail."""
    match error:
        case aiosmtplib.SMTPRecipientsRefused(recipients=refusals):
            code = max((refusal.code for refusal in refusals), default=0)
            return _refused("the recipient", code)
        case aiosmtplib.SMTPDataError(code=code):
            return _refused("the mail", code)
        case aiosmtplib.SMTPAuthenticationError(code=code):
            return NotDelivered(f"the mail server refused user and password ({code})")
        case aiosmtplib.SMTPSenderRefused(code=code):
            return NotDelivered(f"the mail server refused from_address ({code})")
        case aiosmtplib.SMTPResponseException(code=code):
            return NotDelivered(f"the mail server answered {code}")
        case aiosmtplib.SMTPNotSupported():
            return NotDelivered(
                "the mail server takes no address with letters beyond ASCII", channel_ails=False, permanent=True
            )
        case aiosmtplib.SMTPServerDisconnected():
            return NotDelivered("the mail server cut the connection")
        case TimeoutError():
            return NotDelivered("the mail server did not answer in time")
    if type(error) is aiosmtplib.SMTPException:
        # What the library says of a server that does not offer something.
        return NotDelivered("the mail server does not offer what is needed: STARTTLS, or a way to log in")
    if isinstance(error, ssl.SSLError) or isinstance(error.__cause__, ssl.SSLError):
        return NotDelivered(
            "no safe connection to the mail server: wrong security or port, or an untrusted certificate"
        )
    return NotDelivered(f"the mail server {CANNOT_BE_REACHED}")


def _refused(what: str, code: int) -> NotDelivered:
    """421 closes the channel; any other code is about this mail."""
    problem = f"the mail server refused {what} ({code})"
    return NotDelivered(problem, channel_ails=code == 421, permanent=500 <= code < 600)


def _partly(refused: dict[str, aiosmtplib.SMTPResponse], asked: int) -> str | None:
    """Raises NotDelivered where a recipient may be taken later: the others then get it again, with the same id."""
    if not refused:
        return None
    codes = ", ".join(sorted({str(response.code) for response in refused.values()}))
    words = f"{len(refused)} of {asked} recipients refused ({codes})"
    if any(400 <= response.code < 500 for response in refused.values()):
        raise NotDelivered(words, channel_ails=False, may_have_arrived=True)
    return words
