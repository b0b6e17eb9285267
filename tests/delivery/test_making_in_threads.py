"""A document is made beside the event loop: whoever asks meanwhile is answered."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import cast

import httpx
import pytest
from tests.delivery.receivers import NOBODY
from tests.delivery.samples import parcel

from dealer_agent.delivery.directory import DirectoryOutlet
from dealer_agent.delivery.http import HttpOutlet
from dealer_agent.delivery.outlet import NotDelivered, Outlet, Parcel
from dealer_agent.delivery.smtp import CrmMailOutlet, MailServer, PeopleMailOutlet
from dealer_agent.leads.lead_view import LeadView

SERVER = MailServer(
    host="127.0.0.1",
    port=NOBODY,
    security="none",
    from_address="leads@example.com",
    from_name="Ridgeline",
    timeout_seconds=120,
)
TO = ("crm@example.com",)


Render = Callable[[LeadView], bytes]


@pytest.mark.parametrize(
    "outlet_of",
    [
        pytest.param(lambda render, folder, _: DirectoryOutlet(folder, "xml", render), id="directory"),
        pytest.param(
            lambda render, _, client: HttpOutlet(client, f"http://127.0.0.1:{NOBODY}", "application/xml", render, 120),
            id="http",
        ),
    ],
)
def test_what_an_outlet_renders_it_renders_in_a_thread(
    tmp_path: Path, outlet_of: Callable[[Render, Path, httpx.AsyncClient], Outlet]
) -> None:
    makers = []

    def render(_: LeadView) -> bytes:
        makers.append(threading.get_ident())
        return b"<adf/>"

    async def sending() -> None:
        async with httpx.AsyncClient() as client:
            with suppress(NotDelivered):
                await outlet_of(render, tmp_path, client).send(parcel())

    asyncio.run(sending())
    assert len(makers) == 1
    assert threading.get_ident() not in makers


@pytest.mark.parametrize("kind", [CrmMailOutlet, PeopleMailOutlet])
def test_what_is_mailed_is_made_in_a_thread(kind: type[CrmMailOutlet | PeopleMailOutlet]) -> None:
    readers: set[int] = set()

    class Watched:
        delivery_id = "D1"
        event_id = None

        @property
        def view(self) -> LeadView:
            readers.add(threading.get_ident())
            return parcel().view

    with pytest.raises(NotDelivered):
        asyncio.run(kind(SERVER, TO).send(cast(Parcel, Watched())))
    assert readers
    assert threading.get_ident() not in readers
