"""Leads as a file: one lead, or those of a filter."""

from io import BytesIO

from starlette.responses import Response

from dealer_agent.console.pages.lead_rows import require_lead
from dealer_agent.console.pages.leads import chosen_of, filter_of
from dealer_agent.console.requests import ConsoleRequest, refuse
from dealer_agent.operations.lead_export import WRITERS, Format, choose_leads, views_of, write_file

MOST = 1_000
"""The most leads in a file. More would keep agents waiting: `dealer-agent leads export` has no such limit."""
TYPES: dict[Format, str] = {
    "csv": "text/csv; charset=utf-8",
    "json": "application/json",
    "adf": "application/xml",
}


def show(request: ConsoleRequest) -> Response:
    """Asks for the format of the file."""
    lead_id = request.query.get("lead", "")[:40]
    return request.page("export.html", chosen=chosen_of(request, request.query), lead_id=lead_id, most=MOST)


def download(request: ConsoleRequest) -> Response:
    """The file. The access log says how many leads it has."""
    form = next((each for each in WRITERS if each == request.text("format", 10)), None)
    lead_id = request.text("lead", 40)
    if form is None:
        refuse("Choose a format.")
    if lead_id:
        with request.of.read(request.now) as tx:
            require_lead(request, tx, lead_id)
        chosen = [lead_id]
    else:
        given = {name: request.text(name, 200) for name in ("state", "mark", "days", "agent")}
        chosen = choose_leads(request.of, filter_of(request, chosen_of(request, given)), MOST).lead_ids[-MOST:]
    if not chosen:
        refuse("There is no lead to export: choose others.")
    request.record_access(f"export as {form}", leads=len(chosen), lead_id=lead_id or None)
    document = BytesIO()
    write_file(form, views_of(request.of, chosen), document)
    name = f"leads-{request.of.local(request.now):%Y-%m-%d}.{'xml' if form == 'adf' else form}"
    headers = {"content-disposition": f'attachment; filename="{name}"', "content-type": TYPES[form]}
    return Response(document.getvalue(), headers=headers)
