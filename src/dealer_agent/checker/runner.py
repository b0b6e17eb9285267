"""Runs the checks of all targets, and emits events."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

import httpx

from dealer_agent.checker.check import Check, checks
from dealer_agent.checker.confirmation import confirm, find
from dealer_agent.checker.discovery import find_cards, notes_about, targets_of
from dealer_agent.checker.events import CheckStarted, Event, RunEnded, RunStarted, Variant, Verdict
from dealer_agent.checker.requirement import Requirement, requirements
from dealer_agent.checker.target import Target
from dealer_agent.checker.wire import REQUEST_SECONDS, TargetConnection
from dealer_agent.client.signing import Signer

OF_INTERFACES = (
    "cards.object",
    "cards.spelling",
    "cards.interface-url",
    "cards.interface-binding",
    "cards.json-rpc",
    "cards.http-json",
)
"""What is checked of a card that names no interface."""

Listener = Callable[[Event], None]


@dataclass(frozen=True)
class Options:
    """How a run is done. `rate`: requests a second at most. `seconds`: the longest time of the run.

    `only` are ids of requirements, or beginnings of ids (`search`, `search.filter`). Empty collections select all.
    `profiles` adds their requirements. `leads` allows checks that submit leads of a marked test customer.
    `signer` signs all requests to interfaces of the dealer.
    """

    only: Collection[str] = ()
    profiles: Collection[str] = ()
    revisions: Collection[str] = ()
    bindings: Collection[str] = ()
    vocabularies: Collection[str] = ()
    token: str | None = None
    leads: bool = False
    rate: float = 50.0
    seconds: float = 600.0
    signer: Signer | None = None


def open_client() -> httpx.AsyncClient:
    """A client for the network. It follows no redirects, and reads no settings of the environment but proxies."""
    return httpx.AsyncClient(timeout=REQUEST_SECONDS, follow_redirects=False)


async def run_checks(url: str, options: Options, client: httpx.AsyncClient, listener: Listener) -> list[Verdict]:
    """The verdicts of all checks of the dealer agent at a URL. Raises NotChecked if there is no card."""
    began = time.monotonic()
    deadline = began + options.seconds
    wire = TargetConnection(client, rate=options.rate, deadline=deadline, bindings=options.bindings)
    targets: list[Target] = []
    cards = await find_cards(wire, url)
    cards = [card for card in cards if not options.revisions or card.revision.name in options.revisions]
    for card in cards:
        targets += await targets_of(wire, card, options.token, leads=options.leads, signer=options.signer)
    targets = [each for each in targets if _is_chosen(each, options)]
    planned = list(plan(targets, options.only, options.profiles))
    variants = tuple(dict.fromkeys(variant for variant, *_ in planned))
    listener(RunStarted(url, variants, len(planned), tuple(notes_about(cards, options.token))))
    verdicts = []
    for variant, target, requirement, check in planned:
        listener(CheckStarted(variant, requirement))
        verdict = await judge(variant, target, requirement, check)
        verdicts.append(verdict)
        listener(verdict)
    listener(RunEnded(time.monotonic() - began, wire.sent))
    return verdicts


def plan(
    targets: Iterable[Target], only: Collection[str] = (), profiles: Collection[str] = ()
) -> Iterator[tuple[Variant, Target, Requirement, Check]]:
    """What is checked where, in this order. Checks that judge the exchanges of a target are its last."""
    done: set[tuple[str, str, str]] = set()
    rows = [
        (requirement, checks()[requirement.id])
        for requirement in requirements().values()
        if not only or requirement.is_among(only)
    ]
    rows.sort(key=lambda row: row[1].last)
    for target in targets:
        for requirement, check in rows:
            if not target.card.interfaces and not requirement.is_among(OF_INTERFACES):
                continue
            if not requirement.applies_to(target.revision.name, target.binding, target.vendor):
                continue
            if requirement.profile(published=target.revision.is_published) not in (None, *profiles):
                continue
            if requirement.per != "target":
                card = "" if requirement.per in ("dealer", "binding") else target.card.url
                binding = target.binding if requirement.per in ("interface", "binding") else ""
                once = (requirement.id, card, binding)
                if once in done:
                    continue
                done.add(once)
            yield _variant(target, requirement), target, requirement, check


async def judge(variant: Variant, target: Target, requirement: Requirement, check: Check) -> Verdict:
    """The verdict of one check."""
    began = time.perf_counter()
    result = await find(target, requirement, check)
    if result.outcome == "fail" or result.unprepared:
        result = await confirm(result, target, requirement, check)
    seconds = time.perf_counter() - began
    return Verdict(variant, requirement, result.outcome, result.sentence, result.exchange, seconds)


def _is_chosen(target: Target, options: Options) -> bool:
    if not target.card.interfaces:
        return True
    return (not options.bindings or target.binding in options.bindings) and (
        not options.vocabularies or target.vendor in options.vocabularies
    )


def _variant(target: Target, requirement: Requirement) -> Variant:
    if requirement.per == "card":
        return Variant(target.card.url, target.revision.name)
    return Variant(target.card.url, target.revision.name, target.binding, target.vendor)
