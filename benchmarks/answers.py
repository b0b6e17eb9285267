"""Checks what is measured: our responses before a load, the refusals during it, and the totals of the peer."""

import http.client
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from benchmarks.buyers import Ask
from benchmarks.servers import Server
from benchmarks.wrk import Load

HEADERS = {"Content-Type": "application/json", "A2A-Version": "1.0"}


class WrongAnswerError(AssertionError):
    """A server did not give the response that the request of the benchmark expects, so its figures mean nothing."""


class Reply(NamedTuple):
    """Status and body."""

    status: int
    body: bytes

    @property
    def data(self) -> Any:
        """The response of the skill."""
        return msgspec.json.decode(self.body)["message"]["parts"][0]["data"]["data"]


def replies(server: Server, asks: Sequence[Ask]) -> list[Reply]:
    """The responses to requests that are sent in order, over one connection where the server keeps it open."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    got = []
    for ask in asks:
        connection.request("POST", "/message:send", ask.body, HEADERS)
        answer = connection.getresponse()
        got.append(Reply(answer.status, answer.read()))
    connection.close()
    return got


def check_replies(asks: Sequence[Ask], got: Sequence[Reply]) -> None:
    """Checks that every status is the expected one, and that every success is of the skill. Raises
    WrongAnswerError."""
    for ask, reply in zip(asks, got, strict=True):
        wanted = b'"type":"%b.response"' % ask.skill.encode()
        if reply.status != ask.status or (ask.status == 200 and wanted not in reply.body[:250]):
            raise WrongAnswerError(f"{ask.kind}: {ask.body!r} got {reply.status}: {reply.body[:300]!r}")


def check_refusals(asks: Sequence[Ask], load: Load, connections: int) -> None:
    """Checks that as many requests of a load were refused as expected, apart from those in progress at its end, and
    that none failed.

    Raises WrongAnswerError.
    """
    to_refuse = [ask.status != 200 for ask in asks]
    wanted = sum(to_refuse) * (load.answered // len(asks)) + sum(to_refuse[: load.answered % len(asks)])
    if load.broken or abs(load.refused - wanted) > connections:
        raise WrongAnswerError(f"{load.refused} of {load.answered} refused, not {wanted}; {load.broken} broken")


class Agreement(NamedTuple):
    """How many searches and facets found the same number of vehicles at both servers. Free text is counted
    separately."""

    asked: int
    agreed: int
    text_asked: int
    text_agreed: int


def agreement(asks: Sequence[Ask], ours: Sequence[Reply], peers: Sequence[Reply]) -> Agreement:
    """Compares what two servers found. Raises WrongAnswerError where only one of them accepts a request."""
    counts = {True: [0, 0], False: [0, 0]}
    for ask, our, their in zip(asks, ours, peers, strict=True):
        if (our.status == 200) != (their.status == 200):
            raise WrongAnswerError(f"{ask.kind}: {ask.body!r} got {our.status}, of the peer {their.status}")
        if our.status == 200 and ask.skill in _COUNTED:
            count = counts[b'"query"' in ask.body]
            count[0] += 1
            count[1] += _COUNTED[ask.skill](our.data) == _COUNTED[ask.skill](their.data)
    return Agreement(*counts[False], *counts[True])


_COUNTED = {
    "inventory.search": lambda data: data["total"],
    "inventory.facets": lambda data: sum(make["count"] for make in data.get("makes", [])),
    "inventory.vehicle": lambda data: data["vehicle_id"],
}
