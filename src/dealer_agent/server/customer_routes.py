"""Answers requests for the pages behind the links in a customer's mail (docs/how-to/customer-links.md).

The token in the path is the only secret: there is no cookie and no login. GET changes nothing, because mail scanners
open links. The service logs neither the token nor the path.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from urllib.parse import parse_qs

import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dealer_agent.leads.customer_links import LinkPurpose, LinkTarget
from dealer_agent.leads.lead_view import RooftopView, rooftop_view
from dealer_agent.leads.mails import ways_to_reach
from dealer_agent.leads.wording import VISITS
from dealer_agent.protocol.timestamps import is_timestamp, parse_timestamp
from dealer_agent.server.body import ClientGoneError, read_body
from dealer_agent.server.pages.customer import contact_page, notice_page, visit_page
from dealer_agent.server.pages.site import FORM_SECURITY_POLICY, Site
from dealer_agent.server.service import BAD_TOKENS_RULE, Service
from dealer_agent.storage.errors import DealerUnknown, StorageError
from dealer_agent.visits.customer_actions import CustomerVisit
from dealer_agent.visits.customer_changes import EndReason, TimeNotFree, VisitIsOver

log = structlog.get_logger()

FORM_LIMIT_BYTES = 4 * 1024
"""The largest body of a form."""
MOST_FIELDS = 20
"""The most fields of a form."""

HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": FORM_SECURITY_POLICY,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-robots-tag": "noindex, nofollow",
}

_ENDED: Mapping[EndReason, tuple[str, str]] = {
    "begun": ("This visit can no longer be changed", "It has begun, or it is over."),
    "cancelled": ("This visit is cancelled", "It cannot be changed."),
    "moved": ("This visit was moved", "The newest mail about it has a link for its new time."),
    "gone": ("We no longer have any data about this visit", "You cannot change anything here."),
}

Form = Mapping[str, list[str]]


def customer_routes() -> list[Route]:
    """The two pages. The path of each is the purpose of its links."""
    return [
        Route(f"/{purpose}/{{token}}", partial(_answer, purpose=purpose), methods=["GET", "POST"])
        for purpose in ("visit", "contact")
    ]


async def _answer(request: Request, purpose: LinkPurpose) -> Response:
    service: Service = request.scope["service"]
    return await CustomerPages(service).answer(request, purpose)


class CustomerPages:
    """The pages of one dealer's customers."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._seconds = service.settings.service.request_timeout_seconds

    async def answer(self, request: Request, purpose: LinkPurpose) -> Response:
        """Shows, moves or cancels a visit, or withdraws consent by channel."""
        service = self._service
        link = service.links.read(purpose, request.path_params["token"])
        if link is None:
            await service.count_request(BAD_TOKENS_RULE, request.scope)
            return self._notice(404, None, "This link does not work", "Please copy the whole link from the mail.")
        try:
            form = await self._form(request) if request.method == "POST" else None
            # Leave the block before the response is sent: a client may read it slowly.
            with service.load:
                return await self._page_of_link(link, purpose, form)
        except ClientGoneError:
            return Response(status_code=400)
        except DealerUnknown:
            return self._notice(404, None, "This link does not work", "The dealer no longer uses this service.")
        except (StorageError, TimeoutError) as failure:
            log.error("customer page failed", error=type(failure).__qualname__)
            advice = "Please open the link again in a few minutes. The page then shows whether your change was made."
            return self._notice(503, None, "This page does not work at the moment", advice)

    async def _page_of_link(self, link: LinkTarget, purpose: LinkPurpose, form: Form | None) -> Response:
        """The page of a valid link: the customer's visit or contact permission. With `form`, it is changed first."""
        now = datetime.now(UTC)
        visit = await self._service.customers.see(link, now)
        if now >= link.until:
            return self._notice(410, visit.rooftop, "This link has expired", "You can no longer change anything here.")
        if visit.ended == "gone" or (purpose == "visit" and visit.ended is not None):
            return self._page_of_ended_visit(visit.rooftop, visit.ended)
        show = self._contact if purpose == "contact" else self._visit
        try:
            return await show(link, visit, form, now)
        except VisitIsOver as ended:
            # The visit has ended since it was read above.
            return self._page_of_ended_visit(visit.rooftop, ended.why)

    async def _visit(self, link: LinkTarget, visit: CustomerVisit, form: Form | None, now: datetime) -> Response:
        """Shows the visit with free times, or cancels or moves it if the customer sent the form."""
        if form is None:
            return self._page(200, visit_page, visit)
        customers = self._service.customers
        action, (start, *_) = form.get("do"), form.get("start", [""])
        if action == ["cancel"]:
            await customers.cancel(link, now, self._seconds)
            self._log("cancelled", link)
            title = f"Your {VISITS[visit.kind]} is cancelled"
            return self._notice(200, visit.rooftop, title, "Another customer can now book this time.")
        moment = parse_timestamp(start) if action == ["move"] and is_timestamp(start) else None
        if moment is None:
            return self._page(400, visit_page, visit, "Nothing was changed. Please choose a time.")
        try:
            appointment_id, ends_at = await customers.move(link, moment, now, self._seconds)
        except TimeNotFree:
            visit = await customers.see(link, now)
            if visit.ended is not None:
                return self._page_of_ended_visit(visit.rooftop, visit.ended)
            return self._page(409, visit_page, visit, "This time is no longer free. Please choose another one.")
        self._log("moved", link)
        path = self._service.links.path("visit", link.lead_id, appointment_id, ends_at)
        return Response(status_code=303, headers=HEADERS | {"location": Site(self._service.card).to(path)})

    async def _contact(self, link: LinkTarget, visit: CustomerVisit, form: Form | None, now: datetime) -> Response:
        """The page on which a customer withdraws channels, and the withdrawal."""
        if form is None:
            return self._page(200, contact_page, visit)
        if not form.get("channel"):
            return self._page(400, contact_page, visit, "Nothing was changed. Please choose at least one channel.")
        await self._service.customers.withdraw(link, form["channel"], now, self._seconds)
        self._log("consent withdrawn", link)
        return self._page(200, contact_page, await self._service.customers.see(link, now))

    async def _form(self, request: Request) -> Form:
        """The fields of a form; none if the body is not a form. Raises SchemaValidationFailed and ClientGoneError."""
        body = await read_body(request.receive, FORM_LIMIT_BYTES, self._seconds)
        try:
            return parse_qs(body.decode("ascii"), max_num_fields=MOST_FIELDS)
        except ValueError:
            return {}

    def _page_of_ended_visit(self, rooftop: RooftopView, why: EndReason) -> Response:
        return self._notice(410, rooftop, *_ENDED[why])

    def _notice(self, status: int, rooftop: RooftopView | None, title: str, what_happened: str) -> Response:
        """A page without a form. By default it has the contact details of the first rooftop."""
        profile = self._service.dealer.profile
        rooftop = rooftop or rooftop_view(profile, profile.rooftops[0].name)
        what_to_do = f"If you have a question, please {ways_to_reach(rooftop)}."
        return self._page(status, notice_page, rooftop, title, what_happened, what_to_do)

    def _page(self, status: int, render: Callable[..., str], *values: object) -> Response:
        html = render(self._service.card, self._service.dealer.profile.name, *values)
        return Response(html, status, HEADERS, media_type="text/html; charset=utf-8")

    def _log(self, action: str, link: LinkTarget) -> None:
        log.info("customer link used", did=action, lead=link.lead_id, appointment=link.appointment_id)
