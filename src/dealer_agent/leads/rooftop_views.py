"""The rooftops of a profile as documents show them. Pure."""

from dealer_agent.dealers.information import dealer_information
from dealer_agent.dealers.profile import Profile
from dealer_agent.leads.lead_view import RooftopView

_last: tuple[Profile, dict[str, RooftopView]] | None = None
"""The last profile and its views. To make them takes longer than to render a lead."""


def rooftop_view(profile: Profile, name: str) -> RooftopView:
    """The rooftop of this name, else the first one."""
    global _last
    last = _last
    if last is None or last[0] is not profile:
        last = _last = (profile, _views(profile))
    return last[1].get(name) or last[1][profile.rooftops[0].name]


def _views(profile: Profile) -> dict[str, RooftopView]:
    views = {}
    for rooftop, public in zip(profile.rooftops, dealer_information(profile).rooftops, strict=True):
        views[rooftop.name] = RooftopView(
            name=public.name,
            zone=rooftop.timezone,
            url=public.website or None,
            phone=_of_sales({named.name: named.value for named in public.phones or ()}),
            email=_of_sales({named.name: named.value for named in public.emails or ()}),
            address=public.address or None,
        )
    return views


def _of_sales(by_department: dict[str, str]) -> str | None:
    return by_department.get("sales") or next(iter(by_department.values()), None)
