"""An implausible unit is held back alone, and a person decides about it (docs/reference/feeds.md#held-units)."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from io import BytesIO
from pathlib import Path

import pytest
from tests.feeds.feed_files import DELIMITED, FeedFile, feed_file
from tests.feeds.held_feeds import FeedDays, changed, feed_days, vin_of
from tests.feeds.implausible_feeds import OTHER_FORMS
from tests.storage.current import make_current
from tests.storage.samples import CIPHER

from dealer_agent.catalogue_loading.listings import listing_policy
from dealer_agent.catalogue_loading.snapshots import LoadedSnapshot, SnapshotInputs, write_stock
from dealer_agent.config.installation import Installation, InstallationFile, InstallationSettings
from dealer_agent.feeds.files.checks import FeedChecks
from dealer_agent.inventory.catalogue import Listing
from dealer_agent.inventory.catalogue.flat_arrays import FlatArrays
from dealer_agent.jobs.loop import JobLoop
from dealer_agent.open_installation import OpenInstallation
from dealer_agent.privacy.maintenance import Maintenance
from dealer_agent.storage.errors import NothingToUndo
from dealer_agent.storage.stock.held_units import HELD
from dealer_agent.storage.store import Store

ROW = 5
LAYOUTS = [
    layout if layout in ("canonical", "carsforsale") else pytest.param(layout, marks=pytest.mark.soak)
    for layout in DELIMITED
]
"""One with a header and one without. test_feed_mutations.py damages units in every layout."""

PRICES = {
    "a dollar": ("1", "price_low"),
    "a monthly payment": ("199", "price_low"),
    "negative": ("-28995", "price_negative"),
    "in brackets": ("($28,995)", "price_negative"),
    "with the sign at the end": ("28,995-", "price_negative"),
    "a payment in words": ("$499/mo", "price_unread"),
    "in another currency": ("CAD 28995", "price_unread"),
    "zero": ("0", "price_zero"),
    "times a hundred": ("*100", "price_of_stock"),
    "divided by ten": ("*0.1", "price_low"),
    "less than a third": ("*0.3", "price_jump"),
}


def price_of(file: FeedFile, text: str) -> str:
    now = file.rows[ROW][file.columns["selling_price"]]
    return str(round(int(now) * float(text[1:]))) if text.startswith("*") else text


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.requirement("held-live")
def test_an_implausible_price_holds_its_unit_back_and_no_other(layout: str) -> None:
    file = feed_file(layout)
    vin = vin_of(file, ROW)
    with feed_days(file.data()) as dealer:
        before = dealer.live()
        for text, reason in PRICES.values():
            done = dealer.imports(changed(file, ROW, selling_price=price_of(file, text)).data())
            assert (dealer.live(), {v: held.reason for v, held in dealer.held().items()}) == (before, {vin: reason})
            assert "units_held" in {finding.check for finding in done.outcome.findings}
            dealer.imports(file.data())
            assert dealer.held() == {}


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.requirement("held-new")
def test_a_car_is_not_shown_twice_where_a_second_row_lacks_its_vin(first: bool) -> None:
    file = feed_file("canonical")
    second = file.rows[ROW] | {file.columns["vin"]: "", file.columns["selling_price"]: "20000"}
    rows = (second, *file.rows) if first else (*file.rows, second)
    with feed_days(file.data()) as dealer:
        before = dealer.live()
        dealer.imports(replace(file, rows=rows).data())
        assert dealer.live() == before
        assert [held.reason for held in dealer.held().values()] == ["repeated"]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.requirement("held-new")
def test_an_implausible_new_unit_is_not_published(layout: str) -> None:
    file = feed_file(layout)
    with feed_days(None) as dealer:
        dealer.imports(changed(file, ROW, selling_price="1").data())
        assert {vin_of(file, number) for number in range(len(file.rows))} - dealer.live().keys() == {vin_of(file, ROW)}
        assert dealer.held()[vin_of(file, ROW)].leaves_at is None


@pytest.fixture
def file() -> FeedFile:
    return feed_file("canonical")


def hold(dealer: FeedDays, file: FeedFile, price: str = "1") -> str:
    """Holds a unit that is for sale, and returns its VIN."""
    dealer.imports(changed(file, ROW, selling_price=price).data())
    return vin_of(file, ROW)


@pytest.mark.requirement("held-leaves")
def test_a_unit_for_sale_keeps_its_last_good_facts_for_a_day_and_then_leaves(file: FeedFile) -> None:
    with feed_days(file.data()) as dealer:
        imported_at = dealer.now
        vin = hold(dealer, file)
        held = dealer.held()[vin]
        assert (held.since, held.good_at, held.leaves_at) == (dealer.now, imported_at, dealer.now + timedelta(days=1))
        dealer.now += timedelta(hours=23)
        assert dealer.remove_due() == held.leaves_at
        assert vin in dealer.live()
        dealer.now += timedelta(hours=1)
        assert dealer.remove_due() is None
        assert vin not in dealer.live()
        # The next feed still says something implausible.
        dealer.imports(changed(file, ROW, selling_price="1").data())
        assert vin not in dealer.live()
        dealer.imports(file.data())
        assert vin in dealer.live()


@pytest.mark.requirement("held-leaves")
def test_the_jobs_of_a_service_remove_a_held_unit_after_its_day_without_an_import(
    file: FeedFile, database_url: str, tmp_path: Path
) -> None:
    make_current(database_url)
    settings = InstallationFile(installation=InstallationSettings(public_url="https://agents.example.com"))
    with Store.open(database_url, CIPHER) as store:
        dealer = FeedDays(store)
        dealer.imports(file.data())
        vin = hold(dealer, file)
        opened = OpenInstallation(Installation(tmp_path, database_url, settings, {}, CIPHER), store)
        kinds = [kind for kind in Maintenance(opened).kinds if kind.name == HELD]
        loop = JobLoop(store, kinds, dealer.profile.id, clock=lambda: dealer.now)
        for hours, is_live in ((23, True), (1, False)):
            dealer.now += timedelta(hours=hours)
            asyncio.run(loop.run_due())
            assert (vin in dealer.live()) is is_live
        assert dealer.held()[vin].leaves_at is None


@pytest.mark.requirement("held-released")
def test_held_units_and_an_undo_are_the_same_on_each_database(file: FeedFile, database_url: str) -> None:
    price = file.columns["selling_price"]
    make_current(database_url)
    with Store.open(database_url, CIPHER) as store:
        dealer = FeedDays(store)
        dealer.imports(file.data())
        before = dealer.live()
        vin = hold(dealer, file)
        assert dealer.live() == before
        dealer.decide(vin, "hidden")
        assert before.keys() - dealer.live().keys() == {vin}
        dealer.decide(vin, "released")
        assert (dealer.live()[vin].selling_price, dealer.held()) == (1, {})
        dealer.imports(file.data())
        assert dealer.live() == before
        rows = [file.rows[0] | {price: str(int(file.rows[0][price]) - 500)}, *file.rows[2:], *file.others]
        dealer.imports(file.with_rows(rows).data())
        done = dealer.undo()
        assert (done.removed, done.restored, done.returned, done.left_alone) == (len(file.others), 1, 1, 0)
        assert dealer.live() == before


@pytest.mark.requirement("held-leaves")
def test_an_import_after_the_day_also_removes_the_unit(file: FeedFile) -> None:
    with feed_days(file.data()) as dealer:
        vin = hold(dealer, file)
        hold(dealer, file)
        assert vin in dealer.live()
        dealer.imports(changed(file, ROW, selling_price="1").data(), hours=24)
        assert (vin in dealer.live(), dealer.held()[vin].leaves_at) == (False, None)


@pytest.mark.requirement("held-leaves")
def test_a_price_that_was_far_from_the_last_one_stays_held_after_the_unit_has_left(file: FeedFile) -> None:
    price = str(int(file.rows[ROW][file.columns["selling_price"]]) // 4)
    with feed_days(file.data()) as dealer:
        vin = hold(dealer, file, price)
        for _ in range(3):
            dealer.imports(changed(file, ROW, selling_price=price).data(), hours=24)
        assert vin not in dealer.live()
        assert dealer.held()[vin].reason == "price_jump"


@pytest.mark.requirement("held-live")
def test_facts_that_no_newer_import_confirmed_are_as_old_as_they_are(file: FeedFile) -> None:
    with feed_days(file.data()) as dealer:
        imported_at = dealer.now
        vin = hold(dealer, file)
        content = BytesIO()
        inputs = SnapshotInputs(listing_policy(dealer.profile), 30)
        write_stock(dealer.store, inputs, dealer.now, content)
        catalogue = LoadedSnapshot.of(FlatArrays(content.getvalue())).catalogue
        held, other = (catalogue.find(vehicle_id=f"vin-{each}") for each in (vin, vin_of(file, 0)))
    assert isinstance(held, Listing)
    assert isinstance(other, Listing)
    assert (held.vehicle.updated_at, other.vehicle.updated_at) == (imported_at, dealer.now)


@pytest.mark.requirement("held-released")
def test_a_release_publishes_the_unit_and_outlives_the_next_feeds(file: FeedFile) -> None:
    with feed_days(file.data()) as dealer:
        vin = hold(dealer, file, "450")
        assert dealer.decide(vin, "released") is not None
        assert (dealer.live()[vin].selling_price, dealer.held()) == (450, {})
        for price in ("450", "440"):
            dealer.imports(changed(file, ROW, selling_price=price).data())
            assert (dealer.live()[vin].selling_price, dealer.held()) == (int(price), {})
        # A release of the price 450 does not release the price 1.
        dealer.imports(changed(file, ROW, selling_price="1").data())
        assert (dealer.live()[vin].selling_price, dealer.held()[vin].reason) == (440, "price_low")


@pytest.mark.requirement("held-released")
def test_a_unit_that_was_never_for_sale_can_be_released(file: FeedFile) -> None:
    with feed_days(None) as dealer:
        vin = hold(dealer, file, "450")
        dealer.decide(vin, "released")
        assert dealer.live()[vin].selling_price == 450
        done = dealer.imports(changed(file, ROW, selling_price="450").data())
        assert (len(done.outcome.unchanged), done.outcome.held) == (len(file.rows), ())


@pytest.mark.requirement("held-hidden")
def test_a_hidden_unit_stays_hidden_until_a_person_releases_it(file: FeedFile) -> None:
    vin = vin_of(file, ROW)
    with feed_days(file.data()) as dealer:
        dealer.decide(vin, "hidden")
        assert vin not in dealer.live()
        for _ in range(2):
            dealer.imports(file.data())
            assert (vin in dealer.live(), dealer.held()[vin].decision) == (False, "hidden")
        dealer.decide(vin, "released")
        assert vin in dealer.live()
        done = dealer.imports(file.data())
        assert (vin in dealer.live(), done.outcome.changed, done.outcome.back) == (True, (), ())


@pytest.mark.requirement("held-hidden")
def test_a_hidden_unit_that_returns_to_the_feed_after_months_stays_hidden(file: FeedFile) -> None:
    vin = vin_of(file, ROW)
    with feed_days(file.data()) as dealer:
        dealer.decide(vin, "hidden")
        dealer.imports(file.data(), hours=24 * 100)
        without = file.with_rows([row for number, row in enumerate(file.rows) if number != ROW])
        for _ in range(2):
            dealer.imports(without.data(), hours=24 * 100)
        dealer.imports(file.data())
        assert (vin in dealer.live(), dealer.held()[vin].decision) == (False, "hidden")


@pytest.mark.requirement("held-released")
def test_a_release_of_long_ago_is_kept_while_the_stock_remembers_the_unit(file: FeedFile) -> None:
    cheap = changed(file, ROW, selling_price="450")
    without = file.with_rows([row for number, row in enumerate(file.rows) if number != ROW])
    with feed_days(file.data()) as dealer:
        vin = hold(dealer, file, "450")
        dealer.decide(vin, "released")
        dealer.imports(cheap.data(), hours=24 * 100)
        dealer.imports(without.data())
        dealer.imports(cheap.data())
        assert (vin in dealer.live(), dealer.held()) == (True, {})
        dealer.imports(without.data())
        dealer.imports(without.data(), hours=24 * 100)
        dealer.imports(without.data())
        dealer.imports(cheap.data())
        assert dealer.held()[vin].decision == "none"


@pytest.mark.requirement("held-live")
def test_a_unit_that_returns_at_another_price_is_compared_with_its_last_one(file: FeedFile) -> None:
    price = str(int(file.rows[ROW][file.columns["selling_price"]]) // 4)
    with feed_days(file.data()) as dealer:
        dealer.imports(file.with_rows([row for number, row in enumerate(file.rows) if number != ROW]).data())
        vin = hold(dealer, file, price)
        assert (vin in dealer.live(), dealer.held()[vin].reason) == (False, "price_jump")


@pytest.mark.requirement("held-live")
def test_a_decision_of_a_person_does_not_confirm_the_facts_of_another_unit(file: FeedFile) -> None:
    with feed_days(file.data()) as dealer:
        imported_at = dealer.now
        dealer.decide(vin_of(file, 0), "hidden")
        vin = hold(dealer, file)
        assert dealer.held()[vin].good_at == imported_at


@pytest.mark.outside_protocol("feeds")
def test_nobody_can_decide_about_a_unit_that_does_not_exist(file: FeedFile) -> None:
    with feed_days(file.data()) as dealer:
        assert dealer.decide("1HGCM82633A004352", "hidden") is None


@pytest.mark.outside_protocol("feeds")
def test_an_undo_restores_what_the_last_import_added_changed_and_sold(file: FeedFile) -> None:
    price = file.columns["selling_price"]
    with feed_days(file.data()) as dealer:
        before = dealer.live()
        rows = [file.rows[0] | {price: str(int(file.rows[0][price]) - 500)}, *file.rows[2:], *file.others]
        dealer.imports(file.with_rows(rows).data())
        assert dealer.live() != before
        rehearsed = dealer.undo(dry_run=True)
        done = dealer.undo()
        assert done._replace(revision=None) == rehearsed
        assert (done.removed, done.restored, done.returned, done.left_alone) == (len(file.others), 1, 1, 0)
        assert dealer.live() == before
        with pytest.raises(NothingToUndo):
            dealer.undo()
        assert dealer.imports(file.data()).outcome.changed == ()


@pytest.mark.outside_protocol("feeds")
def test_an_undo_leaves_units_alone_that_were_changed_after_the_import(file: FeedFile) -> None:
    with feed_days(file.data()) as dealer:
        vin = vin_of(file, 0)
        price = int(file.rows[0][file.columns["selling_price"]]) - 500
        dealer.imports(changed(file, 0, selling_price=str(price)).data())
        dealer.decide(vin, "hidden")
        done = dealer.undo()
        assert (done.restored, done.left_alone) == (0, 1)
        assert vin not in dealer.live()


@pytest.mark.requirement("held-released")
def test_an_undo_keeps_what_a_person_released_before_the_import(file: FeedFile) -> None:
    with feed_days(file.data()) as dealer:
        vin = hold(dealer, file, "450")
        dealer.decide(vin, "released")
        hold(dealer, file, "1")
        assert dealer.held()[vin].decision == "none"
        dealer.undo()
        dealer.imports(changed(file, ROW, selling_price="450").data())
        assert (dealer.live()[vin].selling_price, dealer.held()) == (450, {})


@pytest.mark.outside_protocol("feeds")
def test_a_file_that_repairs_needs_no_column_of_the_mistaken_file(file: FeedFile) -> None:
    good = file.without("mileage")
    wrong = file.with_rows(file.others)
    with feed_days(good.data()) as dealer:
        before = dealer.live().keys()
        dealer.imports(wrong.data(), "units_lost", "rooftop_lost", "units_gained")
        done = dealer.imports(good.data())
        assert (dealer.live().keys(), done.outcome.changed) == (before, ())


@pytest.mark.outside_protocol("feeds")
def test_after_a_mistaken_first_import_an_undo_lets_the_next_good_file_in(file: FeedFile) -> None:
    column = file.columns["selling_price"]
    prices = [row[column] for row in file.rows]
    moved = [row | {column: prices[number - 1]} for number, row in enumerate(file.rows)]
    with feed_days(None) as dealer:
        dealer.imports(file.with_rows(moved).data())
        assert "prices_moved" in dealer.refusals(file.data())
        dealer.undo()
        assert dealer.live() == {}
        done = dealer.imports(file.data())
        # A price that is far from that of the mistaken file waits for a person.
        assert {finding.check for finding in done.outcome.findings} <= {"units_held"}
        assert len(dealer.live()) == len(file.rows) - len(dealer.held())


@pytest.mark.outside_protocol("feeds")
def test_the_next_good_file_repairs_a_mistaken_import(file: FeedFile) -> None:
    wrong = file.mapped("selling_price", lambda text: str(int(text) * 4) if text else "")
    with feed_days(file.data()) as dealer:
        before = dealer.live()
        checks = ("price_jumps", "units_implausible")
        done = dealer.imports(wrong.data(), *checks)
        assert dealer.live() == before, "implausible units keep their last good facts"
        assert len(done.outcome.held) == len(file.rows)
        foreign = file.with_rows([*file.rows[:10], *file.others])
        dealer.imports(foreign.data(), "units_lost", "rooftop_lost")
        assert dealer.live() != before
        done = dealer.imports(file.data())
        assert dealer.live().keys() == before.keys()


@pytest.mark.outside_protocol("feeds")
def test_a_file_that_fits_the_stock_before_a_mistaken_import_is_not_refused(file: FeedFile) -> None:
    columns = file.columns
    others = [
        row | {columns["vin"]: row[columns["vin"]][:-1] + ("1" if row[columns["vin"]][-1] != "1" else "2")}
        for row in file.rows
    ]
    others = [row | {columns["stock"]: f"E{n}"} for n, row in enumerate(others)]
    with feed_days(file.data()) as dealer:
        before = dealer.live()
        both = file.with_rows([*file.rows, *others]).data()
        assert dealer.refusals(both) == {"units_gained"}
        dealer.imports(both, "units_gained")
        assert len(dealer.live()) == 2 * len(before)
        done = dealer.imports(file.data())
        assert dealer.live() == before
        assert "repairs" in {finding.check for finding in done.outcome.findings}
        # A damaged file fits neither stock.
        assert "units_lost" in dealer.refusals(file.with_rows(file.rows[:15]).data())


@pytest.mark.requirement("other-dealers")
def test_a_new_unit_of_another_dealer_is_left_out_and_a_known_one_stays(file: FeedFile) -> None:
    hints = file.columns["rooftop_hints"]
    with feed_days(file.data()) as dealer:
        before = dealer.live().keys()
        known = [*file.rows[:-1], file.rows[-1] | {hints: "Elsewhere Motors"}]
        foreign = [row | {hints: "Elsewhere Motors"} for row in file.others]
        mixed = file.with_rows([*known, *foreign]).data()
        done = dealer.imports(mixed)
        assert (dealer.live().keys(), len(done.outcome.added)) == (before, 0)
        (finding,) = (each for each in done.outcome.findings if each.check == "rows_foreign")
        assert len(finding.rows) == len(foreign)
        # To accept the check that refuses a file mostly of other dealers also imports their new units.
        accepted = dealer.imports(mixed, "dealers_foreign")
        assert len(accepted.outcome.added) == len(foreign)
        # The next file needs no acceptance.
        assert dealer.imports(mixed).outcome.sold == ()


@pytest.mark.outside_protocol("feeds")
def test_a_dealer_gives_own_words_of_the_status_their_meaning(file: FeedFile) -> None:
    wide = file.with_rows([{**row, "status": "Front Line" if n else "Gone"} for n, row in enumerate(file.rows)]).wide()
    with feed_days(None) as dealer:
        assert "not_understood" in dealer.refusals(wide.data())
        dealer.checks = FeedChecks(status_words={"front line": "available", "GONE": "sold"})
        dealer.imports(wide.data())
        assert (len(dealer.live()), dealer.held()) == (len(file.rows) - 1, {})


@pytest.mark.outside_protocol("feeds")
def test_a_dealer_of_cheap_cars_changes_what_is_plausible(file: FeedFile) -> None:
    cheap = changed(file, ROW, selling_price="450", condition="used", mileage="90000", msrp="").data()
    with feed_days(None) as dealer:
        dealer.imports(cheap)
        assert vin_of(file, ROW) in dealer.held()
        dealer.checks = FeedChecks(lowest_price=100, price_jump_factor=1000)
        dealer.imports(cheap)
        assert dealer.held() == {}


@pytest.mark.outside_protocol("feeds")
@pytest.mark.parametrize(
    ("member", "change"), [form[1:] for form in OTHER_FORMS], ids=[form[0] for form in OTHER_FORMS]
)
def test_a_good_file_with_facts_in_another_form_passes(
    file: FeedFile, member: str, change: Callable[[str], str]
) -> None:
    with feed_days(file.data()) as dealer:
        done = dealer.imports(file.mapped(member, change).data())
        assert (done.outcome.findings, dealer.held(), done.outcome.sold) == ((), {}, ())
