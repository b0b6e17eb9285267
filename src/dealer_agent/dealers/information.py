"""What dealer.information answers (contract, part 5). Pure."""

from msgspec import UNSET, UnsetType

from dealer_agent.dealers.profile import DealerRooftop, Profile, WeekHours
from dealer_agent.dealers.rules import read_email, read_hours, read_phone
from dealer_agent.protocol.responses import DealerInformation, GeoPoint, Named, PostalAddress, Rooftop, Schedule, Week


def dealer_information(profile: Profile) -> DealerInformation:
    """The dealer as buyers see it: phones as E.164, hours as `HH:MM`, the house's policies in every rooftop's notes.

    What the profile leaves out is absent, never empty; `fees` alone may be empty: the dealer says that there are none.
    """
    return DealerInformation(
        name=profile.name,
        welcome_message=profile.welcome_message,
        rooftops=tuple(_rooftop(rooftop, profile.policies.text) for rooftop in profile.rooftops),
    )


def _rooftop(rooftop: DealerRooftop, policies: str | UnsetType) -> Rooftop:
    return Rooftop(
        name=rooftop.name,
        legal_name=rooftop.legal_name,
        website=rooftop.website,
        geo=GeoPoint(rooftop.geo.latitude, rooftop.geo.longitude) if rooftop.geo is not UNSET else UNSET,
        emails=tuple(Named(name, read_email(value)) for name, value in rooftop.emails.items()) or UNSET,
        phones=tuple(Named(name, read_phone(value)) for name, value in rooftop.phones.items()) or UNSET,
        address=_address(rooftop),
        schedules=tuple(Schedule(department, _week(hours)) for department, hours in rooftop.hours.items()) or UNSET,
        timezone=rooftop.timezone,
        notes="\n\n".join(text for text in (rooftop.notes, policies) if text is not UNSET) or UNSET,
        capabilities=rooftop.capabilities or UNSET,
        fees=rooftop.fees,
    )


def _address(rooftop: DealerRooftop) -> PostalAddress | UnsetType:
    address = rooftop.address
    if address is UNSET:
        return UNSET
    return PostalAddress(
        address_line_1=address.address_line_1,
        address_line_2=address.address_line_2,
        city=address.city,
        state=address.state,
        zip=address.zip,
        country=address.country,
    )


def _week(hours: WeekHours) -> Week:
    return Week(
        monday=read_hours(hours.monday),
        tuesday=read_hours(hours.tuesday),
        wednesday=read_hours(hours.wednesday),
        thursday=read_hours(hours.thursday),
        friday=read_hours(hours.friday),
        saturday=read_hours(hours.saturday),
        sunday=read_hours(hours.sunday),
    )
