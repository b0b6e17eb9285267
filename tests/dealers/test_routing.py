"""The deliveries of a lead: channels of its rooftop, its people, the customer (docs/protocol.md#lead-submit)."""

import pytest

from dealer_agent.config.loading import read_dealer_file
from dealer_agent.config.settings_problems import SettingsError
from dealer_agent.dealers.profile import DealerRooftop, Deliver, FolderChannel, HttpChannel, SmtpChannel
from dealer_agent.dealers.routing import NewDelivery, deliveries_of, mail_to_customer

CRM = SmtpChannel(name="crm", to=("leads@example.com",))
HOOK = HttpChannel(name="hook", url="https://crm.example.com/leads")
FOLDER = FolderChannel(name="folder", path="leads")


def rooftop(deliver: Deliver) -> DealerRooftop:
    return DealerRooftop(name="North", timezone="America/New_York", deliver=deliver)


@pytest.mark.parametrize(
    ("deliver", "kinds"),
    [
        (Deliver(), []),
        (Deliver(smtp=(CRM,)), [("lead", "crm")]),
        (
            Deliver(directory=(FOLDER,), http=(HOOK,), smtp=(CRM,)),
            [("lead", "crm"), ("lead", "hook"), ("lead", "folder")],
        ),
        (Deliver(notify=("sales@example.com", "boss@example.com")), [("notify", "notify")]),
        (Deliver(http=(HOOK,), notify=("sales@example.com",)), [("lead", "hook"), ("notify", "notify")]),
    ],
)
def test_every_channel_of_the_rooftop_gets_the_lead_once(deliver: Deliver, kinds: list[tuple[str, str]]) -> None:
    planned = deliveries_of(rooftop(deliver))
    assert [(row.kind, row.channel) for row in planned] == kinds
    assert all(row.rooftop == "North" and row.event_id is None for row in planned)
    assert set(deliver.channels) == {name for kind, name in kinds if kind == "lead"}


def test_what_a_duplicate_added_sends_the_lead_again() -> None:
    assert deliveries_of(rooftop(Deliver(http=(HOOK,), notify=("sales@example.com",))), event_id="E1") == (
        NewDelivery("resend", "North", "hook", "E1"),
        NewDelivery("notify", "North", "notify", "E1"),
    )


def test_a_confirmed_visit_is_confirmed_to_the_customer_even_where_nobody_else_is_told() -> None:
    assert deliveries_of(rooftop(Deliver())) == ()
    assert mail_to_customer("confirm", rooftop(Deliver()), "A1") == NewDelivery("confirm", "North", "customer", "A1")


@pytest.mark.parametrize("name", ["notify", "customer", "hook"])
def test_a_channel_may_not_take_the_name_of_another_nor_of_the_people(name: str) -> None:
    with pytest.raises(SettingsError, match=f"'{name}' is the name of another channel"):
        read_dealer_file(
            'id = "x"\nname = "X"\nfeed_price = "advertised"\n[[rooftops]]\nname = "North"\n'
            'timezone = "America/New_York"\n[[rooftops.deliver.http]]\nname = "hook"\nurl = "https://a.example.com"\n'
            f'[[rooftops.deliver.directory]]\nname = "{name}"\npath = "leads"\n'
        )
