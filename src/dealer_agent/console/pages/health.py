"""The health of a dealer's service, or of the installation: alerts, and the checks of `doctor`."""

import os
import threading

from starlette.responses import Response

from dealer_agent.alerts.texts import sentence_of
from dealer_agent.console.requests import ConsoleRequest, refuse
from dealer_agent.operations.checks import CheckResult, Examined
from dealer_agent.operations.doctor import examine
from dealer_agent.storage.alerts import list_alerts
from dealer_agent.storage.isolation import ALL_DEALERS

SHOWN = 100
SECONDS = 15.0
"""How long the checks of a page may take together."""

_one_at_a_time = threading.Lock()


def show(request: ConsoleRequest, results: list[CheckResult] | None = None) -> Response:
    """The alerts, the open ones first."""
    zone = "UTC" if request.dealer_of_path is None else request.dealer.profile.timezone
    owner = ALL_DEALERS if request.dealer_of_path is None else request.dealer.profile.id
    with request.opened.store.read(owner, request.now) as tx:
        found = [(state, sentence_of(state, zone)) for state in list_alerts(tx)[:SHOWN]]
    return request.page("health.html", alerts=found, results=results)


def check(request: ConsoleRequest) -> Response:
    """Runs the checks now. They change nothing, and send nothing."""
    if not _one_at_a_time.acquire(blocking=False):
        refuse("The checks are running already. Please try again in a few seconds.", 409)
    try:
        settings = None if request.dealer_of_path is None else request.dealer.settings
        examined = Examined(os.environ, request.now, request.opened.installation, settings)
        return show(request, examine(examined, seconds=SECONDS))
    finally:
        _one_at_a_time.release()
