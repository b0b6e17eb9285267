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
from dealer_agent.console.pages import (
    account,
    agents,
    ask,
    dealers,
    demand,
    erasures,
    exports,
    health,
    holds,
    leads,
    people,
    privacy,
    settings,
    sign_in,
    stock,
    stock_imports,
    today,
    visits,
)
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
    MenuItem(Act.SEE_TODAY, "", "Today"),
    MenuItem(Act.LIST_LEADS, "leads", "Leads"),
    MenuItem(Act.SEE_VISITS, "visits", "Visits"),
    MenuItem(Act.SEE_STOCK, "stock", "Stock"),
    MenuItem(Act.SEE_HOLDS, "holds", "Holds"),
    MenuItem(Act.SEE_AGENTS, "agents", "Agents"),
    MenuItem(Act.SEE_DEMAND, "demand", "Demand"),
    MenuItem(Act.ASK, "ask", "Ask"),
    MenuItem(Act.SEE_PRIVACY, "privacy", "Privacy"),
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
    _get("/d/{dealer}", Act.SEE_TODAY, today.show),
    _get("/d/{dealer}/leads", Act.LIST_LEADS, leads.list_),
    _post("/d/{dealer}/leads/search", Act.OPEN_LEAD, leads.search),
    _get("/d/{dealer}/leads/export", Act.EXPORT_LEADS, exports.show),
    _post("/d/{dealer}/leads/export", Act.EXPORT_LEADS, exports.download),
    _get("/d/{dealer}/leads/{lead}", Act.OPEN_LEAD, leads.show),
    _post("/d/{dealer}/leads/{lead}/mark", Act.WORK_ON_LEAD, leads.mark),
    _post("/d/{dealer}/leads/{lead}/note", Act.WORK_ON_LEAD, leads.note),
    _post("/d/{dealer}/leads/{lead}/send-again", Act.WORK_ON_LEAD, leads.send_again),
    _post("/d/{dealer}/leads/{lead}/retry", Act.WORK_ON_LEAD, leads.try_again),
    _post("/d/{dealer}/leads/{lead}/release", Act.DECIDE_QUARANTINE, leads.release),
    _post("/d/{dealer}/leads/{lead}/refuse", Act.DECIDE_QUARANTINE, leads.refuse_lead),
    _get("/d/{dealer}/leads/{lead}/erase", Act.ERASE_CUSTOMER, erasures.show_lead),
    _post("/d/{dealer}/leads/{lead}/erase", Act.ERASE_CUSTOMER, erasures.erase_lead),
    _post("/d/{dealer}/leads/{lead}/visit", Act.CHANGE_VISIT, visits.arrange),
    _get("/d/{dealer}/visits", Act.SEE_VISITS, visits.show),
    _post("/d/{dealer}/visits/{visit}/confirm", Act.CHANGE_VISIT, visits.confirm),
    _post("/d/{dealer}/visits/{visit}/move", Act.CHANGE_VISIT, visits.move),
    _post("/d/{dealer}/visits/{visit}/cancel", Act.CHANGE_VISIT, visits.cancel),
    _post("/d/{dealer}/visits/{visit}/done", Act.CHANGE_VISIT, visits.done),
    _post("/d/{dealer}/visits/{visit}/no-show", Act.CHANGE_VISIT, visits.no_show),
    _get("/d/{dealer}/privacy", Act.SEE_PRIVACY, privacy.show),
    _post("/d/{dealer}/privacy/find", Act.FIND_CUSTOMER, privacy.find),
    _post("/d/{dealer}/privacy/proof", Act.FIND_CUSTOMER, privacy.prove),
    # After a proof of who somebody is, the browser comes back with GET, without the form: the person begins again.
    _get("/d/{dealer}/privacy/export", Act.EXPORT_LEADS, privacy.show),
    _post("/d/{dealer}/privacy/export", Act.EXPORT_LEADS, privacy.export),
    _post("/d/{dealer}/privacy/withdraw", Act.WITHDRAW_CONSENT, privacy.withdraw),
    _get("/d/{dealer}/privacy/erase", Act.ERASE_CUSTOMER, privacy.show),
    _post("/d/{dealer}/privacy/erase", Act.ERASE_CUSTOMER, erasures.show_person),
    _get("/d/{dealer}/privacy/erase/confirmed", Act.ERASE_CUSTOMER, privacy.show),
    _post("/d/{dealer}/privacy/erase/confirmed", Act.ERASE_CUSTOMER, erasures.erase_person),
    _get("/d/{dealer}/privacy/log", Act.SEE_ACCESS_LOG, privacy.show_log),
    _get("/d/{dealer}/health", Act.SEE_HEALTH, health.show),
    _post("/d/{dealer}/health", Act.CHECK_HEALTH, health.check),
    _get("/d/{dealer}/settings", Act.SEE_SETTINGS, settings.show),
    _get("/d/{dealer}/settings/file", Act.CHANGE_SETTINGS, settings.show_file),
    _post("/d/{dealer}/settings/preview", Act.CHANGE_SETTINGS, settings.preview),
    _post("/d/{dealer}/settings/save", Act.CHANGE_SETTINGS, settings.save),
    _get("/d/{dealer}/settings/change", Act.CHANGE_SETTINGS, settings.show_change),
    _post("/d/{dealer}/settings/change", Act.CHANGE_SETTINGS, settings.change),
    _get("/d/{dealer}/settings/history", Act.SEE_SETTINGS, settings.history),
    _get("/d/{dealer}/settings/history/{number}", Act.SEE_SETTINGS, settings.show_number),
    _get("/d/{dealer}/stock", Act.SEE_STOCK, stock.list_),
    _get("/d/{dealer}/stock/unit", Act.SEE_STOCK, stock.show),
    _post("/d/{dealer}/stock/unit/release", Act.CHANGE_STOCK, stock.release),
    _post("/d/{dealer}/stock/unit/hide", Act.CHANGE_STOCK, stock.hide),
    _get("/d/{dealer}/stock/problems", Act.SEE_STOCK, stock.list_problems),
    _get("/d/{dealer}/stock/held", Act.SEE_STOCK, stock.list_held),
    _get("/d/{dealer}/stock/history", Act.SEE_STOCK, stock_imports.history),
    _get("/d/{dealer}/stock/history/{entry}", Act.SEE_STOCK, stock_imports.entry),
    _get("/d/{dealer}/stock/feeds", Act.SEE_STOCK, stock_imports.feeds),
    _post("/d/{dealer}/stock/feeds/refused", Act.CHANGE_STOCK, stock_imports.take_refused),
    _get("/d/{dealer}/stock/import", Act.CHANGE_STOCK, stock_imports.show_upload),
    _post("/d/{dealer}/stock/import", Act.CHANGE_STOCK, stock_imports.upload, upload_bytes=UPLOAD_BYTES),
    _get("/d/{dealer}/stock/import/{file}", Act.CHANGE_STOCK, stock_imports.show_staged),
    _post("/d/{dealer}/stock/import/{file}", Act.CHANGE_STOCK, stock_imports.import_staged),
    _post("/d/{dealer}/stock/import/{file}/again", Act.CHANGE_STOCK, stock_imports.try_again),
    _post("/d/{dealer}/stock/import/{file}/discard", Act.CHANGE_STOCK, stock_imports.discard),
    _get("/d/{dealer}/stock/undo", Act.CHANGE_STOCK, stock_imports.show_undo),
    _post("/d/{dealer}/stock/undo", Act.CHANGE_STOCK, stock_imports.undo),
    _get("/d/{dealer}/holds", Act.SEE_HOLDS, holds.list_),
    _get("/d/{dealer}/holds/{offer}", Act.SEE_HOLDS, holds.show),
    _post("/d/{dealer}/holds/{offer}/extend", Act.CHANGE_HOLD, holds.extend),
    _post("/d/{dealer}/holds/{offer}/end", Act.CHANGE_HOLD, holds.end),
    _get("/d/{dealer}/agents", Act.SEE_AGENTS, agents.list_),
    _get("/d/{dealer}/agents/agent", Act.SEE_AGENTS, agents.show),
    _post("/d/{dealer}/agents/policy", Act.CHANGE_POLICY, agents.set_policy),
    _get("/d/{dealer}/agents/tokens", Act.SEE_AGENTS, agents.show_tokens),
    _post("/d/{dealer}/agents/tokens", Act.CHANGE_TOKENS, agents.create_token),
    _post("/d/{dealer}/agents/tokens/revoke", Act.CHANGE_TOKENS, agents.revoke_token),
    _get("/d/{dealer}/demand", Act.SEE_DEMAND, demand.show),
    _get("/d/{dealer}/ask", Act.ASK, ask.show),
    _post("/d/{dealer}/ask", Act.ASK, ask.ask),
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
        if match := route.pattern.match(path):
            if route.method == wanted:
                return route, match.groupdict()
            allowed.add(route.method)
    if allowed:
        return Response(status_code=405, headers={"allow": ", ".join(sorted(allowed))})
    return Response(status_code=404)


def page_of(path: str) -> str:
    """The page that has the form of a path: the path itself, or the nearest page above it."""
    while isinstance(find_route("GET", path), Response):
        path = path.rpartition("/")[0] or "/"
    return path
