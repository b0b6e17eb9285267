"""Adds many dealers at once: a file with the settings that they share, and a table with a row for each dealer.

The header of the table has the paths of settings, such as `id`, `name` and `rooftops.0.address.city`, and `hosts`.
"""

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import tomlkit

from dealer_agent.config.installation import Installation
from dealer_agent.config.loading import FILE_NAME, parse_toml, read_text
from dealer_agent.config.settings_problems import SettingsError
from dealer_agent.dealers.profile_checks import canonical_host
from dealer_agent.operations.single_settings import find_setting, set_value
from dealer_agent.reference_pages import DocumentedSetting
from dealer_agent.storage.installation.dealer_registry import (
    add_dealer,
    add_host,
    all_dealers,
    all_hosts,
    read_settings,
    require_removed,
)
from dealer_agent.storage.store import Store

HOSTS = "hosts"
"""The column with the host names of a dealer, with spaces between them."""
MOST_DEALERS = 50_000
MOST_COLUMNS = 500
MOST_PROBLEMS = 100
"""The most problems that are reported."""
_POSITION = re.compile(rf"^{re.escape(FILE_NAME)}(, line \d+)?: ")


class NewDealer(NamedTuple):
    """A dealer of a table: its line there, the text of its `dealer.toml`, and its host names."""

    line: int
    dealer_id: str
    text: str
    hosts: tuple[str, ...]


class _Column(NamedTuple):
    """A column of a table: the path of a setting, and its documentation. None for HOSTS."""

    path: str
    setting: DocumentedSetting | None


def read_dealer_table(
    table: Path, shared: Path, installation: Installation, on_dealer: Callable[[], object]
) -> list[NewDealer]:
    """The dealers of a table. Each is checked as if it were added alone, and `on_dealer` is called after each.

    Raises SettingsError with the problems of all rows, at most MOST_PROBLEMS.
    """
    rows = _rows(table)
    columns = _columns(table, next(rows, (1, []))[1])
    # Its values are checked with those of each dealer.
    common = parse_toml(shared.name, read_text(shared))
    found: dict[str, NewDealer] = {}
    problems: list[str] = []
    for line, cells in rows:
        try:
            new = _new_dealer(line, columns, cells, common, installation)
        except SettingsError as problem:
            problems += (f"line {line}: {_POSITION.sub('', each)}" for each in str(problem).splitlines())
        else:
            if (other := found.setdefault(new.dealer_id, new)) is not new:
                problems.append(f"line {line}: the id {new.dealer_id} is in line {other.line} too")
        if len(problems) >= MOST_PROBLEMS:
            break
        on_dealer()
    _require_none(table, problems)
    if not found:
        raise SettingsError(f"{table.name}: has no row below the header")
    return list(found.values())


def only_missing(table: Path, dealers: Sequence[NewDealer], store: Store) -> list[NewDealer]:
    """The dealers that are not in the installation. So a command that was stopped can be repeated.

    Raises SettingsError if one is there with other settings or without a host, and if a host belongs to another dealer.
    """
    with store.installation() as tx:
        registered = {each.dealer_id: each.settings_number for each in all_dealers(tx)}
        owners = all_hosts(tx)
    problems: list[str] = []
    missing: list[NewDealer] = []
    for new in dealers:
        is_there = new.dealer_id in registered
        for host in new.hosts:
            owner = owners.setdefault(host, "" if is_there else new.dealer_id)
            if not owner:
                problems.append(
                    f"line {new.line}: the dealer {new.dealer_id} exists already without this host: add it with "
                    f"dealer-agent dealers host add {new.dealer_id} {host}"
                )
            elif owner != new.dealer_id:
                problems.append(f"line {new.line}: hosts: {host} belongs to the dealer {owner}; delete it in this line")
        if not is_there:
            missing.append(new)
            continue
        with store.read(new.dealer_id) as reading:
            stored = read_settings(reading, registered[new.dealer_id]).decode()
        if stored != new.text:
            problems.append(
                f"line {new.line}: the dealer {new.dealer_id} exists already with other settings: change them with "
                f"dealer-agent dealers edit {new.dealer_id}"
            )
    _require_none(table, problems)
    return missing


def add_new_dealer(
    store: Store,
    dealer_id: str,
    text: str,
    hosts: Iterable[str] = (),
    *,
    actor: str,
    note: str,
    enabled: bool,
    listed: bool,
) -> None:
    """Adds a dealer with the text of its `dealer.toml` and its host names. Raises DealerExists and HostTaken."""
    with store.registration(dealer_id) as tx:
        # If a dealer with this id was removed, all its data must be deleted.
        require_removed(tx)
        add_dealer(tx, text.encode(), actor=actor, note=note, enabled=enabled, listed=listed)
        for host in hosts:
            add_host(tx, host)


def _require_none(table: Path, problems: Sequence[str]) -> None:
    if problems:
        shown = [f"{table.name}, {each}" for each in problems[:MOST_PROBLEMS]]
        if len(problems) >= MOST_PROBLEMS:
            shown.append(f"{table.name}: there may be more problems: correct these first")
        raise SettingsError("\n".join(shown))


def _rows(table: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not blank, with their lines. Raises SettingsError."""
    text = read_text(table)
    header = text.partition("\n")[0]
    reader = csv.reader(text.splitlines(keepends=True), delimiter=max(",;\t", key=header.count), strict=True)
    number = 0
    try:
        for cells in reader:
            if any(map(str.strip, cells)):
                if number > MOST_DEALERS:
                    raise SettingsError(f"{table.name}: has more than {MOST_DEALERS:,} dealers: split it")
                number += 1
                yield reader.line_num, [cell.strip() for cell in cells]
    except csv.Error as problem:
        raise SettingsError(f"{table.name}, line {reader.line_num}: is not a row of a table: {problem}") from None


def _columns(table: Path, header: Sequence[str]) -> list[_Column]:
    """The settings that the header of the table names. Raises SettingsError."""
    if len(header) > MOST_COLUMNS:
        raise SettingsError(f"{table.name}: has more than {MOST_COLUMNS} columns: leave some out")
    columns: list[_Column] = []
    for path in header:
        found = None if path == HOSTS else find_setting(path)
        if found is None and path != HOSTS:
            raise SettingsError(
                f"{table.name}, line 1: '{path}' is not a setting of a dealer: write the path of one, such as name or "
                "rooftops.0.address.city, or hosts"
            )
        columns.append(_Column(path, found and found[1]))
    paths = [each.path for each in columns]
    if "id" not in paths or len({*paths}) < len(paths):
        raise SettingsError(f"{table.name}, line 1: must have the column id, and each column once")
    return columns


def _new_dealer(
    line: int, columns: Sequence[_Column], cells: Sequence[str], common: dict[str, Any], installation: Installation
) -> NewDealer:
    """The dealer of a row. An empty cell leaves the shared setting as it is. Raises SettingsError."""
    if len(cells) > len(columns):
        raise SettingsError(f"the row has {len(cells)} cells, and the header {len(columns)}")
    document = deepcopy(common)
    hosts: tuple[str, ...] = ()
    for (path, setting), cell in zip(columns, cells, strict=False):
        try:
            if setting is None:
                hosts = tuple(map(canonical_host, cell.split()))
            elif cell:
                set_value(document, path, cell, setting)
        except ValueError as problem:
            raise SettingsError(f"{path}: {problem}") from None
    text = tomlkit.dumps(document)
    return NewDealer(line, installation.dealer_settings(text).dealer.id, text, hosts)
