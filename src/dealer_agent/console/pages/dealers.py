"""The first page of a person, and the operator's page of all dealers."""

from starlette.responses import Response

from dealer_agent.alerts.texts import sentence_of
from dealer_agent.console.acts import OPERATOR
from dealer_agent.console.requests import ConsoleRequest, redirect
from dealer_agent.storage.alerts import list_alerts
from dealer_agent.storage.installation.dealer_registry import RegisteredDealer, all_dealers
from dealer_agent.storage.isolation import ALL_DEALERS

ON_A_PAGE = 20
"""The alerts of each dealer on the page are read."""


def start(request: ConsoleRequest) -> Response:
    """Leads to the only dealer of the person, or lists their dealers."""
    own = [each for each in request.memberships if each.for_dealer != ALL_DEALERS]
    is_operator = any(each.role == OPERATOR for each in request.memberships)
    if len(own) == 1 and not is_operator:
        return redirect(request.console.url("d", own[0].for_dealer))
    if is_operator and not own:
        return redirect(request.console.url("dealers"))
    return request.page("own_dealers.html", own=own, is_operator=is_operator)


def list_(request: ConsoleRequest) -> Response:
    """One page of the dealers whose id or name contains the text `q`."""
    text = request.query.get("q", "").strip().casefold()[:100]
    with request.opened.store.installation() as tx:
        dealers = [dealer for dealer in all_dealers(tx) if text in dealer.dealer_id or text in dealer.name.casefold()]
    page = request.page_number()
    shown = [(dealer, _open_alerts(request, dealer)) for dealer in dealers[(page - 1) * ON_A_PAGE : page * ON_A_PAGE]]
    return request.page("dealers.html", dealers=shown, total=len(dealers), page=page, sought=text, on_a_page=ON_A_PAGE)


def _open_alerts(request: ConsoleRequest, dealer: RegisteredDealer) -> list[str]:
    """What is wrong at a dealer now, in sentences without data of customers."""
    with request.opened.store.read(dealer.dealer_id, request.now) as tx:
        return [sentence_of(state, "UTC") for state in list_alerts(tx) if state.is_open]
