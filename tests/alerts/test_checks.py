"""What the checks of a dealer find, and what arrives. On both databases, with a real mail server and a real webhook."""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.alerts.watched import DAY, HOUR, MINUTE, Watched, check_without_sending, claim_check, claim_messages, do_jobs
from tests.delivery.receivers import always, one_after_the_other
from tests.storage.calls import read, write_at
from tests.storage.samples import DEALER, import_rows, row

from dealer_agent.alerts.checking import MOST_ATTEMPTS, run_check
from dealer_agent.feeds.files.checks import FeedFinding
from dealer_agent.feeds.files.counts import FeedShape
from dealer_agent.storage.alerts import confirm_key_copy, count_failed_leads, list_messages
from dealer_agent.storage.clock import confirm_clock
from dealer_agent.storage.errors import LeaseLost
from dealer_agent.storage.installation.replicas import record_replica
from dealer_agent.storage.jobs import claim_job
from dealer_agent.storage.privacy.keys import key_uses
from dealer_agent.storage.stock.feeds import (
    FEED,
    ClaimedFeed,
    FileState,
    StoredFeed,
    add_file,
    finish_file,
    note_fetch_problem,
    put_feeds,
    read_feed,
)
from dealer_agent.storage.stock.reading import record_refused_import
from dealer_agent.storage.stock.stock_import import FeedReview

pytestmark = pytest.mark.outside_protocol("alerts")

NOW = datetime(2026, 3, 2, 16, 0, tzinfo=UTC)
"""10:00 in Chicago."""


def claim_feed(dealer: Watched, at: datetime, name: str) -> ClaimedFeed:
    """What a process does that begins to work on a feed. Each lasts for less than a minute."""
    with dealer.store.write(DEALER, at + timedelta(minutes=1)) as tx:
        job = claim_job(tx, FEED, name, timedelta(days=8), "now")
        assert job is not None
        feed = read_feed(tx, job)
    assert feed is not None
    return feed


def test_a_late_feed_is_one_message_at_the_start_and_one_at_the_end(dealer: Watched) -> None:
    dealer.check(NOW)
    assert dealer.mail.taken == [], "a dealer without an import is not late"
    import_rows(dealer.store, [row("V1")], at=NOW)
    dealer.check(NOW + 25 * HOUR)
    assert dealer.mail.taken == []
    for minute in range(26 * 60, 26 * 60 + 5):
        dealer.check(NOW + minute * MINUTE)
    assert dealer.subjects() == ["The inventory is late: no new file since Monday, March 2, 2026, 10:00 AM CST"]
    assert "dealer-agent inventory history" in " ".join(dealer.text().split())
    import_rows(dealer.store, [row("V1")], at=NOW + 27 * HOUR)
    dealer.check(NOW + 27 * HOUR)
    assert dealer.subjects()[1:] == ["The inventory arrived again"]
    assert "It began on Tuesday, March 3, 2026, 12:00 PM CST" in " ".join(dealer.text().split())


def test_a_refused_file_causes_an_alert_until_another_one_is_imported(dealer: Watched) -> None:
    import_rows(dealer.store, [row("V1")], at=NOW)
    for hour in (1, 2):
        at = NOW + hour * HOUR
        record_refused_import(dealer.store, DEALER, [], at=at, source="a.csv", layout=None, rooftops=[])
        dealer.check(at)
    assert dealer.subjects() == ["A file of the inventory was refused: Monday, March 2, 2026, 11:00 AM CST"]
    import_rows(dealer.store, [row("V1")], at=NOW + 3 * HOUR)
    dealer.check(NOW + 3 * HOUR)
    assert dealer.subjects()[1:] == ["A newer file of the inventory was imported"]


def test_the_feeds_of_the_settings_are_told_by_their_names(dealer: Watched) -> None:
    rows = [
        StoredFeed("vauto", "url", late_hours=48, digest=b"1"),
        StoredFeed("trailers", "folder", late_hours=24, digest=b"2"),
    ]
    write_at(NOW, dealer.store, DEALER, put_feeds, rows)
    dealer.check(NOW + HOUR)
    assert dealer.mail.taken == []
    dealer.check(NOW + 25 * HOUR)
    assert dealer.subjects() == ["The feed trailers is late: no new file since Monday, March 2, 2026, 10:00 AM CST"]
    for minute in (0, 30, 59, 60):
        at = NOW + 26 * HOUR + minute * MINUTE
        claimed = claim_feed(dealer, at, "vauto")
        write_at(at, dealer.store, DEALER, note_fetch_problem, claimed, "the server answered 500")
        assert len(dealer.subjects()) == 1
        dealer.check(at)
    assert dealer.subjects()[1:] == ["The feed vauto cannot be fetched since Monday, March 2, 2026, 10:00 AM CST"]


@pytest.mark.parametrize("state", ["refused", "failed"])
def test_a_file_of_a_feed_that_is_refused_or_cannot_be_read_causes_an_alert(dealer: Watched, state: FileState) -> None:
    write_at(NOW, dealer.store, DEALER, put_feeds, [StoredFeed("uploads", "upload", late_hours=48, digest=b"1")])
    dealer.settings = {"off": ("feed_failing",)}
    results: list[FileState] = ["imported", state, state, "unchanged"]
    for hour, result in enumerate(results):
        at = NOW + hour * HOUR
        feed = claim_feed(dealer, at, "uploads")
        file = write_at(
            at,
            dealer.store,
            DEALER,
            add_file,
            feed,
            f"file-{hour}",
            name="stock.csv",
            size=9,
            content_hash=b"hash",
            received_at=at,
        )
        dealer.check(at)
        write_at(at, dealer.store, DEALER, finish_file, feed, file, result, problem="its reason")
        write_at(at, dealer.store, DEALER, note_fetch_problem, feed, "a later fetch failed")
        dealer.check(at + MINUTE)
    assert dealer.subjects() == [
        "A file of the feed uploads was refused: Monday, March 2, 2026, 11:00 AM CST",
        "A newer file of the feed uploads was imported",
    ]
    assert "File: stock.csv" in dealer.text(0)
    assert "its reason" in dealer.text(0)


def test_the_warnings_of_the_newest_import_are_told_in_words_until_a_file_has_none(dealer: Watched) -> None:
    many = [FeedFinding(f"check_{number}", "warn", f"Row {number} has no price.") for number in range(20)]
    warned = FeedReview(tuple(many), FeedShape({}))
    import_rows(dealer.store, [row("V1")], at=NOW, review=lambda *_: warned)
    dealer.check(NOW)
    assert dealer.subjects() == [
        "The newest file of the inventory was imported with 20 warnings: Monday, March 2, 2026, 10:00 AM CST"
    ]
    words = " ".join(dealer.text().split())
    assert "check_0: Row 0 has no price." in words
    # The name of the file is one of the 20 lines that a mail has.
    assert "and 1 more" in words
    dealer.check(NOW + HOUR)
    import_rows(dealer.store, [row("V2")], at=NOW + 2 * HOUR)
    dealer.check(NOW + 2 * HOUR)
    assert dealer.subjects()[1:] == ["The newest file of the inventory was imported without new warnings"]


def test_a_warning_about_each_file_is_news_once_and_one_about_a_change_each_time(dealer: Watched) -> None:
    lost = FeedFinding("units_lost_warning", "warn", "8 of 40 units that are for sale are not in the file.")
    texts = [FeedFinding("garbled_texts", "warn", f"{count} texts in 40 rows are wrong.") for count in range(3, 7)]
    other = FeedFinding("details_not_understood", "warn", "trim: 30 of 40 not understood.")
    for day, findings in enumerate([(texts[0], lost), (lost, texts[1]), (texts[2],), (texts[3], other), (other,)]):
        found = FeedReview(findings, FeedShape({}))
        import_rows(dealer.store, [row(f"V{day}")], at=NOW + day * DAY, review=lambda *_, found=found: found)
        dealer.check(NOW + day * DAY)
    said = [subject.split(":")[0] for subject in dealer.subjects() if "digest" not in subject]
    assert said == [
        "The newest file of the inventory was imported with 2 warnings",
        "The newest file of the inventory was imported without new warnings",
        "The newest file of the inventory was imported with 1 warning",
        "The newest file of the inventory was imported without new warnings",
    ]


def test_an_undeclared_proxy_causes_an_alert_with_the_line_to_add(dealer: Watched) -> None:
    dealer.settings = {"machine": True, "off": ("disk_low", "database_slow", "clock_wrong")}
    write_at(NOW, dealer.store, DEALER, record_replica, "machine", "1", "settings", "10.0.0.7")
    # Another process of the machine has not seen the proxy.
    write_at(NOW, dealer.store, DEALER, record_replica, "machine", "1", "settings")
    dealer.check(NOW)
    assert dealer.subjects() == ["Requests come through 10.0.0.7, which trusted_proxies does not name"]
    assert 'trusted_proxies = ["10.0.0.7"]' in map(str.strip, dealer.text().splitlines())
    write_at(NOW, dealer.store, DEALER, record_replica, "machine", "1", "changed settings")
    dealer.check(NOW + HOUR)
    assert dealer.subjects()[1:] == ["No request comes through 10.0.0.7 any more, or trusted_proxies names it"]


def test_deliveries_that_wait_too_long_are_told_for_each_channel(dealer: Watched) -> None:
    dealer.add_delivery(NOW, "L1", "crm")
    dealer.add_delivery(NOW + MINUTE, "L2", "crm")
    dealer.add_delivery(NOW, "L3", "hook")
    dealer.check(NOW + 29 * MINUTE)
    assert dealer.mail.taken == []
    dealer.check(NOW + 31 * MINUTE)
    assert dealer.subjects() == ["Leads do not reach Ridgeline North / crm, and 1 more"]
    words = " ".join(dealer.text().split())
    assert "crm. Waiting: 2 deliveries, the oldest since Monday, March 2, 2026, 10:00 AM CST." in words
    assert "hook. Waiting: 1 delivery," in words
    dealer.set_deliveries(state="sent")
    dealer.check(NOW + 32 * MINUTE)
    dealer.check(NOW + 43 * MINUTE)
    assert dealer.subjects()[1:] == ["Leads reach Ridgeline North / crm again, and 1 more"]


def test_undeliverable_deliveries_cause_an_alert(dealer: Watched) -> None:
    dealer.add_delivery(NOW)
    dealer.set_deliveries(state="undeliverable", settled_at=NOW)
    dealer.check(NOW + MINUTE)
    assert dealer.subjects() == [
        "Undeliverable for Ridgeline North / crm: 1 delivery, the first since Monday, March 2, 2026, 10:00 AM CST"
    ]
    (posted,) = dealer.posted()
    (entry,) = posted["data"]["started"]
    assert (entry["condition"], entry["subject"]) == ("deliveries_undeliverable", "Ridgeline North / crm")
    assert entry["since"] == "2026-03-02T10:00:00-06:00"


def test_a_failed_lead_causes_an_alert_until_none_failed_for_an_hour(dealer: Watched) -> None:
    write_at(NOW, dealer.store, DEALER, count_failed_leads, 2, DAY)
    write_at(NOW, dealer.store, DEALER, count_failed_leads, 1, DAY)
    dealer.check(NOW + MINUTE)
    assert dealer.subjects() == ["3 leads could not be stored, the last one at Monday, March 2, 2026, 10:00 AM CST"]
    dealer.check(NOW + 59 * MINUTE)
    assert len(dealer.mail.taken) == 1
    dealer.check(NOW + 61 * MINUTE)
    assert dealer.subjects()[1:] == ["No lead failed in the last hour"]
    write_at(NOW + 3 * DAY, dealer.store, DEALER, count_failed_leads, 1, DAY)
    dealer.check(NOW + 3 * DAY)
    assert dealer.subjects()[2].startswith("1 lead could not be stored"), "the count begins again"


def test_a_copy_of_the_key_is_asked_for_until_one_is_confirmed(dealer: Watched) -> None:
    ((key_id, use),) = read(dealer.store, DEALER, key_uses).items()
    now = use.since + 3 * DAY
    for at in (now - MINUTE, now, now + MINUTE):
        _check_machine(dealer, at)
    assert dealer.subjects() == ["Nobody has confirmed a copy of the key to customer data"]
    write_at(now, dealer.store, DEALER, confirm_key_copy, key_id)
    _check_machine(dealer, now + HOUR)
    assert dealer.subjects()[1:] == ["A copy of the key to customer data is confirmed"]


def test_a_full_disk_causes_an_alert(dealer: Watched) -> None:
    total = shutil.disk_usage(dealer.folder).total // 2**20 + 1
    _check_machine(dealer, NOW, disk_free_mib=total, off=("clock_wrong", "key_copy_unknown"))
    (subject,) = dealer.subjects()
    assert subject.startswith("The disk of the service's folder is nearly full: ")


def test_a_clock_that_is_far_from_the_last_run_causes_an_alert(dealer: Watched) -> None:
    off = ("key_copy_unknown", "disk_low")
    write_at(NOW, dealer.store, DEALER, confirm_clock)
    if dealer.url.startswith("sqlite"):
        _check_machine(dealer, NOW + HOUR, off=off)
        assert dealer.mail.taken == []
    _check_machine(dealer, NOW + 30 * DAY, off=off)
    assert dealer.subjects() == ["The clock of this machine seems to be wrong"]


def test_a_check_is_done_once_until_it_is_due_again(dealer: Watched) -> None:
    assert dealer.check(NOW)
    assert not dealer.check(NOW + MINUTE / 2)
    assert dealer.check(NOW + MINUTE)
    assert dealer.check(NOW - 365 * DAY), "a clock that was set back does not stop the checks"


def test_a_process_that_lost_its_check_changes_nothing(dealer: Watched) -> None:
    write_at(NOW, dealer.store, DEALER, count_failed_leads, 1, DAY)
    lost = claim_check(dealer.store, DEALER, NOW)
    assert lost is not None
    assert check_without_sending(dealer.store, dealer.watch(), NOW + MINUTE)
    before = dealer.states()
    with pytest.raises(LeaseLost):
        run_check(dealer.store, dealer.watch(), lost)
    assert (dealer.states(), len(read(dealer.store, DEALER, list_messages, 10))) == (before, 2)


def test_a_message_that_cannot_be_sent_is_tried_again(dealer: Watched) -> None:
    dealer.mail.behaviour = one_after_the_other("fail", "cut", "take")
    dealer.add_delivery(NOW)
    dealer.set_deliveries(state="undeliverable", settled_at=NOW)
    for minute in range(30):
        dealer.check(NOW + minute * MINUTE)
    assert dealer.mail.did == {"fail": 1, "cut": 1, "take": 1}
    assert len(dealer.subjects()) == len(dealer.posted()) == 1
    by_receiver = {each.receiver: each for each in read(dealer.store, DEALER, list_messages, 10)}
    assert (by_receiver["mail"].state, by_receiver["mail"].attempts) == ("sent", 3)
    assert (by_receiver["webhook"].state, by_receiver["webhook"].attempts) == ("sent", 1)


def test_a_message_is_given_up_after_many_attempts(dealer: Watched) -> None:
    dealer.mail.behaviour = always("fail")
    dealer.hook.behaviour = always("reject")
    dealer.add_delivery(NOW)
    dealer.set_deliveries(state="undeliverable", settled_at=NOW)
    for number in range(2 * MOST_ATTEMPTS):
        dealer.check(NOW + number * HOUR)
    records = read(dealer.store, DEALER, list_messages, 10)
    assert {(each.state, each.attempts, each.problem) for each in records} == {
        ("failed", MOST_ATTEMPTS, "the mail server refused the mail (451)"),
        ("failed", MOST_ATTEMPTS, "the webhook answered 422"),
    }
    assert (dealer.mail.did.total(), dealer.hook.did.total()) == (MOST_ATTEMPTS, MOST_ATTEMPTS)


def test_a_message_whose_senders_die_is_given_up_too(dealer: Watched) -> None:
    dealer.add_delivery(NOW)
    dealer.set_deliveries(state="undeliverable", settled_at=NOW)
    assert check_without_sending(dealer.store, dealer.watch(), NOW)
    for attempt in range(MOST_ATTEMPTS):
        claimed = claim_messages(dealer.store, DEALER, NOW + attempt * HOUR)
        assert [job.attempts for job in claimed] == [attempt + 1] * 2
    dealer.check(NOW + MOST_ATTEMPTS * HOUR)
    assert {(each.state, each.attempts) for each in read(dealer.store, DEALER, list_messages, 10)} == {
        ("failed", MOST_ATTEMPTS)
    }
    assert dealer.subjects() == []
    assert dealer.posted() == []


def test_a_receiver_that_was_removed_gets_no_old_message(dealer: Watched, tmp_path: Path) -> None:
    dealer.add_delivery(NOW)
    dealer.set_deliveries(state="undeliverable", settled_at=NOW)
    assert check_without_sending(dealer.store, dealer.watch(), NOW)
    only_mail = dealer.watch()
    only_mail.receivers.by_kind.pop("webhook")  # type: ignore[attr-defined]
    do_jobs(dealer.store, only_mail, NOW + timedelta(seconds=1))
    assert (len(dealer.subjects()), dealer.posted()) == (1, [])


def _check_machine(dealer: Watched, now: datetime, **settings: object) -> None:
    dealer.settings = {"machine": True, "off": ("clock_wrong", "disk_low"), **settings}
    dealer.check(now)
    dealer.settings = {}
