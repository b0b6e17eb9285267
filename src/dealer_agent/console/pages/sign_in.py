"""Sign-in, sign-out, invitations, and the proof of who somebody is before a dangerous act."""

import hashlib
from collections.abc import Callable

from starlette.responses import Response

from dealer_agent.console.cookies import set_cookie
from dealer_agent.console.credentials import use_recovery_code
from dealer_agent.console.invitations import accept
from dealer_agent.console.pages.passkeys import go_json, json_response, passkey_answer, problem_json, prove
from dealer_agent.console.rendering import STATIC, render, static
from dealer_agent.console.requests import HTML, ConsoleRequest, not_found, redirect, safe_next
from dealer_agent.console.words import BAD_INVITATION, TOO_MANY, WRONG_PASSKEY, WRONG_SIGN_IN
from dealer_agent.protocol.formats import normal_email
from dealer_agent.server.tokens import hash_secret, new_token
from dealer_agent.storage.console.people import find_by_email, find_person, note_sign_in
from dealer_agent.storage.console.sign_ins import end_session, find_invitation, start_session
from dealer_agent.storage.transaction import Transaction

SIGN_INS_RULE = "sign_ins"
FOR_EVER = "public, max-age=31536000, immutable"
_SIGN_IN = "sign in"


def static_file(request: ConsoleRequest) -> Response:
    """The stylesheet, or a script."""
    name = request.params["name"]
    if name not in STATIC:
        not_found("There is no such file.")
    return Response(static(name), headers={"cache-control": FOR_EVER}, media_type=STATIC[name])


def show(request: ConsoleRequest, status: int = 200, problem: str = "") -> Response:
    """The page to sign in."""
    return request.page("sign_in.html", status, problem=problem, next=_next(request))


def by_password(request: ConsoleRequest) -> Response:
    """Signs in with an e-mail address, a password and a code."""
    email = normal_email(request.text("email")) or ""
    if wait := _wait(request, email):
        return show(request, 429, TOO_MANY.format(wait))
    if not _is_password_right(request, email, lambda tx, person_id: _start(tx, request, person_id)):
        return show(request, 401, WRONG_SIGN_IN)
    return redirect(_next(request))


def passkey_options(request: ConsoleRequest) -> Response:
    """What the browser needs to prove a passkey."""
    return json_response(request.credentials.authentication_options(request.origin, _SIGN_IN).encode())


def by_passkey(request: ConsoleRequest) -> Response:
    """Signs in with a passkey."""
    if wait := _wait(request):
        return problem_json(TOO_MANY.format(wait), 429)
    with request.opened.store.write(request.opened.owner, request.now) as tx:
        person_id = request.credentials.find_by_passkey(tx, request.origin, passkey_answer(request), _SIGN_IN)
        if person_id is not None:
            _start(tx, request, person_id)
    if person_id is None:
        return problem_json(WRONG_PASSKEY, 401)
    return go_json(_next(request))


def show_recovery(request: ConsoleRequest, status: int = 200, problem: str = "") -> Response:
    """The page to sign in with a recovery code."""
    return request.page("recover.html", status, problem=problem)


def by_recovery_code(request: ConsoleRequest) -> Response:
    """Signs in with an e-mail address and a recovery code."""
    email = normal_email(request.text("email")) or ""
    if wait := _wait(request, email):
        return show_recovery(request, 429, TOO_MANY.format(wait))
    with request.opened.store.write(request.opened.owner, request.now) as tx:
        person = find_by_email(tx, email)
        is_right = person is not None and use_recovery_code(tx, person, request.text("code", 100))
        if person is not None and is_right:
            _start(tx, request, person.person_id)
    if not is_right:
        return show_recovery(request, 401, WRONG_SIGN_IN)
    return redirect(request.console.url("account"))


def show_invitation(request: ConsoleRequest) -> Response:
    """The page of an invitation. It changes nothing: programs that check mails open links."""
    with request.opened.store.read(request.opened.owner, request.now) as tx:
        invitation = find_invitation(tx, hash_secret(request.params["token"]))
        person = None if invitation is None else find_person(tx, invitation.person_id)
    if person is None:
        return _bad_invitation(request)
    return request.page("invitation.html", person=person)


def accept_invitation(request: ConsoleRequest) -> Response:
    """Uses an invitation: what the person signed in with before is forgotten, and a new session begins."""
    with request.opened.store.write(request.opened.owner, request.now) as tx:
        person_id = accept(tx, hash_secret(request.params["token"]))
        if person_id is not None:
            _start(tx, request, person_id, proved=False)
    if person_id is None:
        return _bad_invitation(request)
    return redirect(request.console.url("account"))


def sign_out(request: ConsoleRequest) -> Response:
    """Ends the session."""
    assert request.session is not None, "the act needs a session"
    with request.opened.store.write(request.opened.owner, request.now) as tx:
        end_session(tx, request.who.person_id, request.session.session_id)
    set_cookie(request, None)
    response = redirect(request.console.url("sign-in", said="signed-out"))
    response.headers["clear-site-data"] = '"cache", "storage"'
    return response


def show_proof(request: ConsoleRequest, status: int = 200, problem: str = "") -> Response:
    """The page on which a person proves again who they are."""
    return request.page("prove.html", status, problem=problem, next=_next(request))


def prove_by_password(request: ConsoleRequest) -> Response:
    """Proves who the person is with password and code."""
    if wait := _wait(request, request.who.email):
        return show_proof(request, 429, TOO_MANY.format(wait))
    if not _is_password_right(request, request.who.email, lambda tx, _: prove(tx, request)):
        return show_proof(request, 401, WRONG_SIGN_IN)
    return redirect(_next(request))


def proof_options(request: ConsoleRequest) -> Response:
    """What the browser needs to prove a passkey of the person."""
    return json_response(request.credentials.authentication_options(request.origin, _purpose(request)).encode())


def prove_by_passkey(request: ConsoleRequest) -> Response:
    """Proves who the person is with a passkey of theirs."""
    if wait := _wait(request):
        return problem_json(TOO_MANY.format(wait), 429)
    with request.opened.store.write(request.opened.owner, request.now) as tx:
        person_id = request.credentials.find_by_passkey(tx, request.origin, passkey_answer(request), _purpose(request))
        if person_id == request.who.person_id:
            prove(tx, request)
    if person_id != request.who.person_id:
        return problem_json(WRONG_PASSKEY, 401)
    return go_json(_next(request))


def _start(tx: Transaction, request: ConsoleRequest, person_id: str, *, proved: bool = True) -> None:
    """Starts a session with a new secret, whatever cookie the browser has sent.

    `proved`: with a password or a passkey, so the next minutes need no second proof. An invitation proves nothing.
    """
    secret = new_token()
    note_sign_in(tx, person_id)
    session_hash = secret.secret_hash
    start_session(tx, person_id, session_hash, address=request.address, browser=request.browser, proved=proved)
    set_cookie(request, secret.secret)


def _is_password_right(request: ConsoleRequest, email: str, then: Callable[[Transaction, str], None]) -> bool:
    """Whether the form has the password and a code of a person. If so, it calls `then` with the person's id."""
    password, code = request.form.get("password", [""])[0][:500], request.text("code", 100)
    opened = request.opened
    return request.credentials.find_by_password(opened.store, opened.owner, email, password, code, then) is not None


def _purpose(request: ConsoleRequest) -> str:
    return f"prove {request.who.person_id}"


def _wait(request: ConsoleRequest, email: str = "") -> int:
    """The seconds to wait before another attempt of this address, or for this person, whether or not there is one."""
    limits = request.console.process.limits
    wait = limits.acquire(SIGN_INS_RULE, request.address)
    # An address that must wait counts against no person: otherwise one address could keep anybody out.
    if wait is not None or not email:
        return wait or 0
    # A person with a session has a limit of their own, so that strangers cannot use it up.
    name = email if request.session is None else f"{email} {request.session.session_id}"
    return limits.acquire(SIGN_INS_RULE, "person " + hashlib.sha256(name.encode()).hexdigest()) or 0


def _next(request: ConsoleRequest) -> str:
    path = request.query.get("next") or request.text("next")
    return safe_next(path, request.console.root)


def _bad_invitation(request: ConsoleRequest) -> Response:
    html = render(
        "outside.html", title="This invitation does not work", words=BAD_INVITATION, root=request.console.root
    )
    return Response(html, 404, media_type=HTML)
