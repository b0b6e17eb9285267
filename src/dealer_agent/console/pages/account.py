"""A person's own account: passkeys, password with one-time codes, recovery codes, and sessions."""

from base64 import urlsafe_b64decode, urlsafe_b64encode

from starlette.responses import Response

from dealer_agent.console.credentials import new_recovery_codes, qr_code
from dealer_agent.console.pages.passkeys import go_json, json_response, passkey_answer, problem_json, prove
from dealer_agent.console.rendering import markup
from dealer_agent.console.requests import ConsoleRequest, not_found, redirect, refuse
from dealer_agent.console.words import LAST_WAY, WRONG_CODE, WRONG_PASSKEY
from dealer_agent.encryption.passwords import check_new_password, hash_password
from dealer_agent.storage.console import people, sign_ins
from dealer_agent.storage.transaction import Transaction

LONGEST_NAME = 60


def show(request: ConsoleRequest) -> Response:
    """How the person signs in, and their sessions."""
    with request.opened.store.read(request.opened.owner, request.now) as tx:
        passkeys = sign_ins.passkeys_of(tx, request.who.person_id)
        sessions = sign_ins.sessions_of(tx, request.who.person_id)
    named = [(urlsafe_b64encode(each.credential_id).decode(), each) for each in passkeys]
    left = request.who.recovery.count(b",") + 1 if request.who.recovery != people.NO_CODES else 0
    return request.page("account.html", passkeys=named, sessions=sessions, codes_left=left)


def passkey_options(request: ConsoleRequest) -> Response:
    """What the browser needs to make a passkey."""
    with request.opened.store.read(request.opened.owner, request.now) as tx:
        passkeys = sign_ins.passkeys_of(tx, request.who.person_id)
    return json_response(request.credentials.registration_options(request.origin, request.who, passkeys).encode())


def add_passkey(request: ConsoleRequest) -> Response:
    """Adds the passkey that the browser has made. With the first one, the person can sign in again."""
    name = request.query.get("name", "").strip()[:LONGEST_NAME] or "Passkey"
    with request.opened.store.write(request.opened.owner, request.now) as tx:
        answer = passkey_answer(request)
        is_added = request.credentials.add_passkey(tx, request.origin, request.who, answer, name)
        if is_added:
            prove(tx, request)
    if not is_added:
        return problem_json(WRONG_PASSKEY, 401)
    return go_json(request.console.url("account", said="passkey-added"))


def remove_passkey(request: ConsoleRequest) -> Response:
    """Removes a passkey, but not the last way to sign in."""
    try:
        credential_id = urlsafe_b64decode(request.text("passkey", 2_000))
    except ValueError:
        not_found("There is no such passkey.")
    with request.opened.store.write(request.opened.owner, request.now) as tx:
        passkeys = sign_ins.passkeys_of(tx, request.who.person_id)
        others = [each for each in passkeys if each.credential_id != credential_id]
        if not others and request.who.password is None:
            refuse(LAST_WAY)
        if not sign_ins.remove_passkey(tx, request.who.person_id, credential_id):
            not_found("There is no such passkey.")
        _changed(tx, request)
    return redirect(request.console.url("account", said="passkey-removed"))


def show_password(request: ConsoleRequest, status: int = 200, problem: str = "") -> Response:
    """The page to choose a password, with the secret of new one-time codes: that of the form, if the form has one."""
    signed = request.text("number", 200)
    number = request.credentials.read_totp(request.who.person_id, signed)
    if number is None:
        number, signed = request.credentials.new_totp(request.who.person_id)
    link = request.credentials.totp_link(request.who, number)
    secret = request.credentials.totp_secret(request.who.person_id, number)
    code = markup(qr_code(link))
    return request.page("password.html", status, problem=problem, link=link, secret=secret, qr=code, number=signed)


def set_password(request: ConsoleRequest) -> Response:
    """Sets the password and the one-time codes together, once a code shows that the app has them."""
    password = request.form.get("password", [""])[0]
    try:
        check_new_password(password)
    except ValueError as problem:
        return show_password(request, 422, f"{problem}.".capitalize())
    number = request.credentials.read_totp(request.who.person_id, request.text("number", 200))
    if number is None:
        return show_password(request, 422, WRONG_CODE)
    step = request.credentials.totp_step(request.who.person_id, number, request.text("code", 100), request.now)
    if step is None:
        return show_password(request, 422, WRONG_CODE)
    hashed = hash_password(password)
    with request.opened.store.write(request.opened.owner, request.now) as tx:
        people.set_password(tx, request.who.person_id, hashed)
        people.set_totp(tx, request.who.person_id, number)
        people.use_totp_step(tx, request.who.person_id, step)
        _changed(tx, request)
    return redirect(request.console.url("account", said="password-set"))


def new_codes(request: ConsoleRequest) -> Response:
    """Makes recovery codes, which replace the older ones, and shows them once."""
    codes, hashes = new_recovery_codes()
    with request.opened.store.write(request.opened.owner, request.now) as tx:
        if not people.replace_recovery(tx, request.who, hashes):
            refuse("The codes have changed meanwhile. Please try again.", 409)
        if request.is_proved:
            _changed(tx, request)
    return request.page("recovery_codes.html", codes=codes)


def end_session(request: ConsoleRequest) -> Response:
    """Ends one of the person's sessions."""
    with request.opened.store.write(request.opened.owner, request.now) as tx:
        sign_ins.end_session(tx, request.who.person_id, request.text("session", 40))
    return redirect(request.console.url("account", said="session-ended"))


def _changed(tx: Transaction, request: ConsoleRequest) -> None:
    """Ends all other sessions after a change of how the person signs in. This session counts as proved."""
    assert request.session_hash is not None, "the act needs a session"
    prove(tx, request)
    sign_ins.end_others(tx, request.who.person_id, request.session_hash)
