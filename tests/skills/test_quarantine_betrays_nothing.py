"""The replies to a sender in quarantine are those that it would get without (docs/protocol.md#quarantine)."""

import re
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.skills.intake_setup import TOKEN, IntakeSetup
from tests.skills.sample_dealers import a_lead, consent, customer
from tests.skills.visiting import LOT, NOW, PROFILE, at, visit, windows
from tests.soak import examples

from dealer_agent.protocol.errors import ProtocolError

OpenIntake = Callable[..., IntakeSetup]
_examples = count(1)
_ULID = re.compile(r"\b[0-9A-HJKMNP-TV-Z]{26}\b")

APPOINTMENTS = st.one_of(
    st.none(),
    st.builds(
        lambda clock, day, kind: visit(at(clock, day), kind=kind),
        st.sampled_from(["09:00", "10:00", "10:30", "17:30", "23:00"]),
        st.integers(3, 6),
        st.sampled_from(["test_drive", "trade_in", "sales"]),
    ),
    st.just(windows((at("10:00"), at("12:00")))),
    st.just(visit()),
)


@st.composite
def requests(draw: st.DrawFn) -> list[dict[str, Any]]:
    """What senders send one after the other: requests of few customers, so that they meet each other's leads."""
    made: list[dict[str, Any]] = []
    for number in range(draw(st.integers(2, 6))):
        appointment = draw(APPOINTMENTS)
        # Mostly the sender, the customer and the vehicle of before: only such requests meet an earlier lead.
        if made and draw(st.integers(0, 3)) > 0:
            same = {name: made[-1][name] for name in ("who", "token", "agent", "stock", "channels")}
        else:
            same = {
                "who": draw(st.sampled_from(["sam", "kim"])),
                "token": draw(st.sampled_from([TOKEN, None])),
                "agent": draw(st.sampled_from(["Example Agent", "Another Agent"])),
                "stock": draw(st.sampled_from(["N1", "S1", "E1", "unknown", None])),
                "channels": draw(st.sampled_from([["email"], ["email", "phone"], []])),
            }
        members = {
            "appointment": ... if appointment is None else appointment,
            "vehicle_of_interest": ... if same["stock"] is None else {"stock": same["stock"]},
            "message": draw(st.sampled_from([..., "Hello.", f"Number {number}."])),
            "idempotency_key": draw(st.sampled_from([..., ..., "one-key"])),
            "source_agent": same["agent"],
        }
        made.append({**same, "members": members, "minutes": draw(st.sampled_from([0, 5, 60]))})
    return made


def reply(intake: IntakeSetup, request: dict[str, Any], minutes: int, example: int, *, quarantined: bool) -> str:
    """Everything that the sender learns: data and message of the response, or the error."""
    email = f"{request['who']}.{example}@example.com"
    lead = a_lead(
        customer=customer(email=email, phone=f"+1 202 555 01{example % 100:02}"),
        consent=consent(allowed_channels=request["channels"]),
        **request["members"],
    )
    if "idempotency_key" in lead:
        lead["idempotency_key"] += f"-{example}"
    now = NOW + timedelta(minutes=minutes)
    try:
        answer = intake.answer(lead, now, LOT, token=request["token"], quarantined=quarantined)
    except ProtocolError as error:
        return repr((type(error), error.code, str(error), error.details))
    return repr((msgspec.json.decode(answer.data), answer.message, answer.is_repeated))


def without_ids(replies: list[str]) -> list[str]:
    """The replies with each id as its number, in the order in which they occur."""
    known: dict[str, str] = {}
    return [_ULID.sub(lambda found: known.setdefault(found[0], f"id {len(known)}"), each) for each in replies]


@pytest.mark.requirement("quarantine-reply")
def test_no_reply_differs_from_the_one_without_quarantine(new_intake: OpenIntake) -> None:
    free = new_intake(PROFILE, confirms_by_mail=True)
    held = new_intake(msgspec.structs.replace(PROFILE, id="quarantined"), confirms_by_mail=True)

    @settings(max_examples=examples(200), deadline=None)
    @given(requests(), st.lists(st.booleans(), min_size=6, max_size=6))
    def compare(asked: list[dict[str, Any]], quarantined: list[bool]) -> None:
        """The second dealer puts the sender in quarantine before some of the requests."""
        example, minutes = next(_examples), 0
        replies: tuple[list[str], list[str]] = ([], [])
        for request, is_held in zip(asked, quarantined, strict=False):
            minutes += request["minutes"]
            replies[0].append(reply(free, request, minutes, example, quarantined=False))
            replies[1].append(reply(held, request, minutes, example, quarantined=is_held))
        assert without_ids(replies[1]) == without_ids(replies[0])

    compare()
