"""The headers of all mails: of leads, alerts and reports. Pure."""

from collections.abc import Sequence
from datetime import datetime
from email import policy
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime


def new_mail(
    sender: Address, to: Sequence[str], subject: str, mail_id: str, at: datetime, reply_to: Sequence[str] = ()
) -> EmailMessage:
    """A mail without content, sent at `at`.

    Its Message-ID is made from `mail_id`. All attempts have the same one, so that a receiver recognises a repeat.
    """
    utf8 = needs_utf8(sender.addr_spec, *to, *reply_to)
    mail = EmailMessage(policy=policy.SMTP.clone(cte_type="7bit", utf8=utf8))
    mail["From"] = sender
    mail["To"] = [mail_address(address) for address in to]
    if reply_to:
        mail["Reply-To"] = [mail_address(address) for address in reply_to]
    mail["Subject"] = " ".join(subject.split())
    mail["Date"] = format_datetime(at)
    mail["Message-ID"] = f"<{mail_id}@{sender.addr_spec.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"
    return mail


def needs_utf8(*addresses: str) -> bool:
    """Whether a server needs SMTPUTF8 (RFC 6531) for these addresses."""
    return not "".join(addresses).isascii()


def mail_address(address: str, name: str = "") -> Address:
    """A mailbox with the name of its owner."""
    local, _, domain = address.rpartition("@")
    name = " ".join(name.split())
    # `addr_spec` accepts only ASCII, but a mailbox may have other letters (RFC 6531).
    return Address(name, addr_spec=address) if local.startswith('"') else Address(name, username=local, domain=domain)
