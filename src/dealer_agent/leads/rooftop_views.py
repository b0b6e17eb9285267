"""A rooftop as leads and calendars tell of it. Pure."""

from dealer_agent.dealers.information import dealer_information
from dealer_agent.dealers.profile import Profile
from dealer_agent.leads.lead_view import RooftopView

_last: tuple[Profile, dict[str, RooftopView]] | None = None
"""The profile that was asked for last, and its views: each costs more than all else that is made of a lead."""


def rooftop_view(profile: Profile, name: str) -> RooftopView:
    """A rooftop as it tells about itself; the first one where the profile knows none of that name any more."""
    global _last
    last = _last
    if last is None or last[0] is not profile:
        last = _last = (profile, _views(profile))
    return last[1].get(name) or last[1][profile.rooftops[0].name]


def _views(profile: Profile) -> dict[str, RooftopView]:
    views = {}
    for rooftop, told in zip(profile.rooftops, dealer_information(profile).rooftops, strict=True):
        phones = {named.name: named.value for named in told.phones or ()}
        emails = {named.name: named.value for named in told.emails or ()}
        views[rooftop.name] = RooftopView(
            name=told.name,
            zone=rooftop.timezone,
            url=told.website or None,
            phone=_of_sales(phones),
            email=_of_sales(emails),
            address=told.address or None,
        )
    return views


def _of_sales(by_department: dict[str, str]) -> str | None:
    return by_department.get("sales") or next(iter(by_department.values()), None)
