"""Asks the person for consent before a lead is sent, and makes the consent from the answer. Pure.

A model cannot assert consent: nothing here reads a consent from the arguments of a call (docs/how-to/mcp.md#consent).
The person sees the dealer's text and everything that would be sent, and ticks the channels. No box is ticked before.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any, Final

from dealer_agent.mcp_tools.words import readable_time, vehicle_title, zone_named
from dealer_agent.protocol.requests import Channel
from dealer_agent.protocol.skill import LEAD_SUBMIT
from dealer_agent.protocol.timestamps import parse_timestamp

Json = dict[str, Any]

DEALER: Final = "{dealer}"
"""What the name of the dealer replaces in a text."""

CONSENT_TEXT: Final = (
    "I agree that {dealer} may contact me about this request, by the ways that I tick: e-mail, phone calls or text "
    "messages. {dealer} gets my name, the contact details for these ways, and the request that is shown here. My "
    "agreement is no condition of a purchase. I can withdraw it at any time by telling {dealer}."
)
"""The text of a dealer without one of its own."""

ANSWER_SECONDS: Final = 900.0
"""How long a person may take to answer."""
MOST_LINES: Final = 60
"""The most details of a lead that are listed for the person one by one."""
LONGEST_LINE: Final = 300
"""Characters of a detail that are shown."""
LONGEST_AGENT: Final = 100
"""Characters of the name of a host."""

_CONTACT_POINT: Final[Mapping[Channel, str]] = {"email": "email", "phone": "phone", "sms": "phone"}
"""The member of the customer that a channel uses."""


def consent_text(template: str, dealer: str) -> str:
    """The text that a person sees, with the name of the dealer."""
    return template.replace(DEALER, dealer)


@dataclass(frozen=True)
class ConsentTerms:
    """How a dealer asks for consent. `text` is shown to the person exactly, and stored with the lead.

    `channels` has the words for each channel. `scope` is that of the consent. `other_ways` says how the person can
    reach the dealer without a tool. `zones` has the name of the time zone of each rooftop, the first rooftop first.
    """

    dealer: str
    text: str
    channels: Mapping[Channel, str]
    scope: str
    other_ways: str
    zones: Mapping[str, str]


def question(lead: Json, terms: ConsentTerms, vehicle: Mapping[str, Any] | None = None) -> tuple[str, Json]:
    """What the person is asked about a valid lead: the message, and the schema of the form.

    `vehicle` is the listing that the lead is about.
    """
    lines = [("vehicle", one_line(vehicle_title(vehicle), LONGEST_LINE))] if vehicle else []
    lines += _details_to_show(lead, _zone_of_visit(lead, terms, vehicle))
    shown = [f"- {name}: {value}" for name, value in lines[:MOST_LINES]]
    if len(lines) > MOST_LINES:
        shown.append(f"- and {len(lines) - MOST_LINES} more details")
    message = "\n".join(
        [
            terms.text,
            "",
            f"What {terms.dealer} would get:",
            *shown,
            "",
            f"Tick how {terms.dealer} may contact you, and accept. Without a tick, or if you decline, nothing is sent.",
        ]
    )
    fields = {
        channel: {
            "type": "boolean",
            "title": f"{terms.channels[channel]} ({one_line(contact, 100)})",
            "default": False,
        }
        for channel, contact in _reachable(lead)
    }
    return message, {"type": "object", "properties": fields}


def consented(lead: Json, answer: Mapping[str, object], terms: ConsentTerms, agent: str, now: datetime) -> Json | None:
    """The lead to send, with the consent that the person gave in the form. None if no channel is ticked.

    A contact point whose channels are not ticked is left out, and so is a preferred channel that is not ticked.
    """
    ticked = [channel for channel, _ in _reachable(lead) if answer.get(channel) is True]
    if not ticked:
        return None
    used = {_CONTACT_POINT[channel] for channel in ticked}
    customer = {
        name: value
        for name, value in lead["customer"].items()
        if not (name in _CONTACT_POINT.values() and name not in used)
        and not (name == "preferred_contact" and value not in (*ticked, "any"))
    }
    consent = {
        "granted_at": now.isoformat(timespec="milliseconds"),
        "allowed_channels": ticked,
        "consent_text": terms.text,
        "scope": [terms.scope],
        "source_agent": agent,
    }
    return lead | {"customer": customer, "consent": consent}


def lead_payload(arguments: Json, agent: str) -> Json:
    """The payload of a lead with the arguments of a call, without consent."""
    return arguments | {"type": LEAD_SUBMIT.request_type, "source_agent": agent}


def agent_name(client: str | None) -> str:
    """The name of the buyer agent in a lead: what the host calls itself."""
    name = one_line(client or "", LONGEST_AGENT)
    return f"{name} (MCP)" if name else "MCP host"


def _reachable(lead: Json) -> Iterator[tuple[Channel, str]]:
    """The channels that reach the customer, with the e-mail address or phone number."""
    for channel, member in _CONTACT_POINT.items():
        if contact := lead["customer"].get(member):
            yield channel, contact


def _details(node: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Every value of a lead with a readable name, except what says how it is sent."""
    if isinstance(node, dict):
        for member, value in node.items():
            if name or member not in ("type", "source_agent"):
                label = f"{name} {_LABELS.get(member, member.replace('_', ' '))}".strip()
                yield from _details(value, label.replace("appointment appointment", "appointment"))
    elif isinstance(node, list):
        for item in node:
            yield from _details(item, name)
    else:
        words = {True: "yes", False: "no"}[node] if isinstance(node, bool) else str(node)
        yield one_line(name, 100), one_line(words, LONGEST_LINE)


_LABELS: Final[Mapping[str, str]] = {"vehicle_of_interest": "vehicle", "vehicle_id": "id", "requested_windows": "time"}
"""Shorter words for members."""
_TIMES: Final = ("appointment at", "appointment time start", "appointment time end")
"""The names of details that are times."""


def _details_to_show(lead: Json, zone: tzinfo | None) -> Iterator[tuple[str, str]]:
    """The details of a lead, with times as a person at the rooftop reads them."""
    stated = zone_named(lead.get("appointment", {}).get("timezone", "")) or zone
    for name, value in _details(lead):
        moment = parse_timestamp(value) if name in _TIMES else None
        if moment is None:
            yield name, value
        else:
            moment = moment if moment.tzinfo else moment.replace(tzinfo=stated)
            yield name, readable_time(moment.isoformat(), zone or moment.tzinfo)


def _zone_of_visit(lead: Json, terms: ConsentTerms, vehicle: Mapping[str, Any] | None) -> tzinfo | None:
    """The time zone of the rooftop where a visit is (docs/protocol.md#visit-rooftop)."""
    rooftop = (vehicle or lead.get("vehicle_of_interest", {})).get("rooftop")
    name = terms.zones.get(str(rooftop)) or next(iter(terms.zones.values()), None)
    return None if name is None else zone_named(name)


def one_line(text: str, longest: int) -> str:
    """Text of a caller on one line: it cannot look like another part of the message."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= longest else line[: longest - 1] + "…"
