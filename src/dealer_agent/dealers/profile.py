"""The dealer's profile: the types of the top of `dealer.toml` and of its rooftops. Pure.

docs/reference/settings.md has the meaning of each key. The annotations have all rules. `config` checks them before it
creates a `Profile`, so other code trusts the values. Money is in whole US dollars.
"""

from datetime import datetime, timedelta
from typing import Annotated, Literal, get_args

from msgspec import UNSET, Meta, Struct, UnsetType, field

from dealer_agent.dealers import profile_checks as checks
from dealer_agent.dealers.opening import Dates, Opening, opening_hours_fit
from dealer_agent.dealers.profile_checks import Text, must_satisfy, read_by
from dealer_agent.protocol.requests import VisitKind
from dealer_agent.protocol.vehicle import Fee, FeedPrice, SaleCondition


class Geo(Struct, frozen=True, forbid_unknown_fields=True):
    """WGS 84 degrees."""

    latitude: Annotated[float, Meta(ge=-90, le=90)]
    longitude: Annotated[float, Meta(ge=-180, le=180)]


class RooftopAddress(Struct, frozen=True, forbid_unknown_fields=True):
    """A rooftop's postal address."""

    address_line_1: Text
    city: Text
    state: Text
    zip: Text
    address_line_2: Text | UnsetType = UNSET
    country: Annotated[str, read_by(checks.read_country)] = "US"


class VisitRules(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one kind of visit is booked at a rooftop (docs/protocol.md#confirmation). `places` of them may overlap.

    `hours` names the department whose hours apply. `grid_minutes` count from midnight in the rooftop's local time.
    """

    hours: Text = "sales"
    duration_minutes: Annotated[int, Meta(ge=15, le=480)] = 60
    durations_allowed: tuple[Annotated[int, Meta(ge=15, le=480)], ...] = ()
    places: Annotated[int, Meta(ge=1, le=1000)] = 1
    grid_minutes: Literal[15, 30, 45, 60, 90, 120] = 30
    notice_minutes: Annotated[int, Meta(ge=0, le=20160)] = 120
    horizon_days: Annotated[int, Meta(ge=1, le=365)] = 30
    closed_dates: Dates = ()


MOST_ROOFTOPS = 500
MOST_AREA_OFFERS = 1000
MOST_CHANNELS = 20
"""The most channels of each kind of a rooftop. Each lead has a delivery to each channel, in its transaction."""
DeliveryFormat = Literal["adf", "json"]
Notice = Literal["withdrawal", "erasure"]
Guess = Literal["name", "feed_price", "timezone"]
"""A key that `init` has guessed."""
ALL_NOTICES: tuple[Notice, ...] = get_args(Notice)


class Channel(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A receiver of a rooftop's leads. It gets the `notices` about leads that it has."""

    name: Annotated[str, read_by(checks.read_slug)]
    notices: tuple[Notice, ...] = ALL_NOTICES


class SmtpChannel(Channel, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A CRM's mailbox for leads. It gets ADF as plain text through the server of `[mail]`."""

    to: Annotated[tuple[Annotated[str, read_by(checks.read_email)], ...], Meta(min_length=1)]


class HttpChannel(Channel, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The URL to which leads are posted. `secret_env` names the environment variable with the key of the signature."""

    url: Annotated[str, read_by(checks.read_channel_address)]
    format: DeliveryFormat = "adf"
    secret_env: Annotated[str, read_by(checks.read_environment_name)] | UnsetType = UNSET
    authorization_env: Annotated[str, read_by(checks.read_environment_name)] | UnsetType = UNSET
    timeout_seconds: Annotated[int, Meta(ge=1, le=120)] = 20


class FolderChannel(Channel, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A folder that gets one file for each lead. A relative path starts at the folder of `dealer.toml`."""

    path: Text
    format: DeliveryFormat = "adf"


class Deliver(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The receivers of a rooftop's leads. Every channel gets every lead. Staff in `notify` get a readable mail."""

    smtp: Annotated[tuple[SmtpChannel, ...], Meta(max_length=MOST_CHANNELS)] = ()
    http: Annotated[tuple[HttpChannel, ...], Meta(max_length=MOST_CHANNELS)] = ()
    directory: Annotated[tuple[FolderChannel, ...], Meta(max_length=MOST_CHANNELS)] = ()
    notify: Annotated[tuple[Annotated[str, read_by(checks.read_email)], ...], Meta(max_length=100)] = ()

    @property
    def channels(self) -> dict[str, Channel]:
        """The channels to CRMs by name, in the order of these settings."""
        return {channel.name: channel for channel in (*self.smtp, *self.http, *self.directory)}


class DealerRooftop(Opening, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A sales location. `feed_ids` are its dealer ids and names in feeds. `store_code` is for DMC-12.

    Absent `fees` are unknown. Empty `fees` mean that there are none. Only with known fees can a price before fees
    become an advertised price. `visits` is by kind of visit. Staff arrange a kind that is absent (`requested`).
    """

    name: Text
    timezone: Annotated[str, read_by(checks.read_time_zone)]
    feed_ids: tuple[Text, ...] = ()
    store_code: Annotated[str, read_by(checks.read_store_code)] | UnsetType = UNSET
    legal_name: Text | UnsetType = UNSET
    website: Annotated[str, read_by(checks.read_web_address)] | UnsetType = UNSET
    notes: Text | UnsetType = UNSET
    capabilities: tuple[Text, ...] = ()
    address: Annotated[RooftopAddress, must_satisfy(checks.zip_fits_country)] | UnsetType = UNSET
    geo: Geo | UnsetType = UNSET
    phones: dict[str, Annotated[str, read_by(checks.read_phone)]] = field(default_factory=dict)
    emails: dict[str, Annotated[str, read_by(checks.read_email)]] = field(default_factory=dict)
    fees: tuple[Fee, ...] | UnsetType = UNSET
    visits: Annotated[
        dict[VisitKind, Annotated[VisitRules, must_satisfy(checks.durations_are_multiples_of_15)]],
        must_satisfy(checks.visit_kinds_are_known),
    ] = field(default_factory=dict)
    deliver: Annotated[Deliver, must_satisfy(checks.channel_names_are_unique)] = Deliver()


class AreaOffer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An amount off for buyers whose ZIP code starts with one of the prefixes. Empty conditions or makes mean all."""

    zip_prefixes: Annotated[tuple[Annotated[str, read_by(checks.read_zip_prefix)], ...], Meta(min_length=1)]
    amount_off: Annotated[int, Meta(ge=1, le=2**63 - 1)]
    conditions: tuple[SaleCondition, ...] = ()
    makes: tuple[Text, ...] = ()


class Policies(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The dealer's policies. `text` is for shoppers. `max_shrink` is an older name of the check `units_lost`.

    `privacy_notice` is the web address of the dealer's privacy notice, which shoppers see.
    """

    text: Text | UnsetType = UNSET
    privacy_notice: Annotated[str, read_by(checks.read_web_address)] | UnsetType = UNSET
    remember_sold_days: Annotated[int, Meta(ge=0, le=3650)] = 90
    duplicate_window_hours: Annotated[int, Meta(ge=0, le=8760)] = 24
    max_shrink: Annotated[float, Meta(ge=0, le=1)] | UnsetType = UNSET


class PrivacySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long data is stored, in days: leads after their last use, consents after their last event.

    The defaults of these two are US law: 16 CFR 314.4(c)(6) (at most two years), 16 CFR 310.5 (five years). A key to
    customer data is replaced and destroyed at the age `rotate_keys_days`; 0 means never.
    """

    keep_leads_days: Annotated[int, Meta(ge=1, le=3650)] = 730
    keep_consents_days: Annotated[int, Meta(ge=1, le=3650)] = 1826
    keep_accesses_days: Annotated[int, Meta(ge=1, le=3650)] = 730
    keep_refusals_days: Annotated[int, Meta(ge=1, le=3650)] = 90
    keep_counts_days: Annotated[int, Meta(ge=1, le=3650)] = 400
    rotate_keys_days: Annotated[int, Meta(ge=0, le=3650)] = 30
    heads_file: Annotated[Text, read_by(checks.read_file_path)] = "consent-heads.log"


class Profile(Struct, frozen=True, eq=False, kw_only=True, forbid_unknown_fields=True):
    """The dealer. `feed_price` is the meaning of the selling price in the feed (docs/protocol.md#feed-price).

    `guesses` are the keys that `init` has guessed and nobody has checked. A guessed time zone is not published.

    Profiles are compared by identity, so a profile can be the key of a cache.
    """

    id: Annotated[str, read_by(checks.read_slug)]
    name: Text
    welcome_message: Text | UnsetType = UNSET
    feed_price: FeedPrice
    guesses: tuple[Guess, ...] = ()
    rooftops: Annotated[
        tuple[DealerRooftop, ...],
        must_satisfy(checks.rooftop_names_are_unique, checks.visits_have_hours, opening_hours_fit, min_length=1),
        Meta(max_length=MOST_ROOFTOPS),
    ]
    area_offers: Annotated[tuple[AreaOffer, ...], Meta(max_length=MOST_AREA_OFFERS)] = ()
    policies: Policies = Policies()
    privacy: PrivacySettings = PrivacySettings()

    @property
    def timezone(self) -> str:
        """The time zone of the dealer's days and months: that of the first rooftop."""
        return self.rooftops[0].timezone


def erase_before(kept: PrivacySettings, now: datetime) -> dict[str, datetime]:
    """The limits for `storage.privacy.erasure.dispose`."""
    return {
        "leads_unused_since": now - timedelta(days=kept.keep_leads_days),
        "consents_before": now - timedelta(days=kept.keep_consents_days),
    }


def purge_before(kept: PrivacySettings, now: datetime) -> dict[str, datetime]:
    """The limits for `storage.privacy.erasure.purge`.

    The limit of the access log is a midnight, so that its hourly deletion, which adds an entry, deletes once a day.
    """
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    return {
        "refusals_before": now - timedelta(days=kept.keep_refusals_days),
        "accesses_before": today - timedelta(days=kept.keep_accesses_days),
        "counts_before": today - timedelta(days=kept.keep_counts_days),
    }
