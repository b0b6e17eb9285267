"""The routes of the console: each has its path, the act that it is, and the function that answers.

The matrix of all routes and roles is made from this table (`tests/console/test_matrix.py`).
"""

from dataclasses import dataclass
from functools import cached_property
from re import Pattern
from typing import NamedTuple

from starlette.responses import Response
from starlette.routing import compile_path

from dealer_agent.console.acts import Act
from dealer_agent.console.pages import account, dealers, health, people, settings, sign_in
from dealer_agent.console.requests import Handler

UPLOAD_BYTES = 256 << 20
"""The largest file that is dropped into a page. A larger one comes as a feed."""


@dataclass(frozen=True)
class Route:
    """A route. `{dealer}` in its path is a dealer, and makes it a page of this dealer.

    With `upload_bytes`, its form may have a file. With `is_json`, its body is JSON. `starts`: a person who was invited
    and cannot sign in yet may use it.
    """

    method: str
    path: str
    act: Act
    handler: Handler
    upload_bytes: int = 0
    is_json: bool = False
    starts: bool = False

    @cached_property
    def pattern(self) -> Pattern[str]:
        """The expression of its paths."""
        return compile_path(self.path)[0]


def _get(path: str, act: Act, handler: Handler, *, starts: bool = False) -> Route:
    return Route("GET", path, act, handler, starts=starts)


def _post(
    path: str, act: Act, handler: Handler, *, upload_bytes: int = 0, is_json: bool = False, starts: bool = False
) -> Route:
    return Route("POST", path, act, handler, upload_bytes, is_json, starts)


class MenuItem(NamedTuple):
    """A page of a dealer in the menu: the act, the first part of its path, and its name."""

    act: Act
    part: str
    label: str


MENU = (
    MenuItem(Act.SEE_SETTINGS, "settings", "Settings"),
    MenuItem(Act.SEE_PEOPLE, "people", "People"),
    MenuItem(Act.SEE_HEALTH, "health", "Health"),
)

ROUTES = (
    _get("/static/{name}", Act.SIGN_IN, sign_in.static_file),
    _get("/sign-in", Act.SIGN_IN, sign_in.show),
    _post("/sign-in", Act.SIGN_IN, sign_in.by_password),
    _post("/sign-in/passkey/options", Act.SIGN_IN, sign_in.passkey_options, is_json=True),
    _post("/sign-in/passkey", Act.SIGN_IN, sign_in.by_passkey, is_json=True),
    _get("/recover", Act.SIGN_IN, sign_in.show_recovery),
    _post("/recover", Act.SIGN_IN, sign_in.by_recovery_code),
    _get("/invitation/{token}", Act.SIGN_IN, sign_in.show_invitation),
    _post("/invitation/{token}", Act.SIGN_IN, sign_in.accept_invitation),
    _post("/sign-out", Act.OWN_ACCOUNT, sign_in.sign_out, starts=True),
    _get("/prove", Act.OWN_ACCOUNT, sign_in.show_proof),
    _post("/prove", Act.OWN_ACCOUNT, sign_in.prove_by_password),
    _post("/prove/passkey/options", Act.OWN_ACCOUNT, sign_in.proof_options, is_json=True),
    _post("/prove/passkey", Act.OWN_ACCOUNT, sign_in.prove_by_passkey, is_json=True),
    _get("/account", Act.OWN_ACCOUNT, account.show, starts=True),
    _post("/account/passkey/options", Act.OWN_CREDENTIALS, account.passkey_options, is_json=True, starts=True),
    _post("/account/passkey", Act.OWN_CREDENTIALS, account.add_passkey, is_json=True, starts=True),
    _post("/account/passkey/remove", Act.OWN_CREDENTIALS, account.remove_passkey),
    _get("/account/password", Act.OWN_CREDENTIALS, account.show_password, starts=True),
    _post("/account/password", Act.OWN_CREDENTIALS, account.set_password, starts=True),
    _post("/account/codes", Act.OWN_CREDENTIALS, account.new_codes, starts=True),
    _post("/account/session/end", Act.OWN_ACCOUNT, account.end_session),
    _get("/", Act.OWN_ACCOUNT, dealers.start),
    _get("/dealers", Act.SEE_DEALERS, dealers.list_),
    _get("/health", Act.SEE_DEALERS, health.show),
    _post("/health", Act.SEE_DEALERS, health.check),
    _get("/d/{dealer}/health", Act.SEE_HEALTH, health.show),
    _post("/d/{dealer}/health", Act.SEE_HEALTH, health.check),
    _get("/d/{dealer}/settings", Act.SEE_SETTINGS, settings.show),
    _get("/d/{dealer}/settings/file", Act.CHANGE_SETTINGS, settings.show_file),
    _post("/d/{dealer}/settings/preview", Act.CHANGE_SETTINGS, settings.preview),
    _post("/d/{dealer}/settings/save", Act.CHANGE_SETTINGS, settings.save),
    _get("/d/{dealer}/settings/change", Act.CHANGE_SETTINGS, settings.show_change),
    _post("/d/{dealer}/settings/change", Act.CHANGE_SETTINGS, settings.change),
    _get("/d/{dealer}/settings/history", Act.SEE_SETTINGS, settings.history),
    _get("/d/{dealer}/settings/history/{number}", Act.SEE_SETTINGS, settings.show_number),
    _get("/d/{dealer}/people", Act.SEE_PEOPLE, people.list_),
    _get("/d/{dealer}/people/invite", Act.CHANGE_PEOPLE, people.show_invite),
    _post("/d/{dealer}/people/invite", Act.CHANGE_PEOPLE, people.invite),
    _get("/d/{dealer}/people/{person}", Act.CHANGE_PEOPLE, people.show),
    _post("/d/{dealer}/people/{person}/role", Act.CHANGE_PEOPLE, people.set_role),
    _post("/d/{dealer}/people/{person}/invite", Act.CHANGE_PEOPLE, people.invite_again),
    _post("/d/{dealer}/people/{person}/remove", Act.CHANGE_PEOPLE, people.remove),
    _post("/d/{dealer}/people/{person}/session/end", Act.CHANGE_PEOPLE, people.end_session),
)
"""All routes. The first one whose path matches answers."""


def find_route(method: str, path: str) -> tuple[Route, dict[str, str]] | Response:
    """The route of a request, and the parts of its path. A response with 404 or 405 if there is none."""
    wanted = "GET" if method == "HEAD" else method
    allowed = set()
    for route in ROUTES:
        if found := route.pattern.match(path):
            if route.method == wanted:
                return route, found.groupdict()
            allowed.add(route.method)
    if allowed:
        return Response(status_code=405, headers={"allow": ", ".join(sorted(allowed))})
    return Response(status_code=404)
