"""The record of replies: a reply of the last months is made again byte by byte (docs/how-to/record.md#replies)."""

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import text
from tests.acceptance.running import command_here, succeed_here
from tests.published_versions.talking import ACTIVATION
from tests.server.conftest import OpenDealership
from tests.server.dealership import ACCORD, ENVIRONMENT, NO_LIMITS, Dealership, message, run_dealership, set_up
from tests.soak import SOAK

from dealer_agent.config import load_settings
from dealer_agent.feeds.files.checks import EVERY_CHECK
from dealer_agent.feeds.files.reader import read_feed
from dealer_agent.feeds.importing import import_feed
from dealer_agent.operations import OperationError
from dealer_agent.operations.replies import RecordedReplies
from dealer_agent.protocol import ids
from dealer_agent.protocol.offers import OFFERS_EXTENSION
from dealer_agent.server import reply_record
from dealer_agent.server.dealer_opener import admitted_callers
from dealer_agent.storage.stock import recorded_replies
from dealer_agent.storage.stock.recorded_replies import newest_replies
from dealer_agent.storage.store import Store

pytestmark = pytest.mark.outside_protocol("record of replies")

DAYS = 90 if SOAK else 9
REPLIES = 1000 if SOAK else 120
FIRST_DAY = datetime(2026, 3, 2, 15, tzinfo=UTC)
RECORD = "\n[record]\nreplies = true\n"
SERVED = '\n[published_versions]\nserved = ["1.0", "1.3", "next"]\n'
CHANGES = [
    ("amount = 399", "amount = 399"),
    ("amount = 399", "amount = 499"),
    ('name = "Test Motors North"\ntimezone', 'name = "Test Motors North"\nnotes = "By appointment."\ntimezone'),
]
"""What a person changes in dealer.toml at the start, after a third and after two thirds of the days."""
ADDRESSES = (
    ("/message:send", ("proto", "autoagent")),
    ("/rpc", ("proto", "autoagent")),
    ("/aap/1.0/message:send", ("autoagent",)),
    ("/aap/1.0/rpc", ("autoagent",)),
    ("/aap/1.3/rpc", ("autoagent",)),
    ("/aap/next/rpc", ("autoagent",)),
)


def lot_of(day: int, dice: random.Random) -> list[dict[str, Any]]:
    """The feed of a day: units come and go, and prices change."""
    return [
        {"vin": ACCORD, "stock": "N-7", "rooftop": "Test Motors North", "year": 2024, "make": "Honda",
         "model": "Accord", "condition": "used", "price": 28_500 - 10 * day},
        *({"stock": f"T-{number:03}", "rooftop": "Test Motors South", "vehicle_type": "trailer", "year": 2020,
           "make": dice.choice(("Big Tex", "Acme")), "model": "70TV", "condition": "new",
           "price": 3000 + dice.randrange(500)}
          for number in range(40) if dice.random() < 0.8),
    ]  # fmt: skip


def asked(dice: random.Random) -> tuple[str, dict[str, Any]]:
    """A request to a reading skill that finds something."""
    found: list[tuple[str, dict[str, Any]]] = [
        ("dealer.information", {}),
        ("inventory.facets", {"filters": {"make": ["Acme"]}}),
        ("inventory.search", {"filters": {"query": "big tex"}, "pagination": {"skip": dice.randrange(30), "limit": 9}}),
        ("inventory.search", {"filters": {"price_max": 3000 + dice.randrange(500)}}),
        ("inventory.search", {"filters": {"make": ["Nothing"]}}),
        ("inventory.vehicle", {"stock": "N-7"}),
        ("inventory.vehicle", {"vin": ACCORD, "zip": "37203"}),
    ]
    return dice.choice(found)


def post(dealer: Dealership, path: str, vendor: str, skill: str, **members: Any) -> bytes:
    """The bytes of a successful reply."""
    document: Any = message(skill, vendor, **members)
    if path.startswith("/aap") and skill == "inventory.vehicle":
        document["message"]["parts"][0]["data"] = {"type": "inventory.vehicle.request", "vin": ACCORD}
    if path.endswith("/rpc"):
        document = {"jsonrpc": "2.0", "id": f"call-{skill}", "method": "SendMessage", "params": document}
    response = dealer.post(document, path, headers=ACTIVATION if "next" in path else {"a2a-version": "1.0"})
    assert response.status_code == 200, response.text
    assert "error" not in response.json(), response.text
    return response.content


def id_of(reply: bytes) -> str:
    document = json.loads(reply)
    message_id: str = document.get("result", document)["message"]["messageId"]
    return message_id


def take_new_stock(dealer: Dealership) -> None:
    """What the refresher of the service does within two seconds."""
    service = dealer.service
    found = service.snapshots.load(datetime.now(UTC))
    service.dealer = service.dealer.with_stock(found.catalogue, found.at, found.revision)


def test_replies_of_ninety_days_are_made_again_byte_by_byte(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stock changes each day, and the settings twice. The settings of now do not matter."""
    monkeypatch.setitem(ENVIRONMENT, "DATABASE_URL", database_url)
    dice, folder, sent = random.Random(7), tmp_path / "dealer", {}
    now = FIRST_DAY
    monkeypatch.setattr(ids, "time_ns", lambda: int(now.timestamp() * 1e9))
    set_up(folder, NO_LIMITS + RECORD + SERVED)
    file = folder / "dealer.toml"
    for part, (old, new) in enumerate(CHANGES):
        written = file.read_text("utf-8")
        assert old in written
        file.write_text(written.replace(old, new), "utf-8")
        with run_dealership(folder) as dealer, dealer.store() as store:
            profile = load_settings(folder, ENVIRONMENT).dealer
            for day in range(part * DAYS // 3, (part + 1) * DAYS // 3):
                now = FIRST_DAY + timedelta(days=day)
                feed = read_feed(json.dumps(lot_of(day, dice)).encode())
                import_feed(store, profile, feed, source=f"{day}.json", at=now, accept=EVERY_CHECK)
                take_new_stock(dealer)
                for number in range(-(-REPLIES // DAYS)):
                    now += timedelta(seconds=37)
                    path, vendors = ADDRESSES[(day + number) % len(ADDRESSES)]
                    skill, members = asked(dice)
                    reply = post(dealer, path, dice.choice(vendors), skill, **members)
                    sent[id_of(reply)] = reply
    assert len(sent) >= REPLIES
    settings = load_settings(folder, ENVIRONMENT)
    with Store.open(settings.database_url, settings.cipher) as store:
        replies = RecordedReplies(store, settings.dealer.id)
        for reply_id, reply in sent.items():
            assert replies.make(reply_id).body == reply
        with store.read(settings.dealer.id) as tx:
            size = tx.connection.execute(text("SELECT sum(length(replies)) FROM recorded_replies")).scalar_one()
            assert tx.connection.execute(text("SELECT count(*) FROM reply_settings")).scalar_one() == len(CHANGES)
    print(f"{len(sent)} replies made again, {size / len(sent):.0f} bytes each")
    with Store.open(settings.database_url, settings.cipher) as store, pytest.raises(OperationError, match="no reply"):
        RecordedReplies(store, "another-dealer").make(next(iter(sent)))


@pytest.fixture
def recorded(open_dealership: OpenDealership) -> Dealership:
    return open_dealership(NO_LIMITS + RECORD)


def save(dealer: Dealership) -> None:
    with dealer.store() as store:
        saving = reply_record.ReplySaving(store, dealer.service.process.replies)
        dealer.portal.call(saving.save)


def rows(dealer: Dealership) -> list[recorded_replies.ReplyRow]:
    save(dealer)
    with dealer.store() as store, store.read("test-motors") as tx:
        return [found.row for found in newest_replies(tx, 100)]


def make(dealer: Dealership, reply_id: str) -> bytes:
    with dealer.store() as store:
        return RecordedReplies(store, "test-motors").make(reply_id).body


def test_only_successful_replies_of_reading_skills_are_recorded(recorded: Dealership) -> None:
    recorded.ask("dealer.information")
    recorded.ask("lead.submit")
    assert recorded.post(message("inventory.vehicle", vin="1HGCY2F57RA999999")).status_code == 404
    assert recorded.post(b"{}").status_code == 422
    assert [row.skill for row in rows(recorded)] == ["dealer.information"]


def test_nothing_is_recorded_unless_the_dealer_wants_it(open_dealership: OpenDealership) -> None:
    dealer = open_dealership()
    dealer.ask("inventory.search")
    assert dealer.service.replies is None
    assert rows(dealer) == []


@pytest.mark.parametrize("more", ["", "anonymous = true\n"])
def test_who_asked_is_recorded_unless_the_dealer_leaves_it_out(open_dealership: OpenDealership, more: str) -> None:
    dealer = open_dealership(NO_LIMITS + RECORD + more)
    token_id, token = dealer.new_token()
    take_tokens(dealer)
    assert dealer.post(message("inventory.search"), token=token).status_code == 200
    (row,) = rows(dealer)
    assert (row.caller_class, row.identity) == ("token", "" if more else f"token:{token_id}")
    # No header is in the record: neither the token nor its beginning.
    stored = msgspec.msgpack.encode(row)
    assert token.encode() not in stored
    assert b"Bearer" not in stored
    assert not any(token.encode() in content for content in contents_of(dealer))


def contents_of(dealer: Dealership) -> list[bytes]:
    return [file.read_bytes() for file in dealer.folder.iterdir() if file.name.startswith("dealer-agent.db")]


def take_tokens(dealer: Dealership) -> None:
    with dealer.store() as store, store.read("test-motors") as tx:
        dealer.service.tokens = admitted_callers(tx).tokens


@pytest.mark.parametrize("member", ["digest", "body", "reply_id", "binding", "held_until", "skill"])
def test_a_changed_row_is_detected(recorded: Dealership, monkeypatch: pytest.MonkeyPatch, member: str) -> None:
    """The row says otherwise than the bytes that were sent."""
    reply = recorded.post(message("inventory.vehicle", vin=ACCORD)).content
    (row,) = rows(recorded)
    assert make(recorded, id_of(reply)) == reply
    other = {
        "digest": bytes(8),
        "body": row.body.replace(ACCORD.encode(), b"1N4AZ1CP8KC300001"),
        "reply_id": row.reply_id[:-1] + ("0" if row.reply_id[-1] != "0" else "1"),
        "binding": "json-rpc",
        "held_until": "2026-03-04T10:00:00Z",
        "skill": "inventory.search",
    }[member]
    changed = msgspec.structs.replace(row, **{member: other})
    monkeypatch.setattr(recorded_replies, "_rows_of", lambda _: [changed])
    with pytest.raises(OperationError, match=r"not the same|cannot be made again"):
        make(recorded, changed.reply_id)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ("UPDATE recorded_replies SET replies = substr(replies, 1, 40)", "damaged"),
        ("UPDATE recorded_replies SET replies = X'00'", "damaged"),
        ("UPDATE reply_settings SET document = X'28b52ffd20021100007b7d'", "missing or damaged"),
        ("DELETE FROM reply_settings", "missing or damaged"),
        ("UPDATE recorded_replies SET revision = 99", "not in the record any more"),
        ("DELETE FROM recorded_replies", "no reply"),
    ],
)
def test_what_is_damaged_or_gone_is_said(recorded: Dealership, damage: str, says: str) -> None:
    reply = recorded.post(message("inventory.search")).content
    save(recorded)
    with recorded.store() as store, store.write("test-motors") as tx:
        tx.connection.execute(text(damage))
    with pytest.raises(OperationError, match=says):
        make(recorded, id_of(reply))


def test_a_search_that_is_anonymous_has_no_identity(open_dealership: OpenDealership) -> None:
    dealer = open_dealership(NO_LIMITS + RECORD)
    _, token = dealer.new_token()
    take_tokens(dealer)
    for privacy in ({"anonymous": False}, {"anonymous": True}):
        assert dealer.post(message("inventory.search", privacy=privacy), token=token).status_code == 200
    assert [bool(row.identity) for row in reversed(rows(dealer))] == [True, False]


def test_a_reply_that_says_that_a_vehicle_is_held_is_made_again(open_dealership: OpenDealership) -> None:
    dealer = open_dealership(NO_LIMITS + RECORD + "[offers]\nenabled = true\n")
    _, token = dealer.new_token()
    take_tokens(dealer)
    quoted = dealer.post(message("offer.quote", vin=ACCORD), token=token).json()
    quote_id = quoted["message"]["parts"][0]["data"]["data"]["quote_id"]
    held = dealer.post(message("offer.hold", quote_id=quote_id, idempotency_key="k"), token=token)
    assert held.status_code == 200
    reply = dealer.post(message("inventory.vehicle", vin=ACCORD), headers={"a2a-extensions": OFFERS_EXTENSION}).content
    save(dealer)
    assert b'"held_until"' in reply
    assert make(dealer, id_of(reply)) == reply


def test_a_program_that_answers_otherwise_says_so(recorded: Dealership, monkeypatch: pytest.MonkeyPatch) -> None:
    reply = recorded.post(message("dealer.information")).content
    save(recorded)
    monkeypatch.setattr("dealer_agent.skills.dealer_information", lambda profile: {"name": profile.name + "!"})
    with pytest.raises(
        OperationError, match=r"gives another answer now; this program is version .+, and version .+ sent"
    ):
        make(recorded, id_of(reply))


def test_replies_above_the_bound_of_a_day_are_dropped_and_counted(open_dealership: OpenDealership) -> None:
    dealer = open_dealership(NO_LIMITS + RECORD + "replies_a_day = 3\n")
    for _ in range(5):
        dealer.ask("inventory.search")
    assert len(rows(dealer)) == 3
    dealer.ask("inventory.search")
    assert len(rows(dealer)) == 3
    record = dealer.service.process.replies
    assert (record.kept, record.dropped) == (3, 3)


def test_replies_beyond_the_memory_are_dropped_and_counted(
    recorded: Dealership, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reply_record, "HELD_BYTES", 1)
    recorded.ask("inventory.search")
    recorded.ask("inventory.search")
    assert len(rows(recorded)) == 1
    assert recorded.service.process.replies.dropped == 1


def test_the_command_prints_the_bytes_of_the_reply(recorded: Dealership, tmp_path: Path) -> None:
    reply = recorded.post(message("inventory.search")).content
    save(recorded)
    output, folder = tmp_path / "reply.json", recorded.folder
    assert succeed_here("record", "reply", id_of(reply), "--dir", folder).encode() == reply
    succeed_here("record", "reply", id_of(reply), "--output", output, "--dir", folder)
    assert output.read_bytes() == reply
    done = command_here("record", "reply", ids.new_ulid(), "--dir", folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert "the record has no reply" in done.stderr
