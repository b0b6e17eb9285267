"""Leads by HTTP: what is sent, what counts as delivered, what is said of a failure (docs/reference/delivery.md)."""

import asyncio
import hmac
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from tests.delivery.certificates import server_certificate
from tests.delivery.receivers import NOBODY, HttpReceiver, always, one_after_the_other, receiving_http
from tests.delivery.samples import parcel, sent, view

from dealer_agent.delivery.attempt import NotDelivered
from dealer_agent.delivery.outlet import FORMATS
from dealer_agent.delivery.outlets.http import LONGEST_WAIT, HttpOutlet
from dealer_agent.leads.adf import render_adf
from dealer_agent.leads.lead_json import render_json
from dealer_agent.outgoing.addresses import AddressRule
from dealer_agent.outgoing.connections import http_client
from dealer_agent.storage.errors import CANNOT_BE_REACHED

LOCAL = AddressRule((ip_network("127.0.0.0/8"),))
"""As in an installation whose operator allows this machine: each connection is checked."""


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    with receiving_http(HttpReceiver(always("take"))) as running:
        yield running


def send(url: str, *, form: str = "adf", timeout_seconds: float = 120, times: int = 1, **more: Any) -> None:
    """Sends one parcel, or the same one several times. Raises NotDelivered."""

    async def sending() -> None:
        async with http_client(LOCAL) as client:
            outlet = HttpOutlet(
                client=client,
                url=url,
                format=FORMATS[form],
                timeout_seconds=timeout_seconds,
                **more,
            )
            for _ in range(times):
                await sent(outlet, parcel())

    asyncio.run(sending())


def failure(url: str, **more: Any) -> NotDelivered:
    with pytest.raises(NotDelivered) as raised:
        send(url, **more)
    return raised.value


@pytest.mark.parametrize(
    ("form", "media_type", "body"),
    [
        ("adf", "application/xml; charset=utf-8", render_adf(view())),
        ("json", "application/json", render_json(view())),
    ],
)
def test_a_lead_is_posted_with_its_ids_and_nothing_of_the_customer_in_the_head(
    receiver: HttpReceiver, form: str, media_type: str, body: bytes
) -> None:
    send(receiver.url, form=form, authorization="Bearer a-token")
    (posted,) = receiver.taken
    assert (posted.method, posted.target, posted.body) == ("POST", "/leads", body)
    assert posted.headers["content-type"] == media_type
    assert posted.headers["x-delivery-id"] == parcel().delivery.delivery_id
    assert posted.headers["x-lead-id"] == view().lead_id
    assert posted.headers["authorization"] == "Bearer a-token"
    assert "x-signature" not in posted.headers
    assert not any("sam" in value.lower() for value in posted.headers.values())


def test_the_signature_covers_the_timestamp_and_the_body(receiver: HttpReceiver) -> None:
    send(receiver.url, secret=b"a secret")
    (posted,) = receiver.taken
    signed = posted.headers["x-timestamp"].encode() + b"." + posted.body
    assert posted.headers["x-signature"] == "sha256=" + hmac.new(b"a secret", signed, "sha256").hexdigest()
    assert abs(int(posted.headers["x-timestamp"]) - datetime.now(UTC).timestamp()) < 600


@pytest.mark.parametrize(
    ("status", "ails", "permanent"),
    [
        (400, False, True),
        (401, False, True),
        (404, False, True),
        (408, True, False),
        (410, False, True),
        (422, False, True),
        (425, True, False),
        (429, True, False),
        (500, True, False),
        (503, True, False),
    ],
)
def test_a_status_says_whether_the_channel_ails_or_this_lead_is_refused(
    receiver: HttpReceiver, status: int, ails: bool, permanent: bool
) -> None:
    receiver.answer = f"HTTP/1.1 {status} sam@example.com\r\nContent-Length: 15\r\n\r\nsam@example.com".encode()
    failed = failure(receiver.url)
    assert (failed.problem, failed.channel_failed, failed.permanent) == (f"answered {status}", ails, permanent)


@pytest.mark.parametrize(("status", "may"), [(422, False), (500, False), (503, False), (502, True), (504, True)])
def test_a_gateway_does_not_know_whether_the_lead_arrived(receiver: HttpReceiver, status: int, may: bool) -> None:
    receiver.answer = f"HTTP/1.1 {status} No\r\nContent-Length: 0\r\n\r\n".encode()
    assert failure(receiver.url).may_have_arrived is may


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_lead_is_never_sent_on_to_another_address(receiver: HttpReceiver, status: int) -> None:
    with receiving_http(HttpReceiver(always("take"))) as other:
        receiver.answer = f"HTTP/1.1 {status} Elsewhere\r\nLocation: {other.url}\r\nContent-Length: 0\r\n\r\n".encode()
        assert failure(receiver.url).problem.startswith(f"answered {status}, a redirect, which is not followed")
        assert not other.taken


@pytest.mark.parametrize("status", [200, 201, 202, 204])
def test_any_answer_of_success_is_a_delivery(receiver: HttpReceiver, status: int) -> None:
    receiver.answer = f"HTTP/1.1 {status} Fine\r\nContent-Length: 0\r\n\r\n".encode()
    send(receiver.url)


def test_an_answer_without_an_end_is_not_waited_for(receiver: HttpReceiver) -> None:
    """The head of the answer has said everything, and the body may be of any size."""
    receiver.answer = b"HTTP/1.1 200 Fine\r\nContent-Length: 100000000000\r\n\r\n" + b"x" * 100_000
    send(receiver.url)


def test_deliveries_share_a_connection(receiver: HttpReceiver) -> None:
    receiver.behaviour = always("keep")
    send(receiver.url, times=5)
    assert (receiver.connections, len(receiver.taken)) == (1, 5)


@pytest.mark.parametrize("closing", ["refuse", "cut", "die"])
def test_a_kept_connection_that_the_receiver_closes_is_no_failed_delivery(receiver: HttpReceiver, closing: str) -> None:
    """The receiver may close an idle connection at any time, also while a request is on its way (RFC 9112, 9.5)."""
    receiver.behaviour = one_after_the_other("keep", closing, "keep", closing, "take")
    send(receiver.url, times=3)
    assert len({posted.headers["x-delivery-id"] for posted in receiver.taken}) == 1
    assert receiver.connections == 3


def test_a_request_sent_twice_may_have_arrived_even_if_the_second_connection_failed(
    receiver: HttpReceiver,
) -> None:
    """The receiver goes away with the kept connection."""
    receiver.behaviour = one_after_the_other("keep", "leave")
    failed = failure(receiver.url, times=2)
    assert failed.problem == f"the server {CANNOT_BE_REACHED}"
    assert failed.may_have_arrived


@pytest.mark.parametrize(
    ("what", "problem"),
    [
        ("refuse", "the receiver closed the connection before it answered"),
        ("cut", "the receiver closed the connection before it answered"),
        ("die", "the receiver closed the connection before it answered"),
        ("reject", "answered 422"),
        ("fail", "answered 500"),
    ],
)
def test_every_failure_has_words_of_our_own(receiver: HttpReceiver, what: str, problem: str) -> None:
    receiver.behaviour = always(what)
    assert failure(receiver.url).problem == problem


def test_a_receiver_that_says_nothing_is_given_up(receiver: HttpReceiver) -> None:
    receiver.behaviour = always("hang")
    assert failure(receiver.url, timeout_seconds=0.5).problem == "no response within 0.5 s"


@pytest.mark.parametrize("host", [f"127.0.0.1:{NOBODY}", "no-such-host.invalid"])
def test_a_closed_port_and_an_unknown_host_have_the_same_words(host: str) -> None:
    failed = failure(f"http://{host}/leads")
    assert (failed.problem, failed.channel_failed) == (f"the server {CANNOT_BE_REACHED}", True)


def test_an_untrusted_certificate_gets_no_lead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context, trusted = server_certificate(tmp_path)
    with receiving_http(HttpReceiver(always("take")), context) as receiver:
        url = receiver.url.replace("http:", "https:")
        assert failure(url).problem == "its certificate is not to be trusted"
        assert not receiver.taken
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
        send(url)
        assert receiver.taken


def asked_by(receiver: HttpReceiver, retry_after: str) -> timedelta | None:
    """How long the receiver is left alone that says so."""
    head = f"HTTP/1.1 503 Busy\r\nRetry-After: {retry_after}\r\nContent-Length: 0\r\n\r\n"
    receiver.answer = head.encode()
    return failure(receiver.url).retry_after


def test_a_receiver_may_ask_to_be_left_alone_until_a_moment(receiver: HttpReceiver) -> None:
    before = datetime.now(UTC)
    moment = before.replace(microsecond=0) + timedelta(hours=1)
    asked = asked_by(receiver, format_datetime(moment, usegmt=True))
    assert asked is not None
    assert moment - datetime.now(UTC) <= asked <= moment - before


@pytest.mark.parametrize(
    ("value", "least", "most"),
    [
        ("7", 7, 7),
        ("0", 0, 0),
        ("999999999999999999999999", LONGEST_WAIT.total_seconds(), LONGEST_WAIT.total_seconds()),
        ("Fri, 31 Dec 1999 23:59:59 GMT", 0, 0),
        ("-5", None, None),
        ("soon", None, None),
        ("Fri, 31 Dec 1999 23:59:59 +99999999999999999999", None, None),
        ("\u0667", None, None),
    ],
)
def test_a_receiver_may_ask_to_be_left_alone(
    receiver: HttpReceiver, value: str, least: float | None, most: float | None
) -> None:
    asked = asked_by(receiver, value)
    if least is None or most is None:
        assert asked is None
    else:
        assert asked is not None
        assert least <= asked.total_seconds() <= most


def test_a_client_that_is_stopped_stops(receiver: HttpReceiver) -> None:
    """The deadline is the outlet's own: a cancelled send is not mistaken for a delivery or a failure."""
    receiver.behaviour = always("hang")

    async def cancelled() -> None:
        async with http_client(LOCAL) as client:
            outlet = HttpOutlet(client, receiver.url, FORMATS["adf"], 30)
            task = asyncio.create_task(sent(outlet, parcel()))
            await asyncio.sleep(0.3)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(cancelled())
