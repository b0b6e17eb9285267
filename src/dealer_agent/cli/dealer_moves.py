"""`dealer-agent dealers export` and `import`: a dealer moves between an installation and a folder of its own."""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from dealer_agent.cli.customer_data import actor
from dealer_agent.cli.open_dealer import FolderOption, OpenInstallation, open_installation, require_keys
from dealer_agent.cli.terminal import counted, err, fail, out, progress
from dealer_agent.config import Settings, load_settings
from dealer_agent.config.installation import DEALERS
from dealer_agent.config.keys import KEYS_VARIABLE, create_key_file
from dealer_agent.config.loading import DATABASE_FILE, FILE_NAME, read_text
from dealer_agent.server.dealer_settings import load_dealer_settings
from dealer_agent.server.removed_dealers import delete_files_of_removed
from dealer_agent.storage.dealer_keys import change_keyring
from dealer_agent.storage.dealer_registry import (
    COPIED,
    add_dealer,
    copy_dealer,
    count_rows,
    damage,
    find_dealer,
    read_settings,
    remove_dealer,
    require_removed,
    set_state,
)
from dealer_agent.storage.errors import DealerExists
from dealer_agent.storage.migrate import migrate
from dealer_agent.storage.store import Store

HERE = Path()
OF_DEALER = {"DATABASE_URL": "DEALER_DATABASE_URL", KEYS_VARIABLE: "DEALER_KEYS"}
"""The variables of a dealer's own service, and those that `import` reads for them: it has an environment of its own."""
SECONDS_TO_NOTICE = 3
"""After this time, no process serves a dealer that was disabled."""


def export(
    dealer_id: Annotated[str, typer.Argument(metavar="ID", help="The dealer's id, from `dealers list`.")],
    target: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder to create for the dealer.")],
    move: Annotated[
        bool, typer.Option("--move", help="Disable the dealer first, and delete it from the installation at the end.")
    ] = False,
    folder: FolderOption = HERE,
) -> None:
    """Copy a dealer into a folder of its own: dealer.toml, keys, and a SQLite database with all data.

    `dealer-agent serve --dir FOLDER` then serves it. The command verifies the copy. Do not serve a dealer in two
    places: both would deliver the leads that wait. With --move, the dealer's files on this machine are copied too.
    """
    with open_installation(folder, for_changes=True) as opened:
        require_keys(opened.installation)
        settings = load_dealer_settings(opened.installation, opened.store, dealer_id)
        if move:
            with opened.store.write(dealer_id) as tx:
                set_state(tx, enabled=False)
            time.sleep(SECONDS_TO_NOTICE)
        with _new_folder(target):
            rows = _export(opened, settings, target)
            if move and settings.directory.is_dir():
                shutil.copytree(settings.directory, target, dirs_exist_ok=True)
        out.print(f"The dealer {dealer_id} is in {target}: {counted(rows, 'row')}, all verified.")
        if move:
            remove_dealer(opened.store, dealer_id)
            delete_files(opened)
            out.print("It is deleted from the installation.")
    inherited = ", ".join(f"[{name}]" for name in opened.installation.inherited)
    if inherited:
        out.print(f"It has inherited settings from installation.toml: check {inherited} in {target / FILE_NAME}.")
    out.print(f"Next: set public_url under [service], then dealer-agent serve --dir {target}")


def import_(
    source: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The folder of the dealer.", exists=True, file_okay=False)
    ],
    listed: Annotated[bool, typer.Option("--listed", help="Show the dealer in the public list of dealers.")] = False,
    folder: FolderOption = HERE,
) -> None:
    """Copy a dealer with a folder of its own into the installation: settings, keys, and all data of its database.

    Stop the dealer's service first. The command verifies the copy before it enables the dealer. Afterwards, do not
    serve the folder any more: both would deliver the leads that wait.

    If the dealer's service has DATABASE_URL or DEALER_AGENT_KEYS in its environment, give these values to this command
    as DEALER_DATABASE_URL and DEALER_KEYS.
    """
    single = load_settings(source, {name: os.environ.get(own, "") for name, own in OF_DEALER.items()})
    dealer_id = single.dealer.id
    text = read_text(source / FILE_NAME)
    if single.cipher is None:
        fail(f"{source} has no keys: put dealer-agent.keys back from your backup, or set DEALER_KEYS")
    with open_installation(folder, for_changes=True) as opened:
        require_keys(opened.installation)
        settings = opened.installation.dealer_settings(text)
        with opened.store.read(dealer_id) as tx:
            require_removed(tx)
            if any(count_rows(tx).values()):
                raise DealerExists(f"the database has data of a dealer {dealer_id} already: nothing was changed")
        if not os.environ.get("DEALER_DATABASE_URL") and not (source / DATABASE_FILE).exists():
            fail(
                f"{source} has no {DATABASE_FILE}: set DEALER_DATABASE_URL to the dealer's database; a dealer without"
                f" data is added with: dealer-agent dealers add {source / FILE_NAME}"
            )
        migrate(single.database_url)
        with Store.open(single.database_url, single.cipher) as store:
            _require_whole(store, dealer_id, f"in {source}")
            with opened.store.registration(dealer_id) as tx:
                change_keyring(tx, (), single.cipher.keyring)
                add_dealer(tx, text.encode(), actor=actor(), note=f"from {source}", enabled=False, listed=listed)
            try:
                rows = _copied(store, opened.store, dealer_id)
                _require_whole(opened.store, dealer_id, "in the installation")
            except BaseException:
                remove_dealer(opened.store, dealer_id)
                raise
        _copy_heads(single, settings)
        with opened.store.write(dealer_id) as tx:
            set_state(tx, enabled=True)
    out.print(f"The dealer {dealer_id} is in the installation: {counted(rows, 'row')}, all verified.")
    out.print(f"It answers at {settings.base_url('')}/. Do not serve {source} any more.")


def delete_files(opened: OpenInstallation) -> None:
    """Deletes the files of removed dealers on this machine. The services of the installation repeat it."""
    try:
        delete_files_of_removed(opened.store, opened.installation.directory)
    except OSError as problem:
        where = opened.installation.directory / DEALERS
        err.print(f"Some files of the dealer are still in {where}: {os.strerror(problem.errno or 0)}. Delete them.")


def _export(opened: OpenInstallation, settings: Settings, target: Path) -> int:
    dealer_id = settings.dealer.id
    _require_whole(opened.store, dealer_id, "in the installation")
    with opened.store.read(dealer_id) as tx:
        document = read_settings(tx, find_dealer(tx).settings_number)
    (target / FILE_NAME).write_bytes(document)
    create_key_file(target, opened.store.check_keys(dealer_id).keyring)
    single = load_settings(target, {})
    migrate(single.database_url)
    with Store.open(single.database_url, single.cipher) as store:
        rows = _copied(opened.store, store, dealer_id)
        _require_whole(store, dealer_id, f"in {target}")
    _copy_heads(settings, single)
    return rows


@contextmanager
def _new_folder(path: Path) -> Iterator[None]:
    """Creates a folder, and deletes it again if the block fails."""
    if path.exists():
        fail(f"{path} is there already: name a folder that is not")
    path.mkdir(mode=0o700, parents=True)
    try:
        yield
    except BaseException:
        shutil.rmtree(path)
        raise


def _copied(source: Store, target: Store, dealer_id: str) -> int:
    """Copies the rows, with a progress bar, and compares the counts. Returns how many rows."""
    with source.read(dealer_id) as tx:
        expected = count_rows(tx)
    with progress() as bar:
        task = bar.add_task("Copying", total=sum(expected[table.name] for table in COPIED))
        copy_dealer(source, target, dealer_id, lambda rows: bar.update(task, advance=rows))
    with target.read(dealer_id) as tx:
        found = count_rows(tx)
    different = [table.name for table in COPIED if found[table.name] != expected[table.name]]
    if different:
        fail(f"The dealer's data has changed meanwhile ({', '.join(different)}): stop its service, and try again")
    return sum(found[table.name] for table in COPIED)


def _require_whole(store: Store, dealer_id: str, where: str) -> None:
    with store.read(dealer_id) as tx:
        problem = damage(tx)
    if problem is not None:
        fail(f"The dealer cannot be copied, because {where} {problem}")


def _copy_heads(source: Settings, target: Settings) -> None:
    """Copies the file with the recorded heads of the dealer's chains."""
    if source.heads_file.exists():
        target.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copy2(source.heads_file, target.heads_file)
