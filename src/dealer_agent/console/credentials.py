"""What a person proves who they are with: passkeys, a password with a one-time code, and recovery codes."""

import hmac
import re
import secrets
import time
from base64 import b32encode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

import msgspec
import pyotp
import segno
from webauthn import (
    base64url_to_bytes,
    generate_authentication_options,
    generate_registration_options,
    options_to_json,
    verify_authentication_response,
    verify_registration_response,
)
from webauthn.helpers.exceptions import WebAuthnException
from webauthn.helpers.structs import (
    AuthenticatorSelectionCriteria,
    PublicKeyCredentialDescriptor,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from dealer_agent.console.challenges import SECONDS, is_challenge, new_challenge
from dealer_agent.encryption.cipher import Cipher
from dealer_agent.encryption.passwords import NO_PASSWORD, is_password
from dealer_agent.storage.console.people import Person, find_by_email, replace_recovery, use_totp_step
from dealer_agent.storage.console.sign_ins import Passkey, add_passkey, find_passkey, passkeys_of, use_passkey
from dealer_agent.storage.nonces import add_nonces, delete_expired_nonces
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

ISSUER = "Dealer console"
"""The name under which an app for one-time codes lists them."""
STEP_SECONDS = 30
RECOVERY_CODES = 10
MOST_PASSKEYS = 20
MAX_ANSWER_BYTES = 16 * 1024
"""The largest answer of a browser about a passkey."""


@dataclass(frozen=True)
class Origin:
    """The origin of the console in a browser: its URL, the host for which passkeys are made, and whether it has TLS."""

    url: str
    rp_id: str
    secure: bool


class _ClientData(msgspec.Struct):
    challenge: str


class _Response(msgspec.Struct):
    clientDataJSON: str  # noqa: N815 - the name of the standard


class _PasskeyAnswer(msgspec.Struct):
    """The parts of a browser's answer that are needed before it is verified."""

    rawId: str  # noqa: N815 - the name of the standard
    response: _Response


@dataclass(frozen=True)
class Credentials:
    """Checks credentials. The cipher is that of the owner of the installation."""

    cipher: Cipher

    def registration_options(self, origin: Origin, person: Person, passkeys: list[Passkey]) -> str:
        """What a browser needs to make a passkey for a person, as JSON."""
        options = generate_registration_options(
            rp_id=origin.rp_id,
            rp_name=ISSUER,
            user_name=person.email,
            user_id=person.person_id.encode(),
            challenge=new_challenge(self._key, f"new {person.person_id}", time.time()),
            authenticator_selection=AuthenticatorSelectionCriteria(
                resident_key=ResidentKeyRequirement.REQUIRED,
                user_verification=UserVerificationRequirement.REQUIRED,
            ),
            exclude_credentials=[PublicKeyCredentialDescriptor(id=each.credential_id) for each in passkeys],
        )
        return options_to_json(options)

    def add_passkey(self, tx: Transaction, origin: Origin, person: Person, answer: bytes, name: str) -> bool:
        """Adds the passkey of a browser's answer to a person. False if the answer proves nothing."""
        parsed = self._read(tx, answer, f"new {person.person_id}")
        if parsed is None or len(passkeys_of(tx, person.person_id)) >= MOST_PASSKEYS:
            return False
        _, challenge, document = parsed
        try:
            verified = verify_registration_response(
                credential=document,
                expected_challenge=challenge,
                expected_rp_id=origin.rp_id,
                expected_origin=origin.url,
                require_user_verification=True,
            )
        except (WebAuthnException, ValueError, KeyError, TypeError):
            return False
        add_passkey(
            tx, person.person_id, verified.credential_id, verified.credential_public_key, verified.sign_count, name
        )
        return True

    def authentication_options(self, origin: Origin, purpose: str) -> str:
        """What a browser needs to prove a passkey, as JSON. It names no person, so it tells nobody who has one."""
        options = generate_authentication_options(
            rp_id=origin.rp_id,
            challenge=new_challenge(self._key, purpose, time.time()),
            user_verification=UserVerificationRequirement.REQUIRED,
        )
        return options_to_json(options)

    def find_by_passkey(self, tx: Transaction, origin: Origin, answer: bytes, purpose: str) -> str | None:
        """The id of the person whose passkey a browser has proved. None if the answer proves nothing."""
        parsed = self._read(tx, answer, purpose)
        if parsed is None:
            return None
        raw_id, challenge, document = parsed
        passkey = find_passkey(tx, raw_id)
        if passkey is None:
            return None
        try:
            verified = verify_authentication_response(
                credential=document,
                expected_challenge=challenge,
                expected_rp_id=origin.rp_id,
                expected_origin=origin.url,
                credential_public_key=passkey.public_key,
                credential_current_sign_count=passkey.sign_count,
                require_user_verification=True,
            )
        except (WebAuthnException, ValueError, KeyError, TypeError):
            return None
        use_passkey(tx, passkey.credential_id, verified.new_sign_count)
        return passkey.person_id

    def find_by_password(
        self, store: Store, owner: str, email: str, password: str, code: str, then: Callable[[Transaction, str], None]
    ) -> Person | None:
        """The person with this e-mail address, password, and one-time code or recovery code.

        It takes as long for an unknown person. The code is checked, and used up, only if the password is right. `then`
        joins the transaction that uses the code.
        """
        with store.read(owner) as tx:
            person = find_by_email(tx, email)
        password_hash = None if person is None else person.password
        # Without a transaction: it takes a tenth of a second.
        if not is_password(password, password_hash or NO_PASSWORD) or person is None or password_hash is None:
            return None
        with store.write(owner) as tx:
            person = find_by_email(tx, email)
            if person is None or person.password != password_hash:
                return None
            if not (self._uses_code(tx, person, code) or use_recovery_code(tx, person, code)):
                return None
            then(tx, person.person_id)
        return person

    def new_totp(self, person_id: str) -> tuple[int, str]:
        """The number of a new secret of one-time codes, and a text for forms: the number with a MAC."""
        number = secrets.randbits(62)
        return number, f"{number}.{self._mac_of(person_id, number)}"

    def read_totp(self, person_id: str, text: str) -> int | None:
        """The number in a text of `new_totp`. None if the text was not made for this person."""
        number, _, mac = text.partition(".")
        if not (number.isascii() and number.isdigit() and len(number) < 20):
            return None
        return int(number) if hmac.compare_digest(mac.encode(), self._mac_of(person_id, int(number)).encode()) else None

    def _mac_of(self, person_id: str, number: int) -> str:
        return hmac.digest(self._key, f"one-time codes {person_id} {number}".encode(), sha256).hex()

    def totp_secret(self, person_id: str, number: int) -> str:
        """The secret of a person's one-time codes, in base 32. Another number gives another secret."""
        return b32encode(self.cipher.permanent_key(f"console one-time codes {person_id} {number}")[:20]).decode()

    def totp_step(self, person_id: str, number: int, code: str, at: datetime) -> int | None:
        """The step of 30 s (since 1970) whose one-time code this is: this step, the last or the next one. Else None."""
        totp = pyotp.TOTP(self.totp_secret(person_id, number), interval=STEP_SECONDS)
        now = int(at.timestamp()) // STEP_SECONDS
        digits = re.sub(r"\s", "", code).encode()
        steps = (now, now - 1, now + 1)
        return next((each for each in steps if secrets.compare_digest(totp.generate_otp(each).encode(), digits)), None)

    def totp_link(self, person: Person, number: int) -> str:
        """The link with which an app takes over the one-time codes."""
        return pyotp.TOTP(self.totp_secret(person.person_id, number)).provisioning_uri(
            name=person.email, issuer_name=ISSUER
        )

    @property
    def _key(self) -> bytes:
        return self.cipher.permanent_key("console challenges")

    def _uses_code(self, tx: Transaction, person: Person, code: str) -> bool:
        if person.totp_number is None:
            return False
        step = self.totp_step(person.person_id, person.totp_number, code, tx.now)
        return step is not None and use_totp_step(tx, person.person_id, step)

    def _read(self, tx: Transaction, answer: bytes, purpose: str) -> tuple[bytes, bytes, dict[str, Any]] | None:
        """The id of a passkey, the challenge and the whole of a browser's answer.

        None if the challenge is not ours, or was used before.
        """
        try:
            document = msgspec.json.decode(answer, type=dict[str, Any])
            parts = msgspec.convert(document, _PasskeyAnswer)
            client = msgspec.json.decode(base64url_to_bytes(parts.response.clientDataJSON), type=_ClientData)
            challenge, raw_id = base64url_to_bytes(client.challenge), base64url_to_bytes(parts.rawId)
        except ValueError:
            return None
        if not is_challenge(self._key, purpose, challenge, time.time()):
            return None
        delete_expired_nonces(tx)
        if not add_nonces(tx, {sha256(challenge).digest()[:16]: tx.now + timedelta(seconds=2 * SECONDS)}):
            return None
        return raw_id, challenge, document


def qr_code(link: str) -> str:
    """A QR code of a link, as an SVG element."""
    return str(segno.make_qr(link).svg_inline(scale=4, border=2))


def new_recovery_codes() -> tuple[list[str], bytes]:
    """New recovery codes, and their hashes as they are stored. A code has 80 random bits."""
    codes = [b32encode(secrets.token_bytes(10)).decode().lower() for _ in range(RECOVERY_CODES)]
    shown = ["-".join(code[at : at + 4] for at in range(0, 16, 4)) for code in codes]
    return shown, msgspec.json.encode([_code_hash(code) for code in codes])


def use_recovery_code(tx: Transaction, person: Person, code: str) -> bool:
    """Whether a code is one of the person's recovery codes. It does not work again."""
    left = msgspec.json.decode(person.recovery, type=list[str])
    code_hash = _code_hash(code)
    if code_hash not in left:
        return False
    left.remove(code_hash)
    return replace_recovery(tx, person, msgspec.json.encode(left))


def _code_hash(code: str) -> str:
    return sha256(re.sub(r"[\s-]", "", code).lower().encode()).hexdigest()
