"""The pages behind the links in a customer's mail (docs/how-to/customer-links.md).

The token in the path is the only secret: there is no cookie and no login. GET changes nothing, because mail scanners
open links. The service logs neither the token nor the path.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import parse_qs

import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dealer_agent.lead_intake.customer_actions import CustomerVisit, Ended, NotFree, VisitEnded
from dealer_agent.lead_intake.rooftop_views import rooftop_view
from dealer_agent.leads.customer_links import Linked, Purpose
from dealer_agent.leads.lead_view import RooftopView
from dealer_agent.leads.mails import ways_to_reach
from dealer_agent.leads.wording import VISITS
from dealer_agent.protocol.formats import is_timestamp, parse_timestamp
from dealer_agent.server.body import ClientGoneError, read_body
from dealer_agent.server.client_identity import caller_of, count_bad_token
from dealer_agent.server.pages import FORM_SECURITY_POLICY, contact_page, notice_page, visit_page
from dealer_agent.server.pages.site import Site
from dealer_agent.server.service import Service
from dealer_agent.storage.errors import StorageError

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

_ENDED: Mapping[Ended, tuple[str, str]] = {
    "begun": ("This visit can no longer be changed", "It has begun, or it is over."),
    "cancelled": ("This visit is cancelled", "It cannot be changed."),
    "moved": ("This visit was moved", "The newest mail about it has a link for its new time."),
    "gone": ("We no longer have any data about this visit", "You cannot change anything here."),
}

Form = Mapping[str, list[str]]


def customer_routes(service: Service) -> list[Route]:
    """The two pages. The path of each is the purpose of its links."""
    pages = CustomerPages(service)
    methods = ["GET", "POST"]
    return [
        Route("/visit/{token}", pages.visit, methods=methods),
        Route("/contact/{token}", pages.contact, methods=methods),
    ]


class CustomerPages:
    """The request handlers of both pages."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._seconds = service.settings.service.request_timeout_seconds

    async def visit(self, request: Request) -> Response:
        """See, move or cancel a visit."""
        return await self._answer(request, "visit")

    async def contact(self, request: Request) -> Response:
        """Withdraw consent by channel."""
        return await self._answer(request, "contact")

    async def _answer(self, request: Request, purpose: Purpose) -> Response:
        service = self._service
        linked = service.links.read(purpose, request.path_params["token"])
        if linked is None:
            count_bad_token(service, caller_of(request.scope, service))
            said = "Please copy the whole link from the mail."
            return self._notice(404, self._first_rooftop(), "This link does not work", said)
        try:
            form = await self._form(request) if request.method == "POST" else None
            # Leave the block before the response is sent: a client may read it slowly.
            with service.load:
                return await self._linked(linked, purpose, form)
        except ClientGoneError:
            return Response(status_code=400)
        except (StorageError, TimeoutError) as failure:
            log.error("customer page failed", error=type(failure).__qualname__)
            said = "Please open the link again in a few minutes. The page then shows whether your change was made."
            return self._notice(503, self._first_rooftop(), "This page does not work at the moment", said)

    async def _linked(self, linked: Linked, purpose: Purpose, form: Form | None) -> Response:
        now = datetime.now(UTC)
        visit = await self._service.customers.see(linked, now)
        if now >= linked.until:
            return self._notice(410, visit.rooftop, "This link has expired", "You can no longer change anything here.")
        try:
            if purpose == "contact":
                return await self._contact(linked, visit, form, now)
            return await self._visit(linked, visit, form, now)
        except VisitEnded as ended:
            # It ended since it was read.
            return self._ended(visit.rooftop, ended.why)

    async def _visit(self, linked: Linked, visit: CustomerVisit, form: Form | None, now: datetime) -> Response:
        if visit.ended is not None:
            return self._ended(visit.rooftop, visit.ended)
        if form is None:
            return self._visit_page(200, visit)
        customers, links = self._service.customers, self._service.links
        did, (start, *_) = form.get("do"), form.get("start", [""])
        if did == ["cancel"]:
            await customers.cancel(linked, now, self._seconds)
            self._log("cancelled", linked)
            title = f"Your {VISITS[visit.kind]} is cancelled"
            return self._notice(200, visit.rooftop, title, "Another customer can now book this time.")
        moment = parse_timestamp(start) if did == ["move"] and is_timestamp(start) else None
        if moment is None:
            return self._visit_page(400, visit, "Nothing was changed. Please choose a time.")
        try:
            appointment_id, ends_at = await customers.move(linked, moment, now, self._seconds)
        except NotFree:
            visit = await customers.see(linked, now)
            if visit.ended is not None:
                return self._ended(visit.rooftop, visit.ended)
            return self._visit_page(409, visit, "This time is no longer free. Please choose another one.")
        self._log("moved", linked)
        return self._see_other(links.path("visit", linked.lead_id, appointment_id, ends_at))

    async def _contact(self, linked: Linked, visit: CustomerVisit, form: Form | None, now: datetime) -> Response:
        if visit.ended == "gone":
            return self._ended(visit.rooftop, visit.ended)
        facts, dealer = self._service.card, self._service.dealer.profile.name
        if form is None:
            return self._html(200, contact_page(facts, dealer, visit))
        if not form.get("channel"):
            said = "Nothing was changed. Please choose at least one channel."
            return self._html(400, contact_page(facts, dealer, visit, said))
        await self._service.customers.withdraw(linked, form["channel"], now, self._seconds)
        self._log("consent withdrawn", linked)
        return self._html(200, contact_page(facts, dealer, await self._service.customers.see(linked, now)))

    async def _form(self, request: Request) -> Form:
        """The fields of a form; none if the body is not a form. Raises SchemaValidationFailed and ClientGoneError."""
        body = await read_body(request.receive, FORM_LIMIT_BYTES, self._seconds)
        try:
            return parse_qs(body.decode("ascii"), max_num_fields=MOST_FIELDS)
        except ValueError:
            return {}

    def _visit_page(self, status: int, visit: CustomerVisit, problem: str | None = None) -> Response:
        service = self._service
        return self._html(status, visit_page(service.card, service.dealer.profile.name, visit, problem))

    def _ended(self, rooftop: RooftopView, why: Ended) -> Response:
        return self._notice(410, rooftop, *_ENDED[why])

    def _notice(self, status: int, rooftop: RooftopView, title: str, said: str) -> Response:
        what_to_do = f"If you have a question, please {ways_to_reach(rooftop)}."
        service = self._service
        page = notice_page(service.card, service.dealer.profile.name, rooftop, title, said, what_to_do)
        return self._html(status, page)

    def _first_rooftop(self) -> RooftopView:
        profile = self._service.dealer.profile
        return rooftop_view(profile, profile.rooftops[0].name)

    def _html(self, status: int, page: str) -> Response:
        return Response(page, status, HEADERS, media_type="text/html; charset=utf-8")

    def _see_other(self, path: str) -> Response:
        return Response(status_code=303, headers=HEADERS | {"location": Site(self._service.card).to(path)})

    def _log(self, did: str, linked: Linked) -> None:
        log.info("customer link used", did=did, lead=linked.lead_id, appointment=linked.appointment_id)
