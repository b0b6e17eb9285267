"""The dealer's mail server. A failure never contains the server's text, because it may quote the mail."""

import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.headerregistry import Address
from typing import Any, Self

import aiosmtplib

from dealer_agent.config.settings import MailSettings
from dealer_agent.delivery.attempt import Countdown, Lease, NotDelivered
from dealer_agent.delivery.mail_headers import mail_address, needs_utf8
from dealer_agent.storage.errors import CANNOT_BE_REACHED

QUIT_SECONDS = 2.0


class _Client(aiosmtplib.SMTP):
    """A client that calls `before_data` when the server has accepted sender and recipients, before the mail is sent."""

    before_data: Callable[[], Awaitable[None]] | None = None

    async def data(self, message: str | bytes, /, **options: Any) -> aiosmtplib.SMTPResponse:
        """Sends the command DATA and the mail. `before_data` runs first: it renews the lease of the delivery."""
        if self.before_data is not None:
            await self.before_data()
        return await super().data(message, **options)


@dataclass(frozen=True, slots=True)
class MailServer:
    """The server that sends, and the sender's name. A connection is never less secure than `settings.security`."""

    settings: MailSettings
    from_name: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, settings: MailSettings, from_name: str, env: Mapping[str, str]) -> Self:
        """The server of these settings. `env` has the user and the password that they name."""
        return cls(settings, from_name, env.get(settings.user_env) or None, env.get(settings.password_env) or None)

    @property
    def sender(self) -> Address:
        """From whom the mails are."""
        return mail_address(self.settings.from_address, self.from_name)

    async def send(self, content: bytes, recipients: tuple[str, ...], lease: Lease | None = None) -> str | None:
        """Sends a mail. Returns a note if only some of the recipients were accepted. Raises NotDelivered.

        With a `lease`, it is renewed before the mail itself is sent. Then it also raises LeaseLost and StorageError.
        """
        mail, client, countdown = self.settings, self._client(), Countdown(self.settings.timeout_seconds)
        if lease is not None:
            client.before_data = lambda: countdown.renew(lease)
        options = ["SMTPUTF8"] if needs_utf8(mail.from_address, *recipients) else []
        connected = False
        try:
            async with countdown.running():
                await client.connect()
                connected = True
                refused, _ = await client.sendmail(mail.from_address, recipients, content, mail_options=options)
            # The mail is delivered, even if the end of the session fails.
            with suppress(aiosmtplib.SMTPException, OSError):
                await client.quit(timeout=QUIT_SECONDS)
        except (TimeoutError, aiosmtplib.SMTPException, OSError) as error:
            failure = _failure(error)
            answered = isinstance(error, aiosmtplib.SMTPResponseException | aiosmtplib.SMTPRecipientsRefused)
            failure.may_have_arrived = connected and not answered
            raise failure from None
        except ValueError:
            raise NotDelivered(
                "the sender or a recipient is not an address that a mail can have: correct it",
                channel_failed=False,
                permanent=True,
            ) from None
        finally:
            client.close()
        return _note(refused, len(recipients))

    async def check(self) -> None:
        """Connects and logs in, and sends no mail. Raises NotDelivered."""
        client = self._client()
        try:
            async with Countdown(self.settings.timeout_seconds).running():
                await client.connect()
            with suppress(aiosmtplib.SMTPException, OSError):
                await client.quit(timeout=QUIT_SECONDS)
        except (TimeoutError, aiosmtplib.SMTPException, OSError) as error:
            raise _failure(error) from None
        finally:
            client.close()

    def _client(self) -> _Client:
        """A new connection to the mail server, not yet open."""
        mail = self.settings
        return _Client(
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


def _failure(error: BaseException) -> NotDelivered:
    """Translates an exception of aiosmtplib into a failure with a message for staff."""
    match error:
        case aiosmtplib.SMTPRecipientsRefused(recipients=refusals):
            return _refused("the recipient", max((refusal.code for refusal in refusals), default=0))
        case aiosmtplib.SMTPDataError(code=code):
            return _refused("the mail", code)
        case aiosmtplib.SMTPAuthenticationError(code=code):
            return NotDelivered(f"the mail server refused user and password ({code}): check both under [mail]")
        case aiosmtplib.SMTPSenderRefused(code=code):
            return NotDelivered(f"the mail server refused from_address ({code}): check it under [mail]")
        case aiosmtplib.SMTPResponseException(code=code):
            return NotDelivered(f"the mail server answered {code}")
        case aiosmtplib.SMTPNotSupported():
            problem = "the mail server cannot send to an address with letters beyond ASCII"
            return NotDelivered(problem, channel_failed=False, permanent=True)
        case aiosmtplib.SMTPServerDisconnected():
            return NotDelivered("the mail server cut the connection")
        case TimeoutError():
            return NotDelivered("the mail server did not answer in time")
    if type(error) is aiosmtplib.SMTPException:
        # The library raises this class itself if the server lacks a feature.
        return NotDelivered("the mail server offers no STARTTLS or no login: check security and port under [mail]")
    if isinstance(error, ssl.SSLError) or isinstance(error.__cause__, ssl.SSLError):
        return NotDelivered(
            "no safe connection to the mail server: check security and port under [mail], and its certificate"
        )
    return NotDelivered(f"the mail server {CANNOT_BE_REACHED}")


def _refused(what: str, code: int) -> NotDelivered:
    # 421 closes the connection for every mail. Any other code is about this mail.
    problem = f"the mail server refused {what} ({code})"
    return NotDelivered(problem, channel_failed=code == 421, permanent=500 <= code < 600)


def _note(refused: dict[str, aiosmtplib.SMTPResponse], recipients: int) -> str | None:
    """A note about the recipients that the server refused; None without one.

    Raises NotDelivered if a later attempt may reach one of them. The other recipients then get the mail twice.
    """
    if not refused:
        return None
    codes = ", ".join(sorted({str(response.code) for response in refused.values()}))
    note = f"{len(refused)} of {recipients} recipients refused ({codes})"
    if any(400 <= response.code < 500 for response in refused.values()):
        raise NotDelivered(note, channel_failed=False, may_have_arrived=True)
    return note
