"""The settings of a dealer: each with its documentation, a change as a difference before it is saved, the history."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from difflib import unified_diff
from typing import Any, NamedTuple

import tomlkit
from starlette.responses import Response

from dealer_agent.config.settings_problems import SettingsError
from dealer_agent.console.requests import ConsoleRequest, not_found, refuse
from dealer_agent.console.words import FILE_TOO_DEEP, VALUE_TOO_DEEP
from dealer_agent.operations.settings_changes import DealerSettings, sections_that_need_a_restart, settings_of
from dealer_agent.operations.single_settings import find_setting, set_value
from dealer_agent.reference_pages import DocumentedSetting, SettingsSection, is_placeholder, settings_sections

LARGEST = 50_000
"""The most characters of settings that a page can change. Larger ones are changed as a file."""
MOST_LINES = 3_000
LONGEST_NOTE = 200
LONGEST_VALUE = 10_000
MOST_ENTRIES = 50
"""The most entries of a repeated section that the page shows."""
CONTEXT = 3

TomlPath = tuple[str | int, ...]
"""Where a section is in the file: keys, and numbers of entries."""


class ShownSetting(NamedTuple):
    """A setting, its value as the file has it (empty if it has none), and its path in the file, such as `mail.host`."""

    documented: DocumentedSetting
    text: str
    path: str


class ShownSection(NamedTuple):
    """A section of the file, with its settings."""

    title: str
    values: Sequence[ShownSetting]


class DiffLine(NamedTuple):
    """A line of a difference. `kind` is added, removed, same or gap."""

    kind: str
    text: str


def show(request: ConsoleRequest) -> Response:
    """All settings of one section with their documentation, and the list of sections."""
    text = _source(request).current().text
    data = tomllib.loads(text)
    sections = settings_sections()
    names = [".".join(each.path) or "top" for each in sections]
    chosen = request.query.get("section", "top")
    if chosen not in names:
        not_found("There is no such section of the settings.")
    section = sections[names.index(chosen)]
    return request.page("settings.html", names=names, chosen=chosen, shown=list(_shown(section, data)))


def show_file(request: ConsoleRequest) -> Response:
    """The whole file, to edit."""
    current = _source(request).current()
    return request.page("settings_file.html", version=current.version, text=_small(current.text), problems=())


def preview(request: ConsoleRequest) -> Response:
    """Checks a text as the service does, and shows what it would change. Nothing is stored."""
    return _preview_text(request, _form_text(request), request.text("version", 50), request.text("note", LONGEST_NOTE))


def save(request: ConsoleRequest) -> Response:
    """Stores a text. The person has seen what it changes (`preview`)."""
    source, text = _source(request), _form_text(request)
    before = source.check(source.current().text)
    after = source.check(text)
    note = request.text("note", LONGEST_NOTE)
    source.save(text, expected=request.text("version", 50), actor=request.actor, note=note)
    restart = sections_that_need_a_restart(request.opened.installation, before, after)
    return request.go("settings", "history", said="settings-saved-restart" if restart else "settings-saved")


def show_change(request: ConsoleRequest) -> Response:
    """The form for one setting."""
    path = request.query.get("path", "name")
    section, setting = _find(path)
    text = _source(request).current().text
    values = {each.path: each.text for shown in _shown(section, tomllib.loads(text)) for each in shown.values}
    value = values.get(path, "")
    return request.page("settings_change.html", setting=setting, path=path, value=value, problem="")


def change(request: ConsoleRequest) -> Response:
    """Changes one setting in the text of the file, which keeps its comments, and shows the difference."""
    path, value = request.text("path"), request.text("value", LONGEST_VALUE)
    _, setting = _find(path)
    current = _source(request).current()
    try:
        document = tomlkit.parse(_small(current.text))
        set_value(document, path, value, setting)
        changed = tomlkit.dumps(document)
    except (ValueError, RecursionError) as problem:
        said = str(problem)
        words = f"{said[0].upper()}{said[1:]}." if isinstance(problem, ValueError) else VALUE_TOO_DEEP
        return request.page("settings_change.html", 422, setting=setting, path=path, value=value, problem=words)
    return _preview_text(request, changed, current.version, f"{path} changed")


def history(request: ConsoleRequest) -> Response:
    """The settings that the dealer has had, newest first."""
    source = _source(request)
    return request.page("settings_history.html", records=source.history()[:100], current=source.current().number)


def show_number(request: ConsoleRequest) -> Response:
    """Settings of the history, and what was changed since."""
    source, number = _source(request), _number(request.params["number"])
    text, current = source.read(number), source.current()
    if text is None:
        not_found("There are no settings with this number.")
    lines = list(_difference(text, current.text))
    return request.page("settings_number.html", number=number, version=current.version, text=_small(text), lines=lines)


def _preview_text(request: ConsoleRequest, text: str, version: str, note: str) -> Response:
    """Shows what an edited settings file changes, or its problems. Nothing is stored."""
    source = _source(request)
    before = source.current().text
    try:
        source.check(text)
    except (SettingsError, RecursionError) as problem:
        problems = str(problem).splitlines() if isinstance(problem, SettingsError) else [FILE_TOO_DEEP]
        return request.page("settings_file.html", 422, version=version, text=text, problems=problems)
    lines = list(_difference(before, text))
    return request.page("settings_preview.html", lines=lines, text=text, version=version, note=note[:LONGEST_NOTE])


def _source(request: ConsoleRequest) -> DealerSettings:
    return settings_of(request.opened, request.dealer.profile.id)


def _form_text(request: ConsoleRequest) -> str:
    """The text of a form, with the line ends of the file: browsers send CR and LF."""
    return _small((request.form.get("text") or [""])[0].replace("\r\n", "\n"))


def _small(text: str) -> str:
    if len(text) > LARGEST or text.count("\n") > MOST_LINES:
        refuse(
            f"These settings have more than {LARGEST:,} characters or {MOST_LINES:,} lines: change them with "
            "dealer-agent dealers edit."
        )
    return text


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        not_found("There are no settings with this number.")
    return int(text)


def _difference(before: str, after: str) -> Iterator[DiffLine]:
    """What changes between two texts, with lines around it."""
    kinds = {"+": "added", "-": "removed", " ": "same", "@": "gap"}
    lines = unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=CONTEXT)
    for number, line in enumerate(lines):
        if number > 1:
            yield DiffLine(kinds[line[0]], line if line[0] == "@" else line[1:])


def _shown(section: SettingsSection, data: Mapping[str, Any]) -> Iterator[ShownSection]:
    """A section, once for each of its tables in the file. One that is not repeated is shown even if it is missing."""
    tables = list(_tables(section.path, data, ()))[:MOST_ENTRIES]
    if not tables and not section.repeated and not any(map(is_placeholder, section.path)):
        tables = [(section.path, {})]
    for path, values in tables:
        settings = [
            ShownSetting(each, _toml(values.get(each.key)), _dotted((*path, each.key))) for each in section.settings
        ]
        yield ShownSection(_dotted(path), settings)


def _tables(path: Sequence[str], value: Any, above: TomlPath) -> Iterator[tuple[TomlPath, Mapping[str, Any]]]:
    """The tables at a path below `above`, with their paths. A placeholder in the path stands for all keys."""
    if isinstance(value, list):
        for number, entry in enumerate(value):
            yield from _tables(path, entry, (*above, number))
    elif isinstance(value, dict) and not path:
        yield above, value
    elif isinstance(value, dict):
        keys = list(value) if is_placeholder(path[0]) else [path[0]]
        for key in keys:
            if key in value:
                yield from _tables(path[1:], value[key], (*above, key))


def _dotted(path: TomlPath) -> str:
    return ".".join(map(str, path))


def _toml(value: Any) -> str:
    """A value as TOML; empty without one. A table is shown in its own section."""
    if (
        value is None
        or isinstance(value, dict)
        or (isinstance(value, list) and any(isinstance(v, dict) for v in value))
    ):
        return ""
    return str(tomlkit.item(value).as_string())


def _find(path: str) -> tuple[SettingsSection, DocumentedSetting]:
    return find_setting(path) or not_found("There is no such setting. Choose one of the list.")
