"""The lease of a delivery is renewed just before the document leaves: an attempt that lost it sends nothing."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from tests.acceptance.running import eventually
from tests.delivery.receivers import HttpReceiver, MailReceiver, always, receiving_http, receiving_mail
from tests.delivery.samples import parcel

from dealer_agent.config.settings import MailSettings
from dealer_agent.delivery import attempt as leases
from dealer_agent.delivery.attempt import Lease, NotDelivered
from dealer_agent.delivery.mail_server import MailServer
from dealer_agent.delivery.outlet import FORMATS, Outlet
from dealer_agent.delivery.outlets.folder import UNFINISHED, FolderOutlet
from dealer_agent.delivery.outlets.http import HttpOutlet
from dealer_agent.delivery.outlets.mail import CrmMailOutlet
from dealer_agent.storage.errors import AlreadyStored, DatabaseBusy, LeaseLost
from dealer_agent.storage.leads.lead_write import WriteFunction

pytestmark = pytest.mark.outside_protocol("deliveries of several processes")

SECONDS = 300


class Place(NamedTuple):
    """An outlet, what has arrived, and whether the attempt has reached the receiver."""

    outlet: Outlet
    arrived: Callable[[], list[Any]]
    is_reached: Callable[[], bool]


@asynccontextmanager
async def by_http(_: Path) -> AsyncIterator[Place]:
    with receiving_http(HttpReceiver(always("keep"))) as receiver:
        async with httpx.AsyncClient() as client:
            outlet = HttpOutlet(client=client, url=receiver.url, format=FORMATS["adf"], timeout_seconds=120)
            yield Place(outlet, lambda: receiver.taken, lambda: receiver.connections > 0)


@asynccontextmanager
async def by_mail(_: Path) -> AsyncIterator[Place]:
    with receiving_mail(MailReceiver(always("take"))) as receiver:
        settings = MailSettings(
            host="127.0.0.1", port=receiver.port, security="none", from_address="leads@dealer.example.com"
        )
        outlet = CrmMailOutlet(MailServer(settings, "Example Motors"), ("leads@crm.example.com",))
        yield Place(outlet, lambda: receiver.taken, lambda: True)


@asynccontextmanager
async def by_folder(folder: Path) -> AsyncIterator[Place]:
    def files() -> list[Path]:
        return [file for file in folder.iterdir() if file.name != UNFINISHED]

    yield Place(FolderOutlet(folder, FORMATS["adf"]), files, lambda: any((folder / UNFINISHED).iterdir()))
    assert list((folder / UNFINISHED).iterdir()) == []


OUTLETS = {"HTTP": by_http, "mail": by_mail, "directory": by_folder}
every_outlet = pytest.mark.parametrize("outlet", OUTLETS.values(), ids=OUTLETS)
MakePlace = Callable[[Path], AbstractAsyncContextManager[Place]]


def attempt(outlet: MakePlace, folder: Path, renewal: Callable[[Place], None]) -> list[Any]:
    """What has arrived after an attempt. `renewal` is what the database does with each renewal of the lease."""

    async def run() -> list[Any]:
        async with outlet(folder) as place:

            async def write(_: WriteFunction[None]) -> None:
                renewal(place)

            sent = parcel()
            lease = Lease(sent.delivery, SECONDS, None, write)
            try:
                await place.outlet.send(sent.delivery, place.outlet.render(*sent), lease)
            except LeaseLost:
                assert not place.arrived()
                raise
            return place.arrived()

    return asyncio.run(run())


@every_outlet
def test_the_lease_is_renewed_when_the_receiver_is_reached_and_before_anything_arrives(
    outlet: MakePlace, tmp_path: Path
) -> None:
    renewals = []

    def renewal(place: Place) -> None:
        eventually("the receiver is reached", place.is_reached)
        assert not place.arrived()
        renewals.append(1)

    assert len(attempt(outlet, tmp_path, renewal)) == 1
    assert len(renewals) == 1


@every_outlet
def test_an_attempt_without_its_lease_sends_nothing(outlet: MakePlace, tmp_path: Path) -> None:
    def renewal(_: Place) -> None:
        raise AlreadyStored("another has it")

    with pytest.raises(LeaseLost):
        attempt(outlet, tmp_path, renewal)


@every_outlet
def test_an_attempt_whose_database_fails_sends_nothing_and_says_so(outlet: MakePlace, tmp_path: Path) -> None:
    def renewal(_: Place) -> None:
        raise DatabaseBusy("busy")

    with pytest.raises(DatabaseBusy):
        attempt(outlet, tmp_path, renewal)


@every_outlet
def test_a_process_that_stopped_while_it_renewed_the_lease_renews_it_again(
    outlet: MakePlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of both clocks counts. `paused` are seconds that the clock has gained, by its place."""
    paused, renewals = [0.0, 0.0], []
    now = leases._now
    monkeypatch.setattr(leases, "_now", lambda: [clock + more for clock, more in zip(now(), paused, strict=True)])

    def renewal(place: Place) -> None:
        assert not place.arrived()
        renewals.append(1)
        if len(renewals) <= 2:
            paused[len(renewals) - 1] += SECONDS

    assert len(attempt(outlet, tmp_path, renewal)) == 1
    assert len(renewals) == 3

    def always_slow(_: Place) -> None:
        paused[0] += SECONDS

    with pytest.raises(NotDelivered, match="the database is too slow"):
        attempt(outlet, tmp_path / "slow", always_slow)


def test_a_file_that_waited_too_long_for_a_thread_is_not_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = FolderOutlet._finish

    def late(*given: Any) -> None:
        now = leases._now
        monkeypatch.setattr(leases, "_now", lambda: [clock + SECONDS for clock in now()])
        finish(*given)

    monkeypatch.setattr(FolderOutlet, "_finish", late)
    with pytest.raises(LeaseLost):
        attempt(by_folder, tmp_path, lambda _: None)
