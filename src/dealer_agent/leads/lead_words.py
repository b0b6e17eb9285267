"""Sentences about a lead that several documents share. Pure."""

from dealer_agent.leads.channels import CHANNELS
from dealer_agent.leads.lead_view import ErasedLead, LeadView
from dealer_agent.leads.us_formats import join_words
from dealer_agent.protocol.requests import Channel


def erasure_words(erased: ErasedLead) -> list[str]:
    """Asks a receiver to erase its copy of an erased lead."""
    return [
        f"The customer's data in lead {erased.lead_id} was erased at their request.",
        "Erase your copy of this lead.",
    ]


def same_person_words(view: LeadView) -> list[str]:
    """Names another sender's lead that may be of the same person. Empty if there is none."""
    if view.may_be_same_person_as is None:
        return []
    return [
        f"This may be the same person as lead {view.may_be_same_person_as}: an address or number and the vehicle are "
        "the same. Nobody checked that the senders are."
    ]


def refused_channels(view: LeadView) -> list[Channel]:
    """The channels by which the customer must not be contacted."""
    return [channel for channel in CHANNELS if channel not in view.channels]


def withdrawal_words(view: LeadView) -> list[str]:
    """Names the channels that the customer has just withdrawn. Empty if there are none."""
    if not view.withdrawn:
        return []
    channels = join_words([CHANNELS[channel].prose for channel in view.withdrawn], "or")
    return [f"The customer withdrew the consent to be contacted by {channels}."]


def refusal_words(view: LeadView) -> list[str]:
    """Names the channels that must not be used. Empty if all may be used."""
    refused = [CHANNELS[channel].prose for channel in refused_channels(view)]
    return [f"Do not contact by {join_words(refused, 'or')}."] if refused else []


def contact_words(view: LeadView) -> list[str]:
    """The channels by which the customer may and must not be contacted."""
    allowed = [words.prose for channel, words in CHANNELS.items() if channel in view.channels]
    sentences = withdrawal_words(view)
    if allowed:
        sentences.append(f"The customer agreed to be contacted by {join_words(allowed, 'and')}.")
    else:
        sentences.append("The customer agrees to no channel: the consent was withdrawn or has expired.")
    sentences += refusal_words(view)
    if (preferred := view.customer.preferred_contact) in view.channels:
        sentences.append(f"Prefers {CHANNELS[preferred].prose}.")
    return sentences
