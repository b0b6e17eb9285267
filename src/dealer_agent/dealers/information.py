"""The response of dealer.information (docs/protocol.md#dealer-information). Pure."""

from msgspec import UNSET
from msgspec.structs import asdict

from dealer_agent.dealers.opening import SPANS_A_DAY, Opening, Span, hours_text, read_hours
from dealer_agent.dealers.profile import DealerRooftop, Profile
from dealer_agent.dealers.profile_checks import read_email, read_phone
from dealer_agent.protocol.responses import GeoPoint, Named, OpenHours, PostalAddress, Rooftop, Schedule, Week
from dealer_agent.protocol.skill import DealerInformation

_LATER = ("second", "third", "fourth")
assert len(_LATER) == SPANS_A_DAY - 1, "every span of a day has a name"


def dealer_information(profile: Profile) -> DealerInformation:
    """The dealer for buyers, with phone numbers in E.164 form and hours as `HH:MM`.

    The protocol has one span for each day and no special days. So the second spans of all days are another schedule,
    `sales (second hours)`. The notes of a rooftop contain the special days and the dealer's policies. A member without
    a value is absent. Only `fees` may be empty, which means that there are none. A time zone that nobody has checked is
    absent.
    """
    return DealerInformation(
        name=profile.name,
        welcome_message=profile.welcome_message,
        rooftops=tuple(_rooftop(rooftop, profile) for rooftop in profile.rooftops),
    )


def _rooftop(rooftop: DealerRooftop, profile: Profile) -> Rooftop:
    """A rooftop as buyers see it."""
    privacy = profile.policies.privacy_notice
    notes = (
        rooftop.notes,
        _special_days(rooftop),
        profile.policies.text,
        f"Privacy notice: {privacy}" if privacy else UNSET,
    )
    return Rooftop(
        name=rooftop.name,
        legal_name=rooftop.legal_name,
        website=rooftop.website,
        geo=GeoPoint(**asdict(rooftop.geo)) if rooftop.geo else UNSET,
        emails=tuple(Named(name, read_email(value)) for name, value in rooftop.emails.items()) or UNSET,
        phones=tuple(Named(name, read_phone(value)) for name, value in rooftop.phones.items()) or UNSET,
        address=PostalAddress(**asdict(rooftop.address)) if rooftop.address else UNSET,
        schedules=_schedules(rooftop) or UNSET,
        timezone=UNSET if "timezone" in profile.guesses else rooftop.timezone,
        notes="\n\n".join(text for text in notes if text) or UNSET,
        capabilities=rooftop.capabilities or UNSET,
        fees=rooftop.fees,
    )


def _schedules(opening: Opening) -> tuple[Schedule, ...]:
    """The opening hours. A schedule has one span for each day: the second spans of the days are a further schedule."""
    found = []
    for department, hours in opening.hours.items():
        week = hours.days()
        for number in range(max(1, *map(len, week))):
            name = f"{department} ({_LATER[number - 1]} hours)" if number else department
            days = [_open_hours(spans[number]) if number < len(spans) else None for spans in week]
            found.append(Schedule(name, Week(*days)))
    return tuple(found)


def _open_hours(span: Span) -> OpenHours:
    """A span in minutes as times. If it ends on the next day, `close` is a time of that day, such as `02:00`."""
    opens, closes = (f"{minute // 60 % 24:02}:{minute % 60:02}" for minute in span)
    return OpenHours(opens, closes)


def _special_days(opening: Opening) -> str:
    """The hours of single days and of public holidays as sentences. Empty without any."""
    days = [(day, "closed") for day in opening.closed_dates]
    on_holidays = []
    for special in opening.special_days:
        whose = f" ({', '.join(special.departments)})" if special.departments else ""
        hours = hours_text(read_hours(special.hours))
        if special.date:
            days.append((special.date + whose, hours))
        if special.holiday:
            on_holidays.append((special.holiday + whose, hours))
    if opening.holidays and opening.holidays.hours:
        others = "Other public holidays" if on_holidays else "Public holidays"
        region = ", ".join(part for part in opening.holidays.region if part)
        on_holidays.append((f"{others} ({region})", hours_text(read_hours(opening.holidays.hours))))
    sentences = [f"{day}: {hours}." for day, hours in sorted(days) + on_holidays]
    return " ".join(["Special hours.", *sentences]) if sentences else ""
