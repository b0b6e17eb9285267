"""Settings are read once and validated at start, with messages that name the key and the line."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dealer_agent.config import Settings, SettingsError, load_settings
from dealer_agent.config.installation import load_served
from dealer_agent.config.settings import DealerFile
from dealer_agent.config.settings_problems import find_problems

Load = Callable[[str], Settings]
Refuse = Callable[[str], list[str]]

LEAST = """\
id = "acme"
name = "Acme Motors"
feed_price = "advertised"
[[rooftops]]
name = "North"
timezone = "America/Chicago"
"""
"""The shortest file that will do; six lines."""

EVERYTHING = """\
id = "acme"
name = "Acme Motors"
welcome_message = "Hello"
feed_price = "before_fees"

[[rooftops]]
name = "North"
timezone = "America/Chicago"
feed_ids = ["MP1", "Acme North"]
legal_name = "Acme North, LLC"
website = "https://www.example.com"
notes = "Parking behind the building."
capabilities = ["sales"]
geo = { latitude = 36, longitude = -86.79 }
[rooftops.address]
address_line_1 = "1 Example Way"
city = "Nashville"
state = "TN"
zip = "37203"
[rooftops.phones]
sales = "+1 202 555 0123"
[rooftops.emails]
sales = "sales@example.com"
[rooftops.hours.sales]
monday = "09:00-20:00"
[[rooftops.special_days]]
date = "2026-12-24"
hours = "09:00-14:00"
departments = ["sales"]
[[rooftops.special_days]]
holiday = "Thanksgiving Day"
hours = "closed"
[rooftops.holidays]
country = "US"
subdivision = "TN"
hours = "10:00-12:00, 18:00-02:00"
[[rooftops.fees]]
name = "Documentation fee"
amount = 399

[[rooftops]]
name = "South"
timezone = "America/New_York"
fees = []

[[area_offers]]
zip_prefixes = ["372"]
amount_off = 500
conditions = ["new"]
makes = ["Toyota"]

[policies]
text = "Five-day return."
max_shrink = 1

[service]
public_url = "https://agent.example.com/"
base_path = "/agent"
vocabulary = "autoagent"
revision = "0.1.0"
skills_off = ["lead.submit"]
trusted_proxies = ["10.0.0.0/8", "::1"]

[search]
default_limit = 50
limit_cap = 50

[auth]
mode = "bearer"
skills = ["lead.submit"]

[rate_limits]
lead_submit = "5/minute; 50/day"
address = ""

[logs]
level = "warning"
access = false
"""
"""Every section, and in it every kind of value."""


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load the settings of a `dealer.toml` with this text."""

    def loaded(text: str) -> Settings:
        (tmp_path / "dealer.toml").write_text(text, "utf-8", newline="")
        return load_settings(tmp_path, {})

    return loaded


@pytest.fixture
def refuse(load: Load) -> Refuse:
    """The problems of a `dealer.toml` with this text, as shown."""

    def refused(text: str) -> list[str]:
        with pytest.raises(SettingsError) as refusal:
            load(text)
        return [problem.removeprefix("dealer.toml, ") for problem in str(refusal.value).splitlines()]

    return refused


def test_the_shortest_file_has_the_contracts_defaults(load: Load) -> None:
    settings = load(LEAST)
    assert settings.dealer.id == "acme"
    assert settings.dealer.rooftops[0].timezone == "America/Chicago"
    # The defaults that docs/protocol.md names.
    assert (settings.service.vocabulary, settings.service.revision) == ("proto", "1.0.0")
    assert (settings.service.base_path, settings.service.public_url) == ("", "")
    assert settings.service.error_domain == "proto.example"
    assert settings.service.lenient_configuration is False
    assert (settings.service.body_limit_kib, settings.service.lead_body_limit_kib) == (32, 256)
    assert (settings.search.default_limit, settings.search.limit_cap) == (20, 100)
    policies = settings.dealer.policies
    assert (policies.remember_sold_days, policies.duplicate_window_hours, policies.max_shrink) == (
        90,
        24,
        msgspec.UNSET,
    )
    assert (settings.auth.mode, settings.auth.skills) == ("none", ())


def test_a_file_with_everything_is_read(load: Load) -> None:
    settings = load(EVERYTHING)
    north, south = settings.dealer.rooftops
    assert north.feed_ids == ("MP1", "Acme North")
    assert north.fees is not msgspec.UNSET
    assert [(fee.name, fee.amount) for fee in north.fees] == [("Documentation fee", 399)]
    assert north.hours["sales"].monday == "09:00-20:00"
    assert north.hours["sales"].sunday == "closed"
    assert [(day.date, day.holiday, day.hours, day.departments) for day in north.special_days] == [
        ("2026-12-24", msgspec.UNSET, "09:00-14:00", ("sales",)),
        (msgspec.UNSET, "Thanksgiving Day", "closed", ()),
    ]
    assert north.holidays
    assert (north.holidays.region, north.holidays.hours) == (("US", "TN"), "10:00-12:00, 18:00-02:00")
    assert south.fees == ()
    assert settings.dealer.area_offers[0].zip_prefixes == ("372",)
    assert settings.service.public_url == "https://agent.example.com"
    assert settings.service.trusted_proxies == ("10.0.0.0/8", "::1")
    assert settings.rate_limits.by_rule["lead.submit"] == "5/minute; 50/day"
    assert settings.rate_limits.address == ""
    assert settings.logs.access is False


def test_the_database_is_a_file_beside_the_settings_unless_the_environment_names_one(tmp_path: Path) -> None:
    (tmp_path / "dealer.toml").write_text(LEAST)
    assert load_settings(tmp_path, {}).database_url == f"sqlite:///{tmp_path / 'dealer-agent.db'}"
    assert load_settings(tmp_path, {"DATABASE_URL": ""}).database_url == f"sqlite:///{tmp_path / 'dealer-agent.db'}"
    assert load_settings(tmp_path, {"DATABASE_URL": "postgresql://db/x"}).database_url == "postgresql://db/x"


def test_all_problems_are_told_at_once_from_top_to_bottom(refuse: Refuse) -> None:
    text = """\
id = "Acme Motors"
nmae = "Acme"
feed_price = "advertized"

[[rooftops]]
name = "North"
timezone = "America/New_York"

[[rooftops]]
name = "north"
timezone = "America/Chicgo"
phones = { sales = 2025550123 }
  [rooftops.address]
  address_line_1 = "1 Example Way"
  city = "Nashville"
  state = "TN"
  zip = "3720"

[auth]
skills = ["lead.sumbit"]
max_shrink = 0.2
"""
    assert refuse(text) == [
        "line 1: id: 'Acme Motors' must be 1 to 63 lower-case letters, digits and hyphens, such as 'my-store'",
        'line 1: name: is missing; write name = "..."',
        "line 2: nmae: unknown key; did you mean name?",
        "line 3: feed_price: 'advertized' must be one of 'advertised', 'before_fees'; did you mean advertised?",
        "line 10: rooftops[1].name: 'north' is the name of another rooftop; give each its own",
        "line 11: rooftops[1].timezone: 'America/Chicgo' is not an IANA area; did you mean America/Chicago?",
        "line 12: rooftops[1].phones.sales: 2025550123 must be text in quotes",
        "line 17: rooftops[1].address.zip: '3720' is not a ZIP code; write '37203', or '37203-1234'",
        "line 20: auth.skills[0]: 'lead.sumbit' must be one of dealer.information, inventory.facets, "
        "inventory.search, inventory.vehicle, lead.submit, inventory.changes, offer.quote, offer.hold, offer.release, "
        "offer.status, lead.status, visit.move, visit.cancel; did you mean lead.submit?",
        'line 20: auth.skills: names skills that ask for a token, but mode is "none"; write mode = "bearer"',
        "line 21: auth.max_shrink: unknown key; it belongs under [policies]",
    ]


@pytest.mark.parametrize(
    ("added", "problem"),
    [
        ("feed_id = ['a']", "line 7: rooftops[0].feed_id: unknown key; did you mean feed_ids?"),
        ("feed_ids = 'a'", 'line 7: rooftops[0].feed_ids: must be a list: ["...", "..."]'),
        ("feed_ids = [4711]", "line 7: rooftops[0].feed_ids[0]: 4711 must be text in quotes"),
        ("feed_price = 'advertised'", "line 7: rooftops[0].feed_price: unknown key; it belongs at the top of the file, "
         "above the first [section]"),
        ("port = 8443", "line 7: rooftops[0].port: unknown key; it belongs under [feeds.sftp], or under [metrics], "
         "or under [mail], or under [sftp], or on the command line: dealer-agent serve --port"),
        ("workers = 2", "line 7: rooftops[0].workers: unknown key; it belongs on the command line: "
         "dealer-agent serve --workers"),
        ("amount_off = 5", "line 7: rooftops[0].amount_off: unknown key; it belongs under [[area_offers]]"),
        ("zqx = 5", "line 7: rooftops[0].zqx: unknown key"),
        ("website = 'example.com'", "line 7: rooftops[0].website: 'example.com' is not a web address; write it in full"
         ", such as 'https://www.example.com'"),
        ("notes = 2026-11-20", "line 7: rooftops[0].notes: the date or time 2026-11-20 must be text in quotes"),
        ("notes = ''", "line 7: rooftops[0].notes: is empty; write something, or leave the key out"),
        ("geo = 'here'", "line 7: rooftops[0].geo: must be a section: [rooftops.geo]"),
        ("phones = []", "line 7: rooftops[0].phones: must be a section: [rooftops.phones]"),
        ("geo = {latitude = 91, longitude = 0}", "line 7: rooftops[0].geo.latitude: 91 is too large; write at most 90"),
        ("geo = {latitude = 9, longitude = nan}", "line 7: rooftops[0].geo.longitude: nan is too small; the least is "
         "-180"),
        ("[rooftops.fees]\nname = 'Doc'", "line 7: rooftops[0].fees: must be a list of sections, each headed "
         "[[rooftops.fees]] with two brackets"),
        ("[[rooftops.fees]]\nname = 'Doc'\namount = 399.0", "line 9: rooftops[0].fees[0].amount: 399.0 must be a whole "
         "number, without quotes"),
        ("[[rooftops.fees]]\nname = 'Doc'", "line 7: rooftops[0].fees[0].amount: is missing; write amount = ..."),
        ("[[rooftops.fees]]\nname = 'Doc'\namount = true", "line 9: rooftops[0].fees[0].amount: true must be a whole "
         "number, without quotes"),
        ("[[rooftops.fees]]\nname = 'Doc'\namount = -1", "line 9: rooftops[0].fees[0].amount: -1 is too small; the "
         "least is 0"),
        ("[rooftops.hours.sales]\nmonday = '9 to 5'", "line 8: rooftops[0].hours.sales.monday: '9 to 5' must be hours "
         "on the 24-hour clock, such as '09:00-20:00' or '09:00-12:00, 13:00-18:00', or 'closed'"),
        ("[[area_offers]]\nzip_prefixes = []\namount_off = 5", "line 8: area_offers[0].zip_prefixes: needs at least 1 "
         "entry"),
        ("[[area_offers]]\nzip_prefixes = ['3']\namount_off = 0", "line 9: area_offers[0].amount_off: 0 is too small; "
         "the least is 1"),
        ("[[area_offers]]\nzip_prefixes = ['3']\namount_off = 1\nconditions = ['good']", "line 10: "
         "area_offers[0].conditions[0]: 'good' must be one of 'cpo', 'new', 'used'"),
        ("[rooftops.hours.sales]\n[rooftops.visits.testdrive]", "line 8: rooftops[0].visits.testdrive: must be one of "
         "sales, service, test_drive, trade_in, handover, phone_call, video_call; did you mean test_drive?"),
        ("[rooftops.visits.test_drive]\nplaces = 2", "line 7: rooftops[0].visits.test_drive.hours: there is no "
         "[rooftops.hours.sales]; write one, or name another department"),
        ("[rooftops.hours.sales]\n[rooftops.visits.sales]\nduration_minutes = 50", "line 9: "
         "rooftops[0].visits.sales.duration_minutes: 50 must be a multiple of 15 minutes"),
        ("[rooftops.hours.sales]\n[rooftops.visits.sales]\ndurations_allowed = [15, 20]", "line 9: "
         "rooftops[0].visits.sales.durations_allowed[1]: 20 must be a multiple of 15 minutes"),
        ("[rooftops.hours.sales]\n[rooftops.visits.sales]\ngrid_minutes = 20", "line 9: "
         "rooftops[0].visits.sales.grid_minutes: 20 must be one of 15, 30, 45, 60, 90, 120"),
        ("closed_dates = ['Dec 25']", "line 7: rooftops[0].closed_dates[0]: 'Dec 25' is not a date from 2000 to 2199; "
         "write it in quotes as '2026-12-25'"),
        ("closed_dates = ['2026-02-30']", "line 7: rooftops[0].closed_dates[0]: '2026-02-30' is not a date from 2000 "
         "to 2199; write it in quotes as '2026-12-25'"),
        ("[[rooftops.deliver.http]]\nname = 'crm'\nurl = 'https://crm.example.com'\nsecret_env = 'no!'", "line 10: "
         "rooftops[0].deliver.http[0].secret_env: must be the name of an environment variable that holds the secret, "
         "such as 'CRM_SECRET'"),
        ("[[rooftops.deliver.directory]]\nname = 'a'\npath = 'x'\n[[rooftops.deliver.directory]]\nname = 'a'\n"
         "path = 'y'", "line 11: rooftops[0].deliver.directory[1].name: 'a' is the name of another channel; give each "
         "its own"),
        ("[[rooftops.deliver.smtp]]\nname = 'crm'\nto = []", "line 9: rooftops[0].deliver.smtp[0].to: needs at least 1 "
         "entry"),
        ("[privacy]\nkeep_leads_days = 0", "line 8: privacy.keep_leads_days: 0 is too small; the least is 1"),
        ("[privacy]\nheads_file = '..'", "line 8: privacy.heads_file: '..' is not a file; write a file's name or path, "
         "such as 'consent-heads.log'"),
        ("[privacy]\nheads_file = 'heads/'", "line 8: privacy.heads_file: 'heads/' is not a file; write a file's name "
         "or path, such as 'consent-heads.log'"),
        ("[mail]\nfrom_address = 'me'", "line 8: mail.from_address: 'me' is not an e-mail address: An email address "
         "must have an @-sign."),
        ("[policies]\nmax_shrink = 30", "line 8: policies.max_shrink: 30 is too large; write at most 1"),
        ("[service]\ntrusted_proxies = ['10.0.0.1/8']", "line 8: service.trusted_proxies[0]: 10.0.0.1/8 has host bits "
         "set; write an address or a network, such as '10.0.0.0/8'"),
        ("[service]\nlenient_configuration = 1", "line 8: service.lenient_configuration: 1 must be true or false, "
         "without quotes"),
        ("[service]\npublic_url = 'https://example.com/?a'", "line 8: service.public_url: 'https://example.com/?a' "
         "must end with the host or the path; leave out what begins with ? or #"),
        ("[service]\nbase_path = 'agent'", "line 8: service.base_path: 'agent' must begin with a slash and end without "
         "one, such as '/agent'"),
        ("[service]\nbase_path = '/agent/'", "line 8: service.base_path: '/agent/' must begin with a slash and end "
         "without one, such as '/agent'"),
        ("[service]\nbody_limit_kib = 0", "line 8: service.body_limit_kib: 0 is too small; the least is 1"),
        ("[search]\ndefault_limit = 51", "line 8: search.default_limit: 51 is too large; write at most 50"),
        ("[search]\nlimit_cap = 1001", "line 8: search.limit_cap: 1001 is too large; write at most 1000"),
        ("[search]\nlimit_cap = 10", "line 7: search.default_limit: 20 is more than limit_cap, 10; write a "
         "default_limit of at most 10, or raise limit_cap"),
        ("[rate_limits]\nlead_submit = 'ten a minute'", "line 8: rate_limits.lead_submit: 'ten a minute' is not a rate "
         "limit; write it as '600/minute' or '10/minute; 100/day'"),
        ("[rate_limits]\nlead_submit = '0/minute'", "line 8: rate_limits.lead_submit: '0/minute' allows no request; to "
         "switch a skill off, name it in skills_off"),
        ("[rate_limits]\ninventory.search = '1/minute'", "line 8: rate_limits.inventory: unknown key; did you mean "
         "inventory_search?"),
    ],
)  # fmt: skip
def test_a_problem_names_its_line_and_key_and_says_what_to_do(refuse: Refuse, added: str, problem: str) -> None:
    assert refuse(LEAST + added) == [problem]


@pytest.mark.parametrize(
    "added",
    [
        "fees = []",
        "capabilities = []",
        "geo = { latitude = 36, longitude = -90 }",
        "[rooftops.hours.motorcycles]",
        "closed_dates = ['2026-12-25']",
        "[rooftops.hours.sales]\n[rooftops.visits.test_drive]\nduration_minutes = 45\ndurations_allowed = [30]",
        "[rooftops.deliver]\nnotify = ['a@example.com']",
        "[[rooftops.deliver.smtp]]\nname = 'crm'\nto = ['b@example.com']",
        "[mail]\nhost = 'localhost'\nport = 25\nsecurity = 'none'",
        "[auth]\nskills = []",
        "[auth]\nmode = 'bearer'",
        "[auth]\nmode = 'bearer'\nskills = ['lead.submit', 'inventory.search']",
        "[search]\ndefault_limit = 10\nlimit_cap = 10",
        "[service]\npublic_url = ''\nbase_path = ''",
        "[service]\nbase_path = '/a/b'",
        "[service]\npublic_url = 'http://127.0.0.1:8080'",
        "[service]\ntrusted_proxies = ['192.0.2.1', '2001:db8::/32']",
        "[rate_limits]\nlead_submit = '1 per 5 minutes'\nbad_tokens = ''",
        "[policies]\nmax_shrink = 0\nremember_sold_days = 0",
    ],
)
def test_what_a_dealer_may_write_is_taken(load: Load, added: str) -> None:
    assert load(LEAST + added).dealer.name == "Acme Motors"


@pytest.mark.requirement("dealer-rooftops")
def test_a_dealer_needs_a_rooftop(refuse: Refuse) -> None:
    """At least one."""
    top = "".join(LEAST.splitlines(keepends=True)[:3])
    assert refuse(top) == ["line 1: rooftops: is missing; write at least one [[rooftops]] section"]
    assert refuse(top + "rooftops = []") == ["line 4: rooftops: needs at least 1 entry"]


@pytest.mark.requirement("feed-price-default")
def test_what_the_feeds_price_is_must_be_said(refuse: Refuse) -> None:
    """The meaning of the price is never guessed."""
    assert refuse(LEAST.replace('feed_price = "advertised"\n', "")) == [
        'line 1: feed_price: is missing; write feed_price = "advertised" or feed_price = "before_fees"'
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('id = "acme"\nname = Acme\n', "line 2: is not TOML: Invalid value"),
        ('id = "acme"\nid = "b"\n', "line 2: is not TOML: Cannot overwrite a value"),
        ('id = "acme"\nname = "', "line 2: is not TOML: Unterminated string"),
        ("zip = 01234\n", "line 1: is not TOML: Expected newline or end of document after a statement"),
    ],
)
def test_malformed_toml_is_refused_with_its_line(refuse: Refuse, text: str, problem: str) -> None:
    assert refuse(text) == [problem]


def test_a_missing_file_says_which_command_writes_one(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="make one with `dealer-agent init`"):
        load_settings(tmp_path, {})


def test_a_file_that_is_not_utf8_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "dealer.toml").write_bytes('id = "acme"\nname = "Citroën"'.encode("cp1252"))
    with pytest.raises(SettingsError, match="line 2: is not UTF-8"):
        load_settings(tmp_path, {})


def test_a_file_that_cannot_be_read_is_no_crash(tmp_path: Path) -> None:
    (tmp_path / "dealer.toml").mkdir()
    with pytest.raises(SettingsError, match="is a folder and must be a file"):
        load_settings(tmp_path, {})


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(load: Load) -> None:
    assert load("\ufeff" + LEAST.replace("\n", "\r\n")).dealer.name == "Acme Motors"


_WORDS = st.sampled_from(["acme", "closed", "America/Chicago", "09:00-10:00", "bearer", "", "5/minute", "lead.submit"])
_ANY = st.recursive(
    st.one_of(_WORDS, st.integers(-5, 2000), st.floats(allow_nan=True), st.booleans(), st.dates(), st.times()),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(_WORDS, inner, max_size=2)),
    max_leaves=3,
)
_SECTIONS = {
    "policies": ["text", "remember_sold_days", "max_shrink"],
    "service": ["public_url", "base_path", "revision", "skills_off", "body_limit_kib", "lenient_configuration"],
    "search": ["default_limit", "limit_cap"],
    "auth": ["mode", "skills"],
    "logs": ["level", "access"],
}
_ROOFTOP = ["name", "timezone", "feed_ids", "address", "geo", "phones", "emails", "hours", "fees"]


@given(st.data())
def test_what_has_no_defect_is_converted(data: st.DataObject) -> None:
    def table(keys: list[str]) -> dict[str, object]:
        return data.draw(st.dictionaries(st.sampled_from(keys), _ANY, max_size=2))

    rooftop = {"name": "North", "timezone": "America/Chicago"} | table(_ROOFTOP)
    section = data.draw(st.sampled_from(sorted(_SECTIONS)))
    file: dict[str, object] = {"id": "acme", "name": "Acme", "feed_price": "advertised", "rooftops": [rooftop]}
    file[section] = table(_SECTIONS[section])
    if find_problems(DealerFile, file):
        return
    assert isinstance(msgspec.convert(file, DealerFile), DealerFile)


@pytest.mark.parametrize(
    "url",
    [
        "valkey://db.example.com",
        "redis://127.0.0.1:6379/0",
        "rediss://user:secret@db.example.com:6380",
        "valkeys://:secret@[::1]:6379/1?socket_timeout=2",
    ],
)
def test_the_shared_store_of_rate_limits_is_valkey_or_redis(tmp_path: Path, url: str) -> None:
    (tmp_path / "dealer.toml").write_text(LEAST)
    assert load_served(tmp_path, {"RATE_LIMIT_URL": url}).rate_limit_url == url
    assert load_served(tmp_path, {"RATE_LIMIT_URL": ""}).rate_limit_url == ""


@pytest.mark.parametrize(
    "url", ["secret", "postgresql://user:secret@db/x", "valkey://", "valkey://:secret@", "redis://secret@db:port"]
)
def test_another_url_of_a_shared_store_is_refused_and_not_shown(tmp_path: Path, url: str) -> None:
    (tmp_path / "dealer.toml").write_text(LEAST)
    with pytest.raises(SettingsError, match="RATE_LIMIT_URL: write valkey://host:6379") as refused:
        load_served(tmp_path, {"RATE_LIMIT_URL": url})
    assert "secret" not in str(refused.value)


def test_the_environment_limits_the_connections(tmp_path: Path) -> None:
    (tmp_path / "dealer.toml").write_text(LEAST)
    assert load_served(tmp_path, {}).file.installation.database_connections == 10
    assert load_served(tmp_path, {"DATABASE_CONNECTIONS": "3"}).file.installation.database_connections == 3
    for wrong in ("2", "1001", "-5", "ten", "99999"):
        with pytest.raises(SettingsError, match=r"DATABASE_CONNECTIONS: '.+' must be a number from 3 to 1000"):
            load_served(tmp_path, {"DATABASE_CONNECTIONS": wrong})


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (
            "".join(f'[[rooftops]]\nname = "R{number}"\ntimezone = "America/Chicago"\n' for number in range(500)),
            "rooftops: has 501 entries; write at most 500",
        ),
        (
            '[[area_offers]]\nzip_prefixes = ["372"]\namount_off = 1\n' * 1001,
            "area_offers: has 1001 entries; write at most 1000",
        ),
        (
            "".join(
                f'[[rooftops.deliver.http]]\nname = "c{number}"\nurl = "https://crm.example.com/"\n'
                for number in range(21)
            ),
            "rooftops[0].deliver.http: has 21 entries; write at most 20",
        ),
        ("#" * (2 << 20), "is larger than 2 MiB; shorten its texts"),
    ],
    ids=["rooftops", "area offers", "channels", "bytes"],
)
def test_lists_in_settings_have_a_bound(refuse: Refuse, more: str, problem: str) -> None:
    """Each lead has a delivery to each channel, and each process keeps the settings of many dealers."""
    assert any(problem in line for line in refuse(LEAST + more))
