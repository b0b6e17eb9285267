"""The listing policy of a dealer's profile. Pure."""

from msgspec import UNSET

from dealer_agent.dealers.profile import Profile
from dealer_agent.inventory.listing import ListingPolicy, RooftopRule


def listing_policy(profile: Profile) -> ListingPolicy:
    """The policy that turns a dealer's units into listings."""
    rooftops = tuple(
        RooftopRule(rooftop.name, frozenset(rooftop.feed_ids), None if rooftop.fees is UNSET else rooftop.fees)
        for rooftop in profile.rooftops
    )
    return ListingPolicy(profile.id, profile.feed_price, rooftops)
