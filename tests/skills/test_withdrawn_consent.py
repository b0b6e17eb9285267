"""An agent sends a consent that its customer has withdrawn (docs/protocol.md#withdrawal). On both databases.

The refusal tells its sender that the customer withdrew. So it is for the sender whose lead was withdrawn, and for
nobody else: a stranger may know an e-mail address, and tries to learn whether its owner wrote to this dealer.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from tests.skills.intake_setup import TOKEN, IntakeSetup
from tests.skills.sample_dealers import a_lead, consent, customer
from tests.skills.visiting import LOT, NOW, PROFILE, lead_with_visit, visit
from tests.storage.calls import list_leads, lock_at, read
from tests.storage.samples import NO_NOTICES

from dealer_agent.dealers.profile import Policies
from dealer_agent.protocol.errors import ContactConsentRequired
from dealer_agent.storage.deliveries.notices import withdraw
from dealer_agent.storage.leads.persons import find_leads_of
from dealer_agent.storage.privacy.consents import allowed_channels, verify_chain
from dealer_agent.storage.privacy.erasure import erase_lead
from dealer_agent.storage.privacy.withdrawals import withdrawn_since

OpenIntake = Callable[..., IntakeSetup]
SOON, LATER = NOW + timedelta(minutes=5), NOW + timedelta(minutes=6)
EMAIL, PHONE = {"email": "sam@example.com"}, {"phone": "+12025550123"}
SAM = customer(**EMAIL, **PHONE)
OTHER_TOKEN = "01KE7AQ2N0V5X3J8R6T4Y9W1ZU"

senders = pytest.mark.parametrize("token", [TOKEN, None], ids=["token", "no token"])
strangers = pytest.mark.parametrize(
    ("token", "other_token", "who", "agent"),
    [
        pytest.param(TOKEN, OTHER_TOKEN, SAM, "Example Agent", id="another token"),
        pytest.param(TOKEN, None, SAM, "Example Agent", id="no token"),
        pytest.param(None, TOKEN, SAM, "Example Agent", id="a token where the first had none"),
        pytest.param(None, None, SAM, "Another Agent", id="another agent"),
        pytest.param(None, None, customer(**EMAIL), "Example Agent", id="one of the contact points"),
    ],
)


def revoked(intake: IntakeSetup, lead: dict[str, Any], channels: list[str], token: str | None) -> str:
    """The id of a lead whose customer withdrew these channels."""
    lead_id: str = intake.take(lead, NOW, LOT, token=token)["lead_id"]
    lock_at(SOON, intake.store, "ridgeline", withdraw, lead_id, channels, by="staff", reason=None, profile=NO_NOTICES)
    return lead_id


@senders
@pytest.mark.requirement("consent-reachable")
@pytest.mark.parametrize(("window", "stock"), [(24, None), (0, "S1")], ids=["the same lead", "another vehicle"])
def test_the_sender_of_a_withdrawn_lead_is_asked_for_a_new_consent(
    new_intake: OpenIntake, token: str | None, window: int, stock: str | None
) -> None:
    intake = new_intake(msgspec.structs.replace(PROFILE, policies=Policies(duplicate_window_hours=window)))
    lead = a_lead(customer=SAM)
    lead_id = revoked(intake, lead, ["email", "phone", "sms"], token)
    again = lead if stock is None else lead | {"vehicle_of_interest": {"stock": stock}}
    for _ in range(2):
        with pytest.raises(ContactConsentRequired) as refused:
            intake.take(again, LATER, LOT, token=token)
        assert refused.value.details["instancePath"] == "/consent/allowed_channels"
        assert "withdrew" in refused.value.message
    assert [one.lead_id for one in read(intake.store, "ridgeline", list_leads, 10)] == [lead_id], (
        "nothing of it is stored"
    )


@pytest.mark.requirement("consent-reachable")
@pytest.mark.parametrize(
    ("withdrawn", "agreed", "points", "taken"),
    [
        (["email"], ["email", "phone"], SAM, True),
        (["email"], ["email"], SAM, False),
        (["phone"], ["phone", "sms"], SAM, True),
        (["phone", "sms"], ["phone", "sms"], SAM, False),
        (["email"], ["email", "phone"], customer(**EMAIL), False),
    ],
)
def test_a_lead_is_taken_while_one_channel_reaches_the_customer(
    new_intake: OpenIntake, withdrawn: list[str], agreed: list[str], points: dict[str, Any], taken: bool
) -> None:
    intake = new_intake(PROFILE)
    lead = a_lead(customer=SAM, consent=consent(allowed_channels=["email", "phone", "sms"]))
    revoked(intake, lead, withdrawn, TOKEN)
    again = lead | {"customer": points, "consent": consent(allowed_channels=agreed)}
    if taken:
        assert intake.take(again, LATER, LOT)["status"] == "duplicate"
    else:
        with pytest.raises(ContactConsentRequired):
            intake.take(again, LATER, LOT)


@pytest.mark.both_databases
@strangers
@pytest.mark.requirement("consent-reachable", "duplicate-stranger")
def test_no_answer_discloses_to_a_stranger_that_the_customer_withdrew(
    new_intake: OpenIntake, token: str | None, other_token: str | None, who: dict[str, Any], agent: str
) -> None:
    """Not even the second one, when the withdrawal is noted on the stranger's own lead too."""
    intake = new_intake(PROFILE)
    revoked(intake, a_lead(customer=SAM), ["email", "phone", "sms"], token)

    def told(person: dict[str, Any]) -> list[tuple[str, str | None]]:
        lead = lead_with_visit(visit(), "S1", customer=person, source_agent=agent)
        answers = [intake.answer(lead, LATER + timedelta(minutes=turn), LOT, token=other_token) for turn in range(3)]
        return [(msgspec.json.decode(answer.data)["status"], answer.message) for answer in answers]

    nobody = {name: value.replace("sam", "nobody").replace("0123", "0199") for name, value in who.items()}
    assert told(who) == told(nobody)
    mine = read(intake.store, "ridgeline", find_leads_of, ["email:sam@example.com"])[-1]
    assert read(intake.store, "ridgeline", allowed_channels, mine, LATER) == frozenset(), "nobody contacts the customer"


@pytest.mark.requirement("consent-reachable", "duplicate-stranger")
@pytest.mark.parametrize("other_token", [OTHER_TOKEN, None])
def test_no_answer_discloses_it_to_a_stranger_whose_lead_was_stored_before(
    new_intake: OpenIntake, other_token: str | None
) -> None:
    """The withdrawal counts for the stranger's lead, too."""
    intake = new_intake(PROFILE)
    leads = [
        lead_with_visit(visit(), "S1", customer=customer(email=f"{name}@example.com")) for name in ("sam", "nobody")
    ]
    mine, _ = (intake.take(lead, NOW, LOT, token=other_token)["lead_id"] for lead in leads)
    revoked(intake, a_lead(customer=SAM), ["email", "phone", "sms"], TOKEN)
    assert read(intake.store, "ridgeline", allowed_channels, mine, LATER) == frozenset(), "nobody contacts the customer"
    again, other = (intake.answer(lead, LATER, LOT, token=other_token) for lead in leads)
    assert again.message == other.message
    assert [msgspec.json.decode(answer.data)["status"] for answer in (again, other)] == ["duplicate", "duplicate"]


@pytest.mark.requirement("withdrawal-every-lead")
def test_a_withdrawal_counts_for_every_stored_lead_with_a_contact_point_of_the_customer(new_intake: OpenIntake) -> None:
    """Whoever sent it."""
    intake = new_intake(PROFILE)
    both = consent(allowed_channels=["email", "phone"])
    pat = customer(email="pat@example.com", phone="+12025550199")
    stored = {
        intake.take(a_lead(customer=who, consent=both), NOW, LOT, token=token)["lead_id"]: left
        for who, token, left in (
            (SAM, OTHER_TOKEN, {"email"}),
            (customer(**EMAIL), None, {"email"}),
            (customer(**PHONE), None, {"email"}),
            (pat, TOKEN, {"email", "phone"}),
        )
    }
    stored[revoked(intake, a_lead(customer=SAM, consent=both), ["phone", "sms"], TOKEN)] = {"email"}
    assert {each: read(intake.store, "ridgeline", allowed_channels, each, LATER) for each in stored} == stored
    assert read(intake.store, "ridgeline", verify_chain).problem is None


@pytest.mark.both_databases
@pytest.mark.requirement("withdrawal-lasts")
def test_after_an_erasure_the_old_consent_allows_no_channel_for_any_sender(new_intake: OpenIntake) -> None:
    """Until the customer agrees anew."""
    intake = new_intake(PROFILE)
    agreed = consent(allowed_channels=["email", "phone", "sms"])
    lead_id = revoked(intake, a_lead(customer=SAM, consent=agreed), ["email", "phone", "sms"], TOKEN)
    senders = (
        (TOKEN, "Example Agent", SAM),
        (OTHER_TOKEN, "Example Agent", customer(**EMAIL)),
        (None, "Another Agent", SAM | PHONE),
        (None, "Another Agent", customer(**EMAIL)),
    )
    for token, agent, who in senders:
        lock_at(LATER, intake.store, "ridgeline", erase_lead, lead_id, consent_too=token is None)
        again = intake.take(a_lead(customer=who, consent=agreed, source_agent=agent), LATER, LOT, token=token)
        assert again["status"] == "received"
        lead_id = again["lead_id"]
        assert read(intake.store, "ridgeline", allowed_channels, lead_id, LATER) == frozenset()
    with intake.store.read("ridgeline") as tx:
        found = withdrawn_since(tx, ["email:sam@example.com"], SOON)
        later = withdrawn_since(tx, ["email:sam@example.com"], LATER)
    assert (sorted(found), sorted(later)) == (["email", "phone", "sms"], []), "the time is that of the withdrawal"
