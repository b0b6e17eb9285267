"""Reads a feed: bytes to units and a report. Pure."""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from io import BytesIO
from operator import itemgetter
from typing import Any, BinaryIO, NamedTuple

from dealer_agent.feeds.files import values
from dealer_agent.feeds.files.decoding import (
    MIXED,
    Opener,
    Survey,
    check_size,
    encoding_of,
    open_text,
    start_of,
    stray_bytes,
    survey,
)
from dealer_agent.feeds.files.delimited import DelimitedRow, DelimitedTable, cells_of, read_table
from dealer_agent.feeds.files.feed import (
    MOST_CELL,
    MOST_DOUBTFUL,
    MOST_FILE_MIB,
    MOST_JSON_MIB,
    MOST_REPORTED,
    MOST_ROWS_WITHOUT_UNIT,
    ColumnUse,
    DamageSigns,
    FeedError,
    ParsedFeed,
    Repeat,
    RowCounts,
    RowProblem,
    Units,
)
from dealer_agent.feeds.files.json_records import Record, ends_early, flattened, read_records, structured_members
from dealer_agent.feeds.files.layouts import Columns, Layout, is_withheld, layout_of, named_layout, understand
from dealer_agent.feeds.files.plausibility import Implausibility, contradiction, implausibility
from dealer_agent.feeds.files.units import ParsedRow, PlainRows, read_unit
from dealer_agent.inventory.canonical_words.text import fold
from dealer_agent.inventory.listing import Unit

Progress = Callable[[int, int], None]

_STEP = 500
"""Rows between two reports of progress."""
_SAMPLE = 200
"""The number of records by which a JSON layout is recognised."""
_MOST_MISREAD = 3
"""If more values of a member are not understood, one problem counts them."""
_MOST_PATTERNS = 1_000
"""The most kinds of rows that are counted at a time. Rows with values of the same members are of one kind."""
_MOST_NAMES = 100
"""The names of the columns of one member in JSON, where each record can have others."""
_MISREAD_OF_SHIFTED = 2
"""A row of another width with so many values that are not understood has its cells in the wrong columns."""
_LONGEST_VIN_CELL = 40
_USUALLY_SHORT = 0.05
"""In a file with this share of short rows, a short row at the end is usual."""


@dataclass(slots=True)
class _RowProblems:
    first: list[RowProblem] = field(default_factory=list)
    count: int = 0
    most: int = MOST_REPORTED

    def add(self, row_problem: RowProblem) -> None:
        self.count += 1
        if self.count <= self.most:
            self.first.append(row_problem)


@dataclass(slots=True)
class _NotUnderstood:
    """The values of a member that are not understood; the first of them, and its line."""

    line: int
    example: str
    row_problems: _RowProblems = field(default_factory=lambda: _RowProblems(most=_MOST_MISREAD))


class _ColumnNames(NamedTuple):
    """The names of the columns of each member, and of the other columns."""

    fields: Mapping[str, tuple[str, ...]]
    not_understood: tuple[str, ...]
    withheld: tuple[str, ...]


class _OwnWords(NamedTuple):
    """The dealer's own columns and words of the status."""

    columns: Mapping[str, str]
    status_words: Mapping[str, str]


class _Tally:
    """Counts the rows of a feed, and keeps its units.

    Of rows with the same VIN, or without a VIN the same stock number, the last one is used.
    """

    def __init__(self, units: Units, on_progress: Progress | None, total: int) -> None:
        self.on_progress = on_progress
        self.total = total
        self.rows = 0
        self.units = units
        # By the identifier of a unit, the outcome of its last row: the number of the unit in `units`, or the line of
        # the row of a sold unit as a negative number.
        self.outcomes: dict[str, int] = {}
        # By identifier, the lines of the rows that a later row with the same identifier replaces.
        self.replaced_lines: dict[str, list[int]] = {}
        self.vin_by_stock: dict[str, str] = {}
        self.refused = _RowProblems()
        self.warnings = _RowProblems()
        # The number of rows that have a value, by member.
        self.rows_with: Counter[str] = Counter()
        # The number of rows by the tuple of their members with values: rows are mostly alike, and counting each member
        # takes time. `_add_up_patterns` adds them to `rows_with`.
        self._patterns: defaultdict[tuple[str, ...], int] = defaultdict(int)
        # By member, its values that are not understood.
        self.misread: dict[str, _NotUnderstood] = {}
        # By the identifier of a unit, why it must be held back.
        self.doubts: dict[str, tuple[Implausibility, ...]] = {}

    def add(self, line: int, reading: ParsedRow, done: int) -> None:
        self._add_row(line, reading)
        if self.on_progress is not None and self.rows % _STEP == 0:
            self.on_progress(done, self.total)

    def _add_row(self, line: int, reading: ParsedRow) -> None:
        """Counts one row, and keeps its unit in place of an earlier row with the same identifier."""
        self.rows += 1
        for text in reading.row_problems:
            self.warnings.add(RowProblem(line, reading.identifier, text))
        self._patterns[reading.filled] += 1
        if len(self._patterns) > _MOST_PATTERNS:
            self._add_up_patterns()
        for member, (example, text) in reading.misread.items():
            misread = self.misread.setdefault(member, _NotUnderstood(line, example))
            misread.row_problems.add(RowProblem(line, reading.identifier, text))
        key = reading.identifier
        if key is None:
            assert reading.refused is not None, "a row without an identifier is refused with a reason"
            self.refused.add(RowProblem(line, None, reading.refused))
            if self.rows == MOST_ROWS_WITHOUT_UNIT and not self.outcomes:
                first = self.refused.first[0]
                raise FeedError(
                    f"None of the first {MOST_ROWS_WITHOUT_UNIT:,} rows names a unit. Line {first.line}: {first.text}"
                    " Export the inventory with a column for the VIN or the stock number."
                )
            return
        # Removed first, so that the units are in the order of the rows that are used.
        before = self.outcomes.pop(key, None)
        doubts = tuple(reading.doubts)
        if before is not None:
            self.replaced_lines.setdefault(key, []).append(self.line(before))
            doubts = self._implausible_repeat(key, before, line, reading)
        self.outcomes[key] = -line if reading.unit is None else self.units.add(line, reading.unit)
        if reading.unit is not None and isinstance(reading.unit.stock, str) and reading.unit.stock != key:
            self.vin_by_stock[reading.unit.stock] = key
        if doubts:
            self._note_implausible_unit(key, line, doubts)

    def _note_implausible_unit(self, key: str, line: int, doubts: tuple[Implausibility, ...]) -> None:
        """Notes the doubts about a unit. Raises FeedError if too many units are implausible."""
        self.doubts[key] = doubts
        if len(self.doubts) > MOST_DOUBTFUL:
            raise FeedError(
                f"More than {MOST_DOUBTFUL:,} units are implausible. Line {line}: {doubts[0].sentence} "
                "Correct the export."
            )

    def _implausible_repeat(self, key: str, before: int, line: int, reading: ParsedRow) -> tuple[Implausibility, ...]:
        """The doubts about a unit whose rows are repeated: those of all rows, and another if the rows contradict.

        `before` is the outcome of the earlier row: the number of its unit. Below 0, no unit is for sale by that row, so
        there is nothing to contradict.
        """
        earlier = None if before < 0 else self.units.of(before)
        contrary = contradiction(earlier, reading.unit)
        doubts = [*self.doubts.get(key, ()), *reading.doubts]
        if contrary:
            doubts.append(implausibility("repeated", text=f"{contrary}, on lines {self.line(before)} and {line}"))
        return tuple(dict.fromkeys(doubts))

    def _hold_back_rows_without_vin(self) -> None:
        """A row without a VIN, whose stock number a row with a VIN has too, would show one car twice."""
        for stock, vin in self.vin_by_stock.items():
            if (without := self.outcomes.get(stock, -1)) >= 0:
                lines = f"{self.line(self.outcomes[vin])} and {self.line(without)}"
                twice = implausibility(
                    "repeated", text=f"one row has the VIN {vin} and the other has none, on lines {lines}"
                )
                self._note_implausible_unit(stock, self.line(without), (*self.doubts.get(stock, ()), twice))

    def _add_up_patterns(self) -> None:
        for members, rows in self._patterns.items():
            for member in members:
                self.rows_with[member] += rows
        self._patterns.clear()

    def line(self, outcome: int) -> int:
        return -outcome if outcome < 0 else self.units.line(outcome)

    def end(
        self, layout: Layout, encoding: str, delimiter: str | None, columns: "_ColumnNames", signs: DamageSigns
    ) -> ParsedFeed:
        """Returns the feed that was read. Call it after the last row was added."""
        if self.on_progress is not None:
            self.on_progress(self.total, self.total)
        self._add_up_patterns()
        self._hold_back_rows_without_vin()
        self.units.keep(outcome for outcome in self.outcomes.values() if outcome >= 0)
        sold = _RowProblems()
        for key, outcome in self.outcomes.items():
            if outcome < 0:
                sold.add(RowProblem(-outcome, key, "The row says that the unit is sold."))
        warnings = self._all_warnings()
        return ParsedFeed(
            layout=layout.name,
            encoding=encoding.removesuffix("-sig"),
            delimiter=delimiter,
            rows=self.rows,
            units=self.units,
            counts=RowCounts(self.refused.count, sold.count, warnings.count, len(self.replaced_lines)),
            refused=tuple(self.refused.first),
            sold=tuple(sold.first),
            warnings=tuple(warnings.first),
            repeated_vins=tuple(
                Repeat(key, (*lines, self.line(self.outcomes[key])))
                for key, lines in sorted(self.replaced_lines.items(), key=itemgetter(1))[:MOST_REPORTED]
            ),
            columns={member: self._use_of(member, names) for member, names in columns.fields.items()},
            columns_not_understood=columns.not_understood[:MOST_REPORTED],
            columns_withheld=columns.withheld[:MOST_REPORTED],
            signs=signs,
            doubts={key: doubts for key, doubts in self.doubts.items() if self.outcomes[key] >= 0},
        )

    def _use_of(self, member: str, columns: tuple[str, ...]) -> ColumnUse:
        misread = self.misread.get(member)
        if misread is None:
            return ColumnUse(columns, self.rows_with[member])
        return ColumnUse(columns, self.rows_with[member], misread.row_problems.count, misread.line, misread.example)

    def _all_warnings(self) -> _RowProblems:
        """All warnings, in the order of their lines.

        If more than `_MOST_MISREAD` values of a member are not understood, one warning sums them up.
        """
        listed = list(self.warnings.first)
        count = self.warnings.count
        for member, misread in self.misread.items():
            number = misread.row_problems.count
            if number > _MOST_MISREAD:
                share = f"{number:,} of {self.rows_with[member]:,} values"
                text = f"{member}: {share} are not understood, such as {misread.example!r}; the units lack them."
                listed.append(RowProblem(misread.line, None, text))
                count += 1
            else:
                listed.extend(misread.row_problems.first)
                count += number
        return _RowProblems(sorted(listed, key=itemgetter(0))[:MOST_REPORTED], count)


def read_feed(
    feed: Opener | bytes,
    *,
    layout: str | None = None,
    columns: Mapping[str, str] = {},
    status_words: Mapping[str, str] = {},
    on_progress: Progress | None = None,
    spool: BinaryIO | None = None,
) -> ParsedFeed:
    """Reads an inventory file. The layout is recognised from it, unless `layout` is one of `LAYOUT_NAMES`.

    `columns` are columns that no layout knows, each with the member of the canonical layout that it gives.
    `status_words` are the dealer's own words of the status, each with its meaning.
    `spool` is an empty file for the units, by default in memory. The caller closes it after the use of the feed.
    `on_progress(done, all)` counts lines of a delimited file, or records of JSON. Raises only FeedError, for a file
    that cannot be read. A row that cannot be read is refused, and a cell that cannot be read is absent.
    """
    if layout is not None:
        named_layout(layout)
    if isinstance(feed, bytes):
        feed = partial(BytesIO, feed)
    units = Units(BytesIO() if spool is None else spool)
    check_size(feed, "A file", MOST_FILE_MIB)
    encoding = encoding_of(feed)
    beginning = start_of(feed, encoding)
    own = _OwnWords(columns, {fold(word): meaning for word, meaning in status_words.items()})
    if beginning.lstrip("\ufeff \t\r\n")[:1] in ("[", "{", "<"):
        check_size(feed, "A file of JSON or HTML", MOST_JSON_MIB)
        # A program that joins files can leave a second byte order mark, which is not JSON.
        with open_text(feed, encoding) as text:
            return _read_json(feed, text.read().lstrip("\ufeff"), units, encoding, layout, own, on_progress)
    return _read_delimited(feed, units, encoding, beginning, layout, own, on_progress)


def _read_delimited(
    feed: Opener,
    units: Units,
    encoding: str,
    beginning: str,
    layout_name: str | None,
    own: _OwnWords,
    on_progress: Progress | None,
) -> ParsedFeed:
    """Reads the rows one by one. Also looks for signs that the end of the file is missing.

    `beginning` is the text of its first rows. `own` are the dealer's own columns and words of the status.
    """
    table = read_table(feed, encoding, beginning, layout_name, own.columns)
    layout = replace(table.layout, status_words=own.status_words)
    withheld = frozenset(index for index, name in enumerate(table.header) if is_withheld(name))
    surveyed = survey(feed, encoding)
    tally = _Tally(units, on_progress, surveyed.lines + 1)
    plain_rows = PlainRows(table.columns.fields, layout)
    last: DelimitedRow | None = None
    short_rows = 0
    try:
        for row in table.rows():
            if row.error is not None:
                reading = ParsedRow(refused=row.error)
            elif row.cells == table.header:
                reading = ParsedRow(refused="The row repeats the header.")
            elif len(row.cells) == table.width and (plain := plain_rows.read(row.cells)) is not None:
                reading = plain
            else:
                cells, row_problem = cells_of(row, table)
                reading = read_unit(cells, layout)
                _check_columns(row, table.width, reading)
                if row_problem is not None:
                    reading.row_problems.append(row_problem)
                    short_rows += len(row.cells) < table.width
            if reading.unit is not None:
                texts = row.cells if not withheld else [t for n, t in enumerate(row.cells) if n not in withheld]
                reading.note_sold_words(texts)
            tally.add(row.line, reading, done=row.line)
            last = row
    except FeedError:
        # Reads the rest, which raises another error for a quotation mark that is not closed: it explains this one.
        deque(table.rows(), maxlen=0)
        raise
    named = {member: tuple(map(table.header.__getitem__, indexes)) for member, indexes in table.columns.fields.items()}
    column_names = _ColumnNames(named, table.columns.not_understood, table.columns.withheld)
    rows_are_often_short = short_rows > 1 + _USUALLY_SHORT * tally.rows
    cut = "" if surveyed.line_end or rows_are_often_short else _cut(last, table)
    signs = _signs_of_damage(feed, encoding, surveyed, cut)
    return tally.end(table.layout, encoding, table.delimiter, column_names, signs)


def _check_columns(row: DelimitedRow, width: int, reading: ParsedRow) -> None:
    """Notes that the cells of a row are in the wrong columns. Then its VIN may be in another one."""
    present = len(row.cells)
    is_far = present != width and len(reading.misread) >= _MISREAD_OF_SHIFTED
    is_longer = present > width and (bool(reading.misread) or any(cell.strip() for cell in row.cells[width:]))
    vin = ""
    has_no_vin = reading.unit is None or not reading.unit.vin
    if has_no_vin and ("vin" in reading.misread or reading.identifier is None or present != width):
        vins = {cell.strip().upper() for cell in row.cells if len(cell) <= _LONGEST_VIN_CELL}
        vins = {vin for vin in vins if values.VIN_SHAPE.fullmatch(vin) and values.has_check_digit(vin)}
        vin = vins.pop() if len(vins) == 1 else ""
    if not (is_far or is_longer or vin):
        return
    if vin:
        reading.identifier, reading.refused, reading.unit = vin, None, Unit(vin=vin)
    if reading.unit is not None:
        what = (
            f"it has {present} cells, and the header has {width}" if present != width else "the VIN is in another one"
        )
        reading.doubts.append(implausibility("row_shifted", text=what))


def _cut(last: DelimitedRow | None, table: DelimitedTable) -> str:
    """The sentence about a file that ends inside its last row. Empty if it does not."""
    if last is None:
        return ""
    present = len(last.cells)
    if last.error is not None or present >= table.width:
        return ""
    return (
        f"The file ends inside a row: the last row, on line {last.line}, has {present} cells where the header has "
        f"{table.width}. Export the inventory again."
    )


def _signs_of_damage(feed: Opener, encoding: str, surveyed: Survey, truncated: str) -> DamageSigns:
    """The signs that the file was damaged. `truncated` says why its end seems to be missing; else it is empty."""
    strays = stray_bytes(feed) if encoding == MIXED else None
    return DamageSigns(
        truncated=truncated,
        line_end=surveyed.line_end,
        stray_bytes=0 if strays is None else strays.strays,
        stray_line=0 if strays is None else strays.line,
        garbled=surveyed.garbled,
    )


def _read_json(
    feed: Opener,
    text: str,
    units: Units,
    encoding: str,
    layout_name: str | None,
    own: _OwnWords,
    on_progress: Progress | None,
) -> ParsedFeed:
    """Reads the records of a JSON or HTML document. Its columns are the paths of the members, such as `price.amount`.

    `own` are the dealer's own columns and words of the status.
    """
    records = read_records(text)
    paths = {path: None for record in records[:_SAMPLE] for path in flattened(record.members, {})}
    layout = layout_of(list(paths), "json", named_layout(layout_name, "json") if layout_name else None, own.columns)
    layout = replace(layout, status_words=own.status_words)
    tally = _Tally(units, on_progress, len(records))
    reader = _RecordReader(layout)
    for done, record in enumerate(records, 1):
        tally.add(record.number, reader.read(record), done=done)
    fields = {member: tuple(names) for member, names in reader.fields.items()}
    columns = _ColumnNames(fields, tuple(reader.unread), tuple(reader.withheld))
    end = "The file ends inside a document. Export the inventory again." if ends_early(text, records) else ""
    return tally.end(layout, encoding, None, columns, _signs_of_damage(feed, encoding, survey(feed, encoding), end))


class _RecordReader:
    """Reads records of JSON to units, and notes the names of their members for the report.

    `fields` has the names that the layout knows, by the member that each gives. `unread` has those that nothing
    reads, and `withheld` those that must not be read. These dicts are sets that keep the order.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.withheld: dict[str, None] = {}
        self.unread: dict[str, None] = {}
        self.fields: dict[str, dict[str, None]] = {}
        # Most records have the same members: their names are understood, and noted, once.
        self._columns_of = lru_cache(maxsize=1_024)(self._understand)

    def _understand(self, names: tuple[str, ...]) -> Columns:
        """The columns that the layout knows. Notes their names for the report."""
        columns = understand(names, self.layout)
        for member, indexes in columns.fields.items():
            names_of = self.fields.setdefault(member, {})
            if len(names_of) < _MOST_NAMES:
                names_of.update((names[index], None) for index in indexes)
        return columns

    def read(self, record: Record) -> ParsedRow:
        """A record as a unit, or the reason why it is refused."""
        if record.error is not None:
            return ParsedRow(refused=record.error)
        paths = flattened(record.members, self.withheld)
        long = next((name for name, texts in paths.items() for text in texts if len(text) > MOST_CELL), None)
        if long is not None:
            return ParsedRow(refused=f"{long[:100]} has more than {MOST_CELL:,} characters.")
        names = tuple(paths)
        columns = self._columns_of(names)
        fields = columns.fields.items()
        cells = {field: [text for index in indexes for text in paths[names[index]]] for field, indexes in fields}
        ready: dict[str, Any] = {}
        row_problems: list[str] = []
        passed: set[str] = set()
        if self.layout.passes_extras:
            ready, row_problems = structured_members(record.members)
            passed = {"fees", "other_attributes", *ready.get("extras", ())}
        self.unread.update((name, None) for name in columns.not_understood if name.partition(".")[0] not in passed)
        reading = read_unit(cells, self.layout, ready)
        reading.row_problems.extend(row_problems)
        if reading.unit is not None:
            reading.note_sold_words([text for texts in paths.values() for text in texts])
        return reading
