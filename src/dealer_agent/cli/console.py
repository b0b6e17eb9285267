"""`dealer-agent console`: the people who sign in to the console of a dealer, or of the installation."""

from typing import Annotated, Any

import typer

from dealer_agent.cli.command import command
from dealer_agent.cli.open_dealer import OWNER, Owner
from dealer_agent.cli.tables import Table
from dealer_agent.cli.terminal import err, fail, out, plain
from dealer_agent.console.acts import OPERATOR, ROLE_WORDS, ROLES
from dealer_agent.console.invitations import VALID, Members
from dealer_agent.protocol.did_you_mean import did_you_mean
from dealer_agent.storage.console.people import Person

app = typer.Typer(no_args_is_help=True)


def _role(text: str) -> str:
    roles = [*ROLES, OPERATOR]
    if text not in roles:
        raise typer.BadParameter(f"'{text}' must be one of {', '.join(roles)}{did_you_mean(text, roles)}")
    return text


EmailArgument = Annotated[str, typer.Argument(metavar="EMAIL", help="The person's e-mail address.")]


@command(app, "invite", OWNER)
def invite(
    owner: Owner,
    email: EmailArgument,
    role: Annotated[
        str,
        typer.Option(callback=_role, help="; ".join(f"{name}: {words}" for name, words in ROLE_WORDS.items()) + "."),
    ],
    rooftop: Annotated[
        list[str], typer.Option(metavar="NAME", help="A rooftop of a salesperson. Repeat it. Default: all.")
    ] = [],  # noqa: B006 - Typer needs it.
) -> dict[str, Any]:
    """Invite a person to the console, and print the link once. It works once, for a day.

    Somebody who has lost everything is invited again: the new link replaces what they signed in with.
    """
    if unknown := [name for name in rooftop if name not in owner.rooftops]:
        names = ", ".join(owner.rooftops) or "none"
        raise typer.BadParameter(f"'{unknown[0]}' is not a rooftop of the dealer: {names}", param_hint="--rooftop")
    # Imported here: the other commands need no server.
    from dealer_agent.server.served_dealers import CONSOLE

    person, secret = _members(owner).invite(email, role, rooftop, "dealer-agent console invite")
    err.print(f"Send this link to {plain(person.email)}. It is shown this once, and works once, for {VALID.days} day.")
    link = f"{owner.console_url}{CONSOLE}/invitation/{secret}"
    out.print(link, soft_wrap=True)
    return {"email": person.email, "role": role, "rooftops": rooftop, "link": link}


@command(app, "people", OWNER)
def people(owner: Owner) -> Table:
    """List the people of the dealer. Without --dealer, the operators of an installation."""
    members = _members(owner)
    with owner.store.read(members.owner) as tx:
        listed = members.people(tx)
    rows = [
        (
            person.email,
            member.role,
            ", ".join(member.rooftops) or "all",
            owner.local(person.signed_in_at),
            owner.local(until),
        )
        for person, member, until in listed
    ]
    columns = ("E-mail", "Role", "Rooftops", "Signed in", "Invited until")
    return Table(
        "People",
        columns,
        rows,
        empty="Nobody is invited yet. To invite a person, type: dealer-agent console invite EMAIL --role owner",
    )


@command(app, "remove", OWNER)
def remove(owner: Owner, email: EmailArgument) -> dict[str, Any]:
    """Remove a person. Their sessions end at once."""
    members = _members(owner)
    person = _find(owner, members, email)
    members.remove(person.person_id)
    out.print(f"{plain(person.email)} is removed.")
    return {"email": person.email}


def _members(owner: Owner) -> Members:
    return Members(owner.store, owner.rows, owner.id, by_operator=True)


def _find(owner: Owner, members: Members, email: str) -> Person:
    with owner.store.read(members.owner) as tx:
        people = {each.person.email: each.person for each in members.people(tx)}
    if email.lower() not in people:
        fail(f"There is no person {plain(email)}{did_you_mean(email, list(people))}: see dealer-agent console people")
    return people[email.lower()]
