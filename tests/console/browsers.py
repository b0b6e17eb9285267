"""People at the console of a running dealership, without a browser program: their session is stored directly."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

import httpx
from tests.server.dealership import Dealership

from dealer_agent.console.cookies import COOKIE
from dealer_agent.server.tokens import new_token
from dealer_agent.storage.console.people import Person, add_person, find_by_email, set_membership
from dealer_agent.storage.console.sign_ins import start_session
from dealer_agent.storage.store import Store

ORIGIN = "https://agent.test"
DEALER = "test-motors"
ROOT = f"/console/d/{DEALER}"
FORM = "application/x-www-form-urlencoded"


@dataclass
class Browser:
    """The browser of a person. `secret` is in its cookie; without one, nobody is signed in."""

    on: Dealership
    secret: str = ""
    origin: str = ORIGIN

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.send("GET", path, None, headers)

    def post(self, path: str, form: Mapping[str, str | Sequence[str]] | None = None, **headers: str) -> httpx.Response:
        """Sends a form from a page of the console."""
        content = urlencode(form or {}, doseq=True).encode()
        return self.send("POST", path, content, {"content-type": FORM, "origin": self.origin, **headers})

    def send(self, method: str, path: str, content: bytes | None, headers: Mapping[str, str]) -> httpx.Response:
        cookie = {"cookie": f"{COOKIE}={self.secret}"} if self.secret else {}
        return self.on.request(
            method, path, content=content, headers={"host": urlsplit(self.origin).netloc, **cookie, **headers}
        )


def add_member(
    store: Store, role: str, *, email: str = "", dealer: str = DEALER, owner: str = DEALER, rooftops: Sequence[str] = ()
) -> Person:
    """A person with a role, who signs in with a password that no test knows."""
    with store.write(owner) as tx:
        address = email or f"{role}@example.com"
        person = find_by_email(tx, address) or add_person(tx, address)
        set_membership(tx, person.person_id, dealer, role, rooftops)
    return person


def sign_in(
    on: Dealership, store: Store, person: Person, *, owner: str = DEALER, origin: str = ORIGIN, proved: bool = True
) -> Browser:
    """A browser in which the person has a session."""
    secret = new_token()
    with store.write(owner) as tx:
        hashed = secret.secret_hash
        start_session(tx, person.person_id, hashed, address="198.51.100.7", browser="Test browser", proved=proved)
    return Browser(on, secret.secret, origin)
