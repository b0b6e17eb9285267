"""The people of a dealer: roles, invitations and sessions."""

from starlette.responses import Response

from dealer_agent.console.acts import ROLE_WORDS, ROLES
from dealer_agent.console.invitations import Members
from dealer_agent.console.requests import IDLE, ConsoleRequest, not_found
from dealer_agent.storage.console.people import Membership, Person, find_person, members_of
from dealer_agent.storage.console.sign_ins import Session, list_invitations, sessions_of
from dealer_agent.storage.console.sign_ins import end_session as end_stored


def list_(request: ConsoleRequest) -> Response:
    """All people of the dealer."""
    with request.opened.store.read(request.opened.owner, request.now) as tx:
        members = members_of(tx, request.of.profile.id)
        found = [(person, each) for each in members if (person := find_person(tx, each.person_id)) is not None]
        invited = {each.person_id: each.expires_at for each in list_invitations(tx)}
    return request.page("people.html", people=sorted(found, key=lambda each: each[0].email), invited=invited)


def show_invite(request: ConsoleRequest) -> Response:
    """The form of an invitation."""
    return request.page("invite.html", roles=ROLES, role_words=ROLE_WORDS)


def invite(request: ConsoleRequest) -> Response:
    """Makes an invitation, and shows its link once."""
    return _invited(request, request.text("email", 254), request.text("role", 20), _rooftops(request))


def show(request: ConsoleRequest) -> Response:
    """One person: role, sessions, and what can be done."""
    person, member, sessions = _read(request)
    return request.page("person.html", person=person, of=member, sessions=sessions, roles=ROLES, role_words=ROLE_WORDS)


def set_role(request: ConsoleRequest) -> Response:
    """Gives a person another role."""
    person, _, _ = _read(request)
    _members(request).change(person.person_id, request.text("role", 20), _rooftops(request))
    return request.go("people", said="role-changed")


def invite_again(request: ConsoleRequest) -> Response:
    """Invites a person again who has lost everything."""
    person, member, _ = _read(request)
    return _invited(request, person.email, member.role, member.rooftops)


def remove(request: ConsoleRequest) -> Response:
    """Removes a person from the dealer."""
    person, _, _ = _read(request)
    _members(request).remove(person.person_id)
    return request.go("people", said="person-removed")


def end_session(request: ConsoleRequest) -> Response:
    """Ends a session of a person."""
    person, _, _ = _read(request)
    with request.opened.store.write(request.opened.owner, request.now) as tx:
        end_stored(tx, person.person_id, request.text("session", 40))
    return request.go("people", person.person_id, said="session-ended")


def _invited(request: ConsoleRequest, email: str, role: str, rooftops: tuple[str, ...]) -> Response:
    person, secret = _members(request).invite(email, role, rooftops, request.actor)
    link = request.place.origin + request.console.url("invitation", secret)
    return request.page("invited.html", person=person, link=link)


def _members(request: ConsoleRequest) -> Members:
    return Members(request.opened.store, request.opened.owner, request.of.profile.id)


def _rooftops(request: ConsoleRequest) -> tuple[str, ...]:
    """The rooftops of the form that the dealer has."""
    return tuple(each.name for each in request.of.profile.rooftops if each.name in request.form.get("rooftop", ()))


def _read(request: ConsoleRequest) -> tuple[Person, Membership, list[Session]]:
    """The person of the path, who belongs to the dealer."""
    with request.opened.store.read(request.opened.owner, request.now) as tx:
        person = find_person(tx, request.params["person"])
        members = members_of(tx, request.of.profile.id)
        member = next((each for each in members if person is not None and each.person_id == person.person_id), None)
        if person is None or member is None:
            not_found("There is no such person.")
        return person, member, sessions_of(tx, person.person_id, IDLE)
