"""Counts what the checks of a feed compare: values of the file, and differences from the stock. Pure."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

from msgspec import UNSET, Struct

from dealer_agent.feeds.files.checks import CheckRun, FeedFinding
from dealer_agent.feeds.files.feed import ParsedFeed
from dealer_agent.inventory.canonical_words.text import fold
from dealer_agent.inventory.listing import Unit

ESSENTIAL = (
    *("vin", "stock", "year", "make", "model", "selling_price", "mileage", "condition", "photos"),
    *("rooftop_hints", "status"),
)
"""The members without which a listing is wrong or useless. If a feed loses one, it is refused."""

_DETAILS = (
    *("vehicle_type", "trim", "list_price", "msrp", "body", "transmission", "driveline", "engine", "fuel"),
    *("exterior_color", "interior_color", "features", "vdp_url", "description"),
    *("city_mpg", "inventory_date"),
)
_COMPARED = (*(member for member in ESSENTIAL if member not in ("rooftop_hints", "status")), *_DETAILS)
_values_of: Callable[[Unit], tuple[Any, ...]] = attrgetter(*_COMPARED)

_OWN_CHECK = {
    "vin": "vins_lost",
    "stock": "stock_numbers_lost",
    "selling_price": "prices_lost",
    "photos": "photos_lost",
}
_EXPECTED = ("vin", "year", "make", "model", "selling_price", "condition", "photos")
"""Members that most units of a feed have. New cars often have no mileage."""

_IDENTITY = ("year", "make", "model")
_REWRITTEN = frozenset({"vin", "selling_price", "photos", "features", "vdp_url", "description", *_IDENTITY})
"""Members that have their own checks, or that systems rewrite often."""

_JUMP = 3
"""A price that becomes so many times as high or low is a jump."""
_MILEAGE_JUMP = 5_000
_CAMPAIGN = 0.05
"""Prices that change by less are a campaign of the dealer."""
_NAMED = 3
"""The most units that a finding names as examples."""
_YEAR_CODES = {code: number for number, code in enumerate("ABCDEFGHJKLMNPRSTVWXY123456789")}
"""The tenth character of a VIN gives the model year, in a cycle of 30 years from 1980 (49 CFR 565.15)."""

_TEMPLATE = re.compile(r"\{\{|%%\w+%%|\[\[\w+\]\]|\$\{\w+\}|<%|lorem ipsum", re.IGNORECASE)
_VIN_IN_ADDRESS = re.compile(r"(?<![A-Za-z0-9])[A-HJ-NPR-Z0-9]{17}(?![A-Za-z0-9])")
_LEAST_OF_HIGHWAY = 0.55
"""The city MPG of a car is at least this share of its highway MPG."""
_FARTHEST_MOVE = 3
"""Prices that were moved to other rows are searched for up to so many changed rows away."""
MOST_DEALERS = 50
"""A file that names more has places on the lot in the column of dealers."""
_FEWEST_FOR_GROWTH = 20
"""A smaller stock may grow by any number."""
_FEWEST_COMPARED = 0.5
"""Below this share of known units, the file is judged by its own values."""

_PRICES_OF_NEW_CARS = (10_000, 250_000)
_PRICES_OF_USED_CARS = (2_500, 250_000)
_MOST_MILES = 400_000
_MOST_MILES_OF_NEW = 10_000


class FeedShape(Struct, frozen=True):
    """What the next import of the same rooftops remembers of a file.

    `columns` are the names of the columns of each member that had values. `line_end` is that of its `Signs`. `dealers`
    are the folded ids and names of dealers that were imported.
    """

    columns: dict[str, tuple[str, ...]]
    line_end: bool = False
    dealers: tuple[str, ...] = ()


def shape_of(feed: ParsedFeed, dealers: Collection[str] = ()) -> FeedShape:
    """The shape of a file. In JSON, only members that at least half of the records have are columns.

    `dealers` are the dealers that its units name. Of too many, none is remembered: they are places on the lot.
    """
    least = feed.rows / 2 if feed.delimiter is None else 1
    columns = {name: use.columns for name, use in feed.columns.items() if use.filled and use.filled >= least}
    return FeedShape(columns, feed.signs.line_end, tuple(dealers) if len(dealers) <= MOST_DEALERS else ())


class FileCounts:
    """Counts the values of units of a file, of which one in `scale` is added."""

    def __init__(self, scale: float = 1.0) -> None:
        self.units = 0
        self._scale = scale
        # The number of units with a value, by the index of the member in `_COMPARED`.
        self._filled = [0] * len(_COMPARED)
        self._makes: set[str] = set()
        self._models: set[str] = set()
        # What may be implausible: the number of units where it is, and the number of units that were checked.
        self._odd: dict[str, list[int]] = {}
        # Units whose texts contain placeholders of a template.
        self._unfinished = 0
        # The first model with each value, and the units of other models that share it.
        self._shared: dict[str, dict[int, object]] = {"photos": {}, "vdp_url": {}}
        # By member, the units of the second of these two.
        self._sharing: Counter[str] = Counter()
        # For a member: units whose value continues that of the row before, as a spreadsheet fills a column.
        self._continued: Counter[str] = Counter()
        # The unit of the row before.
        self._before = Unit()

    def add(self, unit: Unit) -> None:
        """Counts a unit."""
        self.units += 1
        for index, value in enumerate(_values_of(unit)):
            self._filled[index] += value is not UNSET and value != ()
        if isinstance(unit.make, str) and isinstance(unit.model, str):
            self._makes.add(unit.make)
            self._models.add(unit.model)
        self._check_years(unit)
        self._note_texts(unit)
        self._check_row_before(unit)
        if unit.vehicle_type in (UNSET, "car"):
            self._check_car(unit)

    def _check_years(self, unit: Unit) -> None:
        if isinstance(unit.year, int) and isinstance(unit.vin, str) and len(unit.vin) == 17 and unit.year > 1980:
            is_odd = _YEAR_CODES.get(unit.vin[9]) != (unit.year - 1980) % 30
            self._count("Years that are not the year in the VIN", is_odd)

    def _note_texts(self, unit: Unit) -> None:
        """Counts texts with unfilled templates, and addresses that other models share or that name another VIN."""
        self._unfinished += _TEMPLATE.search(_text_of(unit)) is not None
        photo = unit.photos[0] if unit.photos else UNSET
        for member, address in (("photos", photo), ("vdp_url", unit.vdp_url)):
            if not isinstance(address, str):
                continue
            model = (unit.make, unit.model)
            first = self._shared[member].setdefault(hash(address), model)
            self._sharing[member] += first != model
            if match := _VIN_IN_ADDRESS.search(address):
                self._count(f"{member} with the VIN of another unit", match[0] != unit.vin)

    def _check_row_before(self, unit: Unit) -> None:
        """Counts values that a spreadsheet has filled down or moved. Cars have common prices, and not common miles."""
        before, self._before = self._before, unit
        if isinstance(unit.selling_price, int) and isinstance(before.selling_price, int):
            self._continued["selling_price"] += unit.selling_price == before.selling_price + 1
        if unit.condition != "new" and isinstance(unit.mileage, int) and isinstance(before.mileage, int):
            self._continued["mileage"] += unit.mileage > 1 and 0 <= unit.mileage - before.mileage <= 1
        if not isinstance(unit.model, str) or not isinstance(before.model, str):
            return
        own, other = fold(unit.model), fold(before.model)
        for member, text in (("description", unit.description), ("vdp_url", unit.vdp_url)):
            folded = fold(text) if isinstance(text, str) else ""
            if own in folded or other in folded:
                self._count(f"{member} with the model of the row before", own not in folded)

    def _check_car(self, unit: Unit) -> None:
        """Counts prices, mileages and fuel economies that are unusual for a car."""
        is_new = unit.condition == "new"
        cars = "new cars" if is_new else "used cars"
        if isinstance(unit.selling_price, int):
            least, most = _PRICES_OF_NEW_CARS if is_new else _PRICES_OF_USED_CARS
            self._count(f"Prices that are unusual for {cars}", not least <= unit.selling_price <= most)
        if isinstance(unit.mileage, int):
            most = _MOST_MILES_OF_NEW if is_new else _MOST_MILES
            self._count(f"Mileages that are unusual for {cars}", unit.mileage > most)
        if isinstance(unit.city_mpg, int) and isinstance(unit.highway_mpg, int):
            self._count("City MPG that is far below highway MPG", unit.city_mpg < unit.highway_mpg * _LEAST_OF_HIGHWAY)

    def _count(self, what: str, is_odd: bool) -> None:
        """Notes that a unit was checked, and the result."""
        counts = self._odd.setdefault(what, [0, 0])
        counts[0] += is_odd
        counts[1] += 1

    def share(self, member: str) -> float:
        """The share of the units that have a value of a member."""
        return self._filled[_COMPARED.index(member)] / self.units if self.units else 0.0

    def check_texts(self, check_run: CheckRun) -> None:
        """The findings that need no comparison, of any file."""
        units = round(self.units * self._scale)
        check_run.share("unfinished_texts", round(self._unfinished * self._scale), units)
        for check, counts in (("values_shared", self._sharing), ("values_filled_down", self._continued)):
            for member, count in counts.items():
                check_run.share(check, round(count * self._scale), units, member=member)

    def check(self, check_run: CheckRun) -> None:
        """The findings of a file that has little to be compared with."""
        units = round(self.units * self._scale)
        for member in _EXPECTED:
            check_run.share("values_absent", round(units * (1 - self.share(member))), units, member=member)
        for what, (count, total) in self._odd.items():
            check_run.share("implausible_values", round(count * self._scale), round(total * self._scale), what=what)
        if len(self._makes) > max(5, len(self._models)):
            both = {"count": f"{len(self._makes):,} makes", "total": f"{len(self._models):,} models"}
            check_run.add("implausible_values", what="Makes and models that seem to be swapped", **both)


class Comparison:
    """Compares known units with their stored values."""

    def __init__(self) -> None:
        self.units = 0
        # By the index of the member in `_COMPARED`: units that had a value, and whose value is gone or another.
        self._had = [0] * len(_COMPARED)
        self._lost = [0] * len(_COMPARED)
        self._changed = [0] * len(_COMPARED)
        # Prices that are several times as high or low.
        self._jumps = 0
        # Prices that change by more than a campaign does.
        self._repriced = 0
        # The first units whose price jumps, in words.
        self._named: list[str] = []
        # The old and the new price of each unit whose price changed, in the order of the file.
        self._prices: list[tuple[int, int]] = []
        # Units whose texts got question marks, and had characters that are not ASCII.
        self._garbled = 0
        # Units that go to another rooftop, and used units that become new.
        self._moved = 0
        self._renewed = 0
        self._mileage_jumps: list[str] = []
        # By member, the hashes of its text before and after, of each changed unit.
        self._texts: dict[str, list[tuple[int, int]]] = {"photos": [], "vdp_url": [], "description": []}

    def add(self, old: Unit, new: Unit, *, moves: bool) -> None:
        """Compares a changed unit. `moves`: it goes to another rooftop."""
        self.units += 1
        self._moved += moves
        self._renewed += new.condition == "new" and old.condition in ("used", "cpo")
        for index, (before, after) in enumerate(zip(_values_of(old), _values_of(new), strict=True)):
            if before is UNSET or before == ():
                continue
            self._had[index] += 1
            if after is UNSET or after == ():
                self._lost[index] += 1
            elif before != after and _folded(before) != _folded(after):
                self._changed[index] += 1
        if new.photos and old.photos and len(new.photos) * 2 < len(old.photos):
            self._lost[_COMPARED.index("photos")] += 1
        miles = old.mileage, new.mileage
        if isinstance(miles[0], int) and isinstance(miles[1], int) and abs(miles[1] - miles[0]) > _MILEAGE_JUMP:
            self._mileage_jumps.append(f"{new.vin or new.stock} {miles[0]:,} to {miles[1]:,}")
        for member, pairs in self._texts.items():
            before, after = getattr(old, member), getattr(new, member)
            if before and after and before != after:
                pairs.append((hash(before), hash(after)))
        self._compare_prices(old, new)
        self._garbled += _text_of(new).count("?") > _text_of(old).count("?") and not _text_of(old).isascii()

    def _compare_prices(self, old: Unit, new: Unit) -> None:
        """Counts a price that changed by a share that a campaign explains, or by a jump."""
        before, after = old.selling_price, new.selling_price
        if not isinstance(before, int) or not isinstance(after, int):
            return
        self._repriced += abs(after - before) > _CAMPAIGN * before
        if after >= before * _JUMP or after * _JUMP <= before:
            self._jumps += 1
            if len(self._named) < _NAMED:
                self._named.append(f"{new.vin or new.stock} ${before:,} to ${after:,}")

    def add_price(self, before: int, after: int) -> None:
        """Notes a changed price; 0 means no price. The units are in the order of the file."""
        if before and after and before != after:
            self._prices.append((before, after))

    def _moved_prices(self) -> int:
        """How many prices seem to have moved to other rows, all by the same distance.

        Only rows whose price changed are looked at. A price has moved by n rows if it is the old price of the n-th of
        these rows above, or below. Returns the count for the best distance and direction.
        """
        prices = self._prices
        distances = range(1, _FARTHEST_MOVE + 1)
        above = (sum(new == old for (old, _), (_, new) in zip(prices, prices[by:], strict=False)) for by in distances)
        below = (sum(new == old for (_, new), (old, _) in zip(prices, prices[by:], strict=False)) for by in distances)
        return max(*above, *below)

    def _check_moved_texts(self, check_run: CheckRun) -> None:
        """Finds texts and photos that move to other units. A text that many units have says nothing."""
        for member, pairs in self._texts.items():
            owners = Counter(before for before, _ in pairs)
            moved = sum(owners[after] == 1 for _, after in pairs)
            check_run.share("texts_moved", moved, len(pairs), member=member)

    def check(self, check_run: CheckRun, file: FileCounts, unchanged: int, scale: float) -> None:
        """Adds the findings. `unchanged` units were not compared. One in `scale` of the other units was compared."""

        def numbers(member: str, counts: list[int]) -> tuple[int, int]:
            """How many units `counts` has for a member, and how many units had a value of it."""
            # Of unchanged units only the number is known: they have values as often as all units of the file.
            index = _COMPARED.index(member)
            had = self._had[index] * scale + file.share(member) * unchanged
            return round(counts[index] * scale), max(round(had), round(counts[index] * scale))

        for member in _COMPARED:
            own = _OWN_CHECK.get(member) or ("values_lost" if member in ESSENTIAL else "details_lost")
            check_run.share(own, *numbers(member, self._lost), member=member)
            if member in _IDENTITY:
                check_run.share("identities_changed", *numbers(member, self._changed), member=member)
            elif member not in _REWRITTEN:
                check_run.share("values_changed", *numbers(member, self._changed), member=member)
        _, priced = numbers("selling_price", self._changed)
        check_run.share("prices_changed", round(self._repriced * scale), priced)
        named = ", ".join(self._named) + (", ..." if self._jumps > _NAMED else "")
        check_run.share("price_jumps", round(self._jumps * scale), priced, named=named)
        check_run.share("prices_moved", self._moved_prices(), len(self._prices))
        self._check_moved_texts(check_run)
        _, driven = numbers("mileage", self._changed)
        named = _some(self._mileage_jumps, _NAMED)
        check_run.share("mileage_jumps", round(len(self._mileage_jumps) * scale), driven, named=named)
        all_units = round(self.units * scale) + unchanged
        check_run.share("identities_changed", round(self._renewed * scale), all_units, member="condition, used to new")
        check_run.share("values_changed", round(self._moved * scale), all_units, member="rooftop")
        check_run.share("garbled_texts", round(self._garbled * scale), all_units)


def _folded(value: object) -> object:
    """A value without case and punctuation: a system may write all models in capitals."""
    return fold(value) if isinstance(value, str) else value


def _text_of(unit: Unit) -> str:
    return " ".join(text for text in (unit.model, unit.trim, unit.description) if isinstance(text, str))


class ImportEffect(NamedTuple):
    """How an import changes the units for sale in its scope.

    `for_sale` units become `after`. `changed` units are known, and buyers see a change. `comparison` has one in `scale`
    of them. `rooftops` are the units of each rooftop before, and `rooftops_after` those in the file.
    """

    for_sale: int
    after: int
    sold: int
    added: int
    changed: int
    unchanged: int
    comparison: Comparison
    scale: float
    rooftops: Mapping[str, int]
    rooftops_after: Mapping[str, int]


def check_feed(
    check_run: CheckRun,
    feed: ParsedFeed,
    file: FileCounts,
    change: ImportEffect,
    *,
    last: FeedShape | None,
    unknown_rooftops: int,
) -> tuple[FeedFinding, ...]:
    """All findings about a feed. `last` is the shape of the previous file of the same rooftops, if there is one.

    `unknown_rooftops` units name no rooftop of the dealer.
    """
    for check in ("units_lost", "units_lost_warning"):
        check_run.share(check, change.sold, change.for_sale)
    if change.for_sale >= _FEWEST_FOR_GROWTH:
        for check in ("units_gained", "units_gained_warning"):
            check_run.share(check, change.added, change.for_sale)
    for rooftop, before in change.rooftops.items():
        check_run.share("rooftop_lost", before - change.rooftops_after.get(rooftop, 0), before, rooftop=rooftop)
    change.comparison.check(check_run, file, change.unchanged, change.scale)
    if change.changed + change.unchanged < change.after * _FEWEST_COMPARED:
        file.check(check_run)
    file.check_texts(check_run)
    _check_columns(check_run, feed, last)
    _check_signs(check_run, feed, last)
    check_run.share("rows_refused", feed.counts.refused, feed.rows)
    check_run.share("rows_repeated", feed.repeats, feed.rows)
    check_run.share("rooftops_unknown", unknown_rooftops, change.after)
    return check_run.findings


def _check_columns(check_run: CheckRun, feed: ParsedFeed, last: FeedShape | None) -> None:
    """Finds columns whose values are not understood, and columns that the last feed had and this one lacks."""
    for member, use in feed.columns.items():
        check = "not_understood" if member in ESSENTIAL else "details_not_understood"
        example = repr(use.example)
        check_run.share(check, use.misread, use.filled, member=member, example=example, line=use.line)
    new = _some(feed.columns_not_understood)
    for member, columns in () if last is None else last.columns.items():
        if member not in feed.columns:
            check = "columns_missing" if member in ESSENTIAL else "details_missing"
            hint = f" Columns that are not understood: {new}." if new else ""
            check_run.add(check, member=member, columns=_some(columns), new=hint)


def _check_signs(check_run: CheckRun, feed: ParsedFeed, last: FeedShape | None) -> None:
    """Checks what the bytes of the file show: a missing end, mixed encodings, garbled text."""
    signs = feed.signs
    if signs.truncated:
        check_run.add("truncated", reason=signs.truncated)
    elif not signs.line_end and feed.delimiter is not None and (last is None or last.line_end):
        check_run.add("line_end_missing")
    if signs.stray_bytes:
        check_run.add("mixed_encodings", count=f"{signs.stray_bytes:,}", line=signs.stray_line)
    check_run.share("garbled_texts", signs.garbled, feed.rows)


def _some(names: Iterable[str], most: int = 5) -> str:
    names = list(names)
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")
