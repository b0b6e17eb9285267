"""The people of a dealer: roles, invitations and sessions."""

from starlette.responses import Response

from dealer_agent.console.acts import ROLE_WORDS, ROLES
from dealer_agent.console.invitations import Listed, Members
from dealer_agent.console.requests import ConsoleRequest, not_found, refuse
from dealer_agent.storage.console.sign_ins import ConsoleSession, sessions_of
from dealer_agent.storage.console.sign_ins import end_session as end_stored
from dealer_agent.storage.privacy.accesses import log_access

ALL_ROOFTOPS = "*"


def list_(request: ConsoleRequest) -> Response:
    """All people of the dealer, and those who are invited."""
    with request.opened.store.read(request.opened.owner, request.now) as tx:
        people = _members(request).people(tx)
    return request.page("people.html", people=people)


def show_invite(request: ConsoleRequest) -> Response:
    """The form of an invitation."""
    return request.page("invite.html", roles=ROLES, role_words=ROLE_WORDS)


def invite(request: ConsoleRequest) -> Response:
    """Makes an invitation, and shows its link once."""
    role = request.text("role", 20)
    return _invited(request, request.text("email", 254), role, _rooftops(request, role))


def show(request: ConsoleRequest) -> Response:
    """One person: role, sessions, and what can be done."""
    listed, sessions, is_shared = _read(request)
    return request.page(
        "person.html",
        person=listed.person,
        of=listed.member,
        sessions=sessions,
        is_shared=is_shared,
        roles=ROLES,
        role_words=ROLE_WORDS,
    )


def set_role(request: ConsoleRequest) -> Response:
    """Gives a person another role."""
    listed, _, _ = _read(request)
    role = request.text("role", 20)
    _members(request).change(listed.person.person_id, role, _rooftops(request, role))
    _record(request, f"{listed.person.email} is {role} now")
    return request.go("people", said="role-changed")


def invite_again(request: ConsoleRequest) -> Response:
    """Invites a person again who has lost everything."""
    listed, _, _ = _read(request)
    return _invited(request, listed.person.email, listed.member.role, listed.member.rooftops)


def remove(request: ConsoleRequest) -> Response:
    """Removes a person from the dealer."""
    listed, _, _ = _read(request)
    _members(request).remove(listed.person.person_id)
    _record(request, f"{listed.person.email} is removed")
    return request.go("people", said="person-removed")


def end_session(request: ConsoleRequest) -> Response:
    """Ends a session of a person."""
    listed, sessions, _ = _read(request)
    chosen = request.text("session", 40)
    if all(each.session_id != chosen for each in sessions):
        not_found("There is no such session. It may have ended already.")
    with request.opened.store.write(request.opened.owner, request.now) as tx:
        end_stored(tx, listed.person.person_id, chosen)
    return request.go("people", listed.person.person_id, said="session-ended")


def _record(request: ConsoleRequest, what: str) -> None:
    """Adds to the access log what was done to a person: who may see customers is part of who saw them."""
    with request.dealer.lock() as tx:
        log_access(tx, request.actor, f"console: {what}", leads=0)


def _invited(request: ConsoleRequest, email: str, role: str, rooftops: tuple[str, ...]) -> Response:
    person, secret = _members(request).invite(email, role, rooftops, request.actor)
    _record(request, f"{person.email} is invited as {role}")
    link = request.origin.url + request.console.url("invitation", secret)
    return request.page("invited.html", person=person, link=link)


def _members(request: ConsoleRequest) -> Members:
    return Members(request.opened.store, request.opened.owner, request.dealer.profile.id)


def _rooftops(request: ConsoleRequest, role: str) -> tuple[str, ...]:
    """The rooftops of a salesperson; none for all. Nobody gets all rooftops because a name is not known any more."""
    names = {each.name for each in request.dealer.profile.rooftops}
    chosen = set(request.form.get("rooftop", ()))
    if role != "sales" or len(names) == 1 or ALL_ROOFTOPS in chosen:
        return ()
    if not chosen or not chosen <= names:
        refuse("Choose the rooftops of the salesperson, or all rooftops.")
    return tuple(sorted(chosen))


def _read(request: ConsoleRequest) -> tuple[Listed, list[ConsoleSession], bool]:
    """The person of the path, who belongs to the dealer, their sessions, and whether they belong to others too.

    The sessions of a person who also belongs to another dealer are not this dealer's.
    """
    members = _members(request)
    with request.opened.store.read(request.opened.owner, request.now) as tx:
        listed = next((each for each in members.people(tx) if each.person.person_id == request.params["person"]), None)
        if listed is None:
            not_found("There is no such person.")
        is_shared = members.is_shared(tx, listed.person.person_id)
        return listed, [] if is_shared else sessions_of(tx, listed.person.person_id), is_shared
