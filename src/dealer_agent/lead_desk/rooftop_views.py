"""A rooftop as leads and calendars tell of it. Pure."""

from dealer_agent.dealers.information import dealer_information
from dealer_agent.dealers.profile import Profile
from dealer_agent.leads.lead_view import RooftopView


def rooftop_view(profile: Profile, name: str) -> RooftopView:
    """A rooftop as it tells about itself; the first one where the profile knows none of that name any more."""
    rooftops = zip(profile.rooftops, dealer_information(profile).rooftops, strict=True)
    known = {rooftop.name: (rooftop.timezone, told) for rooftop, told in rooftops}
    zone, told = known.get(name) or known[profile.rooftops[0].name]
    phones = {named.name: named.value for named in told.phones or ()}
    emails = {named.name: named.value for named in told.emails or ()}
    return RooftopView(
        name=told.name,
        zone=zone,
        url=told.website or None,
        phone=_of_sales(phones),
        email=_of_sales(emails),
        address=told.address or None,
    )


def _of_sales(by_department: dict[str, str]) -> str | None:
    return by_department.get("sales") or next(iter(by_department.values()), None)
