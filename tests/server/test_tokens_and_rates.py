"""Who may ask, and how often (docs/protocol.md#authentication, docs/protocol.md#rate-limits)."""

import json
import time
from datetime import UTC, datetime, timedelta

import pytest
from tests.acceptance.running import eventually
from tests.protocol.bodies import STEMS
from tests.server.conftest import OpenDealership
from tests.server.dealership import ACCORD, NO_LIMITS, Dealership, error_of, message, run_dealership
from tests.storage.calls import read, write_at

from dealer_agent.protocol.well_known import CARD_PATH
from dealer_agent.storage.installation.replicas import list_replicas
from dealer_agent.storage.tokens import revoke_token

ALL = '[auth]\nmode = "bearer"\n' + NO_LIMITS
NAMED = '[auth]\nmode = "bearer"\nskills = ["lead.submit"]\n' + NO_LIMITS


def ask(opened: Dealership, skill: str, token: str | None = None, address: str | None = None) -> tuple[int, str]:
    """Status and code of a response. Every 401 has WWW-Authenticate, on both bindings."""
    sent = message(skill, **({"vin": ACCORD} if skill == "inventory.vehicle" else {}))
    answer = opened.post(sent, token=token, address=address)
    code = error_of(answer)["code"] if answer.status_code != 200 else ""
    assert (answer.headers.get("www-authenticate") == "Bearer") is (answer.status_code == 401)
    return answer.status_code, code


@pytest.mark.requirement(
    "bearer-required",
    "token-missing",
    "token-invalid",
    "error-auth-required",
    "www-authenticate",
    "auth-required-on-every-card",
    "deviation-auth-required",
)
def test_every_request_needs_a_token_if_every_skill_requires_one(open_dealership: OpenDealership) -> None:
    opened = open_dealership(ALL)
    _, token = opened.new_token()
    with run_dealership(opened.folder) as again:
        assert again.get("/cards/0.1.0.json").json()["auth_type"] == "bearer"
        for skill in STEMS:
            assert ask(again, skill) == (401, "AUTH_REQUIRED"), skill
            assert ask(again, skill, "wrong") == (401, "AUTH_REQUIRED"), skill
            assert ask(again, skill, token) == (200, ""), skill


@pytest.mark.parametrize("skill", STEMS)
@pytest.mark.requirement("no-token-needed")
def test_without_a_declared_token_no_skill_needs_one(dealership: Dealership, skill: str) -> None:
    assert dealership.get("/cards/0.1.0.json").json()["auth_type"] == "none"
    assert ask(dealership, skill) == (200, "")


@pytest.mark.requirement("wrong-token-401", "token-invalid")
def test_an_invalid_token_is_always_401(dealership: Dealership, open_dealership: OpenDealership) -> None:
    named = open_dealership(NAMED)
    for skill in STEMS:
        assert ask(dealership, skill, "dat_x_wrong") == (401, "AUTH_REQUIRED"), skill
        assert ask(named, skill, "dat_x_wrong") == (401, "AUTH_REQUIRED"), skill
        assert ask(named, skill) == ((401, "AUTH_REQUIRED") if skill == "lead.submit" else (200, "")), skill


@pytest.mark.requirement("token-invalid", "token-missing")
def test_only_a_complete_active_token_of_this_dealer_is_valid(open_dealership: OpenDealership) -> None:
    opened = open_dealership(ALL)
    token_id, token = opened.new_token()
    other_id, other = opened.new_token()
    secret, other_secret = token.split("_", 2)[2], other.split("_", 2)[2]
    wrong = [
        "",
        token[:-1],
        token + "x",
        token.upper(),
        secret,
        f"dat_{token_id}_",
        f"dat_{token_id}_{other_secret}",
        f"dat_{other_id}_{secret}",
        f"xyz_{token_id}_{secret}",
        f"dat__{secret}",
    ]
    with run_dealership(opened.folder) as again:
        for each in wrong:
            assert ask(again, "inventory.search", each) == (401, "AUTH_REQUIRED"), each
        sent = message("inventory.search")
        for header, status in (
            (f"Bearer {token}", 200),
            (f"bearer {token}", 200),
            (f"Bearer   {token} ", 200),
            (f"Basic {token}", 401),
            (token, 401),
            ("Bearer", 401),
        ):
            assert again.post(sent, headers={"authorization": header}).status_code == status, header


@pytest.mark.requirement("token-expiry")
def test_an_expired_token_is_answered_as_an_unknown_one_is(open_dealership: OpenDealership) -> None:
    opened = open_dealership(ALL)
    (_, expired), (_, valid) = opened.new_token(timedelta(hours=-1)), opened.new_token(timedelta(days=1))
    with run_dealership(opened.folder) as again:
        sent = message("inventory.search")
        refused, unknown = (again.post(sent, token=token) for token in (expired, "dat_x_wrong"))
        assert refused.status_code == unknown.status_code == 401
        own = {"created_at": "", "error_id": ""}
        assert error_of(refused) | own == error_of(unknown) | own
        assert ask(again, "inventory.search", valid) == (200, "")


@pytest.mark.requirement("rpc-http-status", "www-authenticate")
def test_missing_tokens_and_rate_limits_keep_their_status_over_json_rpc(open_dealership: OpenDealership) -> None:
    opened = open_dealership(ALL)
    answer = opened.call_rpc(message("inventory.search"))
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert (answer.json()["error"]["code"], error_of(answer)["code"]) == (-32000, "AUTH_REQUIRED")
    for vendor, number in (("proto", -32000), ("autoagent", -32002)):
        opened = open_dealership(NO_LIMITS.replace('inventory_search = ""', 'inventory_search = "1/hour"'))
        assert opened.call_rpc(message("inventory.search", vendor)).status_code == 200
        answer = opened.call_rpc(message("inventory.search", vendor))
        assert (answer.status_code, answer.json()["error"]["code"]) == (429, number)
        assert error_of(answer)["code"] == "RATE_LIMITED"


@pytest.mark.requirement("rpc-rate-limited", "reply-vocabulary")
@pytest.mark.usefixtures("limits_kept")
def test_a_rate_limit_over_json_rpc_uses_the_vocabulary_of_the_request(open_dealership: OpenDealership) -> None:
    opened = open_dealership(NO_LIMITS.replace('lead_submit = ""', 'lead_submit = "1/hour"'))
    assert opened.call_rpc(message("lead.submit")).status_code == 200
    answer = opened.call_rpc(message("lead.submit", "autoagent"))
    assert (answer.json()["error"]["code"], error_of(answer)["type"]) == (-32002, "aap.error")
    answer = opened.call_rpc(message("lead.submit"))
    assert (answer.json()["error"]["code"], error_of(answer)["type"]) == (-32000, "proto.error")


def within_two_seconds(opened: Dealership, token: str, expected: int) -> None:
    # Wait longer than two seconds: this test only shows that no restart is needed.
    deadline = time.monotonic() + 120
    while ask(opened, "inventory.search", token)[0] != expected:
        assert time.monotonic() < deadline, "the running service did not see the change"
        time.sleep(0.02)


@pytest.mark.requirement("token-invalid")
@pytest.mark.usefixtures("looks_often")
def test_a_running_service_sees_a_new_token_and_its_revocation(open_dealership: OpenDealership) -> None:
    opened = open_dealership(ALL)
    token_id, token = opened.new_token()
    within_two_seconds(opened, token, 200)
    with opened.store() as store:
        assert write_at(datetime.now(UTC), store, "test-motors", revoke_token, token_id)
    within_two_seconds(opened, token, 401)


@pytest.mark.requirement("wrong-token-counts", "error-rate-limited")
@pytest.mark.usefixtures("limits_kept")
def test_wrong_tokens_count_only_against_their_address(open_dealership: OpenDealership) -> None:
    opened = open_dealership(ALL.replace('bad_tokens = ""', 'bad_tokens = "3/hour"'))
    _, token = opened.new_token()
    with run_dealership(opened.folder) as again:
        for _ in range(5):
            assert ask(again, "inventory.search", token)[0] == 200
            assert ask(again, "inventory.search")[0] == 401
        for _ in range(3):
            assert ask(again, "inventory.search", "wrong") == (401, "AUTH_REQUIRED")
        assert ask(again, "inventory.search", "wrong") == (429, "RATE_LIMITED")
        # Other addresses, valid tokens from the same address, and requests without a token are not affected.
        assert ask(again, "inventory.search", "wrong", address="198.51.100.8") == (401, "AUTH_REQUIRED")
        assert ask(again, "inventory.search", token) == (200, "")
        assert ask(again, "inventory.search") == (401, "AUTH_REQUIRED")


@pytest.mark.requirement("rate-limits-are-settings", "error-rate-limited", "retry-after")
@pytest.mark.usefixtures("limits_kept")
def test_each_skill_has_its_own_rate_for_each_client(open_dealership: OpenDealership) -> None:
    rates = NO_LIMITS
    for most, skill in enumerate(STEMS, start=1):
        name = skill.replace(".", "_")
        rates = rates.replace(f'{name} = ""', f'{name} = "{most}/hour"')
    opened = open_dealership(rates)
    for most, skill in enumerate(STEMS, start=1):
        assert [ask(opened, skill)[0] for _ in range(most + 2)] == [200] * most + [429, 429], skill
        assert ask(opened, skill, address="198.51.100.8") == (200, ""), skill
        sent = message(skill, **({"vin": ACCORD} if skill == "inventory.vehicle" else {}))
        answer = opened.post(sent)
        wait = error_of(answer)["details"]["retry_after_seconds"]
        assert answer.headers["retry-after"] == str(wait)
        assert 0 < wait <= 3600
        assert error_of(answer)["retryable"] is True


@pytest.mark.requirement("rate-limits-are-settings")
@pytest.mark.usefixtures("limits_kept")
def test_a_client_is_counted_by_its_token_or_else_by_its_address(open_dealership: OpenDealership) -> None:
    opened = open_dealership(NO_LIMITS.replace('inventory_search = ""', 'inventory_search = "1/hour"'))
    (_, one), (_, two) = opened.new_token(), opened.new_token()
    with run_dealership(opened.folder) as again:
        assert ask(again, "inventory.search", one, "198.51.100.1")[0] == 200
        assert ask(again, "inventory.search", one, "198.51.100.2")[0] == 429
        assert ask(again, "inventory.search", two, "198.51.100.1")[0] == 200
        assert ask(again, "inventory.search", None, "198.51.100.1")[0] == 200
        assert ask(again, "inventory.search", None, "198.51.100.1")[0] == 429


@pytest.mark.requirement("rate-limits-are-settings")
@pytest.mark.usefixtures("limits_kept")
def test_the_default_rates_are_high_for_reading_and_low_for_leads(open_dealership: OpenDealership) -> None:
    opened = open_dealership("")
    assert {ask(opened, "inventory.search")[0] for _ in range(100)} == {200}
    statuses = [ask(opened, "lead.submit")[0] for _ in range(30)]
    assert statuses[0] == 200
    assert statuses[-1] == 429


BEHIND_PROXY = '[service]\ntrusted_proxies = ["10.0.0.0/8", "2001:db8:ffff::/48"]\n' + NO_LIMITS.replace(
    'inventory_search = ""', 'inventory_search = "1/hour"'
)


def once_from(opened: Dealership, peer: str, *forwarded: str) -> int:
    """The status of a search from a peer with these X-Forwarded-For headers."""
    content = json.dumps(message("inventory.search")).encode()
    headers = [("content-type", "application/json"), *(("x-forwarded-for", each) for each in forwarded)]
    return opened.request("POST", "/message:send", content=content, headers=headers, address=peer).status_code


@pytest.mark.parametrize(
    ("first", "second", "same_client"),
    [
        # Each address that the proxy forwards is a client.
        (("10.0.0.1", "203.0.113.5"), ("10.0.0.1", "203.0.113.6"), False),
        (("10.0.0.1", "203.0.113.5"), ("10.0.0.2", "203.0.113.5"), True),
        (("10.0.0.1", "203.0.113.5:51000"), ("10.0.0.1", "203.0.113.5:52000"), True),
        (("10.0.0.1", "203.0.113.5, 10.9.9.9"), ("10.0.0.1", "203.0.113.6, 10.9.9.9"), False),
        (("10.0.0.1", "203.0.113.5", "10.9.9.9"), ("10.0.0.1", "203.0.113.5"), True),
        (("2001:db8:ffff::1", "2001:db8:1::5"), ("2001:db8:ffff::1", "2001:db8:2::5"), False),
        # Entries that the client has sent itself change nothing.
        (("10.0.0.1", "1.1.1.1, 203.0.113.5"), ("10.0.0.1", "2.2.2.2, 203.0.113.5"), True),
        (("10.0.0.1", "10.1.1.1, 203.0.113.5"), ("10.0.0.1", "203.0.113.5"), True),
        (("10.0.0.1", "1.1.1.1, nonsense, 10.9.9.9"), ("10.0.0.1", "2.2.2.2, nonsense, 10.9.9.9"), True),
        # A peer that is not a trusted proxy is counted by its own address.
        (("198.51.100.9", "203.0.113.5"), ("198.51.100.9", "203.0.113.6"), True),
        (("198.51.100.9", "10.0.0.1"), ("198.51.100.9",), True),
        (("198.51.100.9", "203.0.113.5"), ("198.51.100.8", "203.0.113.5"), False),
        # An IPv6 client counts by its /64 network.
        (("2001:db8:1:2::1",), ("2001:db8:1:2:ffff::9",), True),
        (("2001:db8:1:2::1",), ("2001:db8:1:3::1",), False),
        (("::ffff:198.51.100.9",), ("198.51.100.9",), True),
    ],
)
@pytest.mark.requirement("rate-limits-are-settings")
def test_behind_a_trusted_proxy_the_forwarded_address_counts_and_cannot_be_forged(
    open_dealership: OpenDealership, first: tuple[str, ...], second: tuple[str, ...], same_client: bool
) -> None:
    opened = open_dealership(BEHIND_PROXY)
    assert once_from(opened, *first) == 200
    assert once_from(opened, *second) == (429 if same_client else 200)


@pytest.mark.parametrize(
    ("trusted", "peer", "forwarded", "seen"),
    [
        ("[]", "127.0.0.1", "203.0.113.5", "127.0.0.1"),
        ("[]", "172.18.0.5", "nonsense, 203.0.113.5", "172.18.0.5"),
        # Anybody can send the header. Whoever is named a proxy could name any client.
        ("[]", "8.8.8.8", "203.0.113.5", None),
        ("[]", "127.0.0.1", "127.0.0.1", None),
        ("[]", "127.0.0.1", "nonsense", None),
        ('["10.0.0.0/8"]', "127.0.0.1", "203.0.113.5", None),
    ],
)
@pytest.mark.outside_protocol("a proxy that is not declared")
def test_a_proxy_that_nobody_declared_is_noticed_when_it_forwards_a_request_for_a_card(
    open_dealership: OpenDealership, trusted: str, peer: str, forwarded: str, seen: str | None
) -> None:
    opened = open_dealership(f"[service]\ntrusted_proxies = {trusted}\n")
    process = opened.service.process
    opened.request("GET", CARD_PATH, address=peer)
    assert process.forwarded_by is None
    opened.request("GET", CARD_PATH, headers={"x-forwarded-for": forwarded}, address=peer)
    assert process.forwarded_by == seen
    if seen is not None:
        # The record of the machine is renewed at once, for `doctor` and the alert.
        with opened.store() as store:
            eventually(
                "the record has it",
                lambda: [each.forwarded_by for each in read(store, "test-motors", list_replicas)] == [seen],
            )


@pytest.mark.requirement("rate-limits-are-settings")
def test_without_trusted_proxies_forwarded_addresses_are_ignored(open_dealership: OpenDealership) -> None:
    opened = open_dealership(NO_LIMITS.replace('inventory_search = ""', 'inventory_search = "1/hour"'))
    assert once_from(opened, "127.0.0.1", "203.0.113.5") == 200
    assert once_from(opened, "127.0.0.1", "203.0.113.6") == 429
