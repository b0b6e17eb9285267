"""Leads as a file: one lead, or those of a filter."""

from io import BytesIO

from starlette.responses import Response

from dealer_agent.console.pages.lead_rows import require_lead
from dealer_agent.console.pages.leads import chosen_of, filter_of
from dealer_agent.console.requests import ConsoleRequest, refuse
from dealer_agent.operations.lead_export import WRITERS, Format, choose_leads, views_of, write_file

MOST = 1_000
"""The most leads in a file, because agents wait while it is made. `dealer-agent leads export` has no such limit."""
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
    """Returns the file. The access log gets the number of its leads."""
    file_format = next((writer for writer in WRITERS if writer == request.text("format", 10)), None)
    lead_id = request.text("lead", 40)
    if file_format is None:
        refuse("Choose a format.")
    if lead_id:
        with request.dealer.read(request.now) as tx:
            require_lead(request, tx, lead_id)
        chosen = [lead_id]
    else:
        query = {name: request.text(name, 200) for name in ("state", "mark", "days", "agent")}
        chosen = choose_leads(request.dealer, filter_of(request, chosen_of(request, query)), MOST).lead_ids[-MOST:]
    if not chosen:
        refuse("There is no lead to export: choose others.")
    request.record_access(f"export as {file_format}", leads=len(chosen), lead_id=lead_id or None)
    document = BytesIO()
    write_file(file_format, views_of(request.dealer, chosen), document)
    name = f"leads-{request.dealer.local(request.now):%Y-%m-%d}.{'xml' if file_format == 'adf' else file_format}"
    headers = {"content-disposition": f'attachment; filename="{name}"', "content-type": TYPES[file_format]}
    return Response(document.getvalue(), headers=headers)
