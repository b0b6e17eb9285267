"""`dealer-agent keys`: the keys that customer data is encrypted with."""

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Annotated

import typer

from dealer_agent.cli.terminal import (
    HERE,
    DirOption,
    add_row,
    customer_store,
    fail,
    failures_in_plain_words,
    out,
    progress,
    settings_in,
    table,
)
from dealer_agent.config import Settings
from dealer_agent.config.keys import (
    KEY_FILE_NAME,
    KEYS_VARIABLE,
    changing,
    create_key_file,
    from_environment,
    replace_key_file,
)
from dealer_agent.storage.errors import DatabaseUnreachable, SchemaOutdated
from dealer_agent.storage.store import Store
from dealer_agent.vault import BadKeys, Keyring, Vault, new_key, new_lasting_secret, render

app = typer.Typer(help="Make, list and change the keys to customer data.", no_args_is_help=True)

TAKEN_UP_SECONDS = 3.0
"""After this long every worker process has read a changed key file: they look twice a second."""
VALUES_AT_ONCE = 200
"""So many values are encrypted anew in one transaction: leads that come in meanwhile wait for no more than that."""


@app.command("create")
def create(
    directory: DirOption = HERE,
    show: Annotated[
        bool,
        typer.Option(
            "--print",
            help=f"Show a new key for {KEYS_VARIABLE}, and a lasting secret unless it has one; no file is made.",
        ),
    ] = False,
) -> None:
    """Make the key file of a dealer that has none; `init` did so already."""
    if show:
        lasting = None if _has_lasting_secret(os.environ) else new_lasting_secret()
        entries = render(Keyring((new_key(),), lasting)).split()
        out.print(",".join(entries), markup=False, soft_wrap=True)
        return
    with failures_in_plain_words():
        settings = settings_in(directory)
        if from_environment(os.environ):
            fail(f"{KEYS_VARIABLE} is set, and wins over a file: dealer-agent keys create --print shows a key for it")
        if settings.vault is not None:
            fail(f"{settings.directory / KEY_FILE_NAME} is there already: dealer-agent keys rotate changes the key")
        _let_go_of_lost_key(settings)
        path = create_key_file(settings.directory)
    out.print(f"The key to customer data is in {path}. Back this file up, apart from the database.", markup=False)


@app.command("list")
def list_(directory: DirOption = HERE) -> None:
    """List the keys by their ids, and how much of the customer data is encrypted with each."""
    with failures_in_plain_words():
        settings = settings_in(directory)
        vault = _vault_of(settings)
        with customer_store(settings) as store:
            used = store.keys_in_use(settings.dealer.id)
    made = table("Keys to customer data", "Id", "Use", "Values #")
    for key_id in vault.keyring.ids:
        use = "active: encrypts and reads" if key_id == vault.keyring.active else "reads"
        add_row(made, key_id, use, f"{used.get(key_id, 0):,}")
    out.print(made)
    source = KEYS_VARIABLE if from_environment(os.environ) else settings.directory / KEY_FILE_NAME
    out.print(f"They come from {source}.", markup=False)


@app.command("rotate")
def rotate(
    directory: DirOption = HERE,
    forget_old: Annotated[
        bool, typer.Option("--forget-old", help="Drop the old keys from the file when nothing needs them any more.")
    ] = False,
) -> None:
    """Change the key: make a new one, and encrypt all customer data anew. The service may go on running.

    May be stopped at any point: the next call goes on from there. With keys from DEALER_AGENT_KEYS, put the new key in
    front, restart the service, then call this.
    """
    with failures_in_plain_words():
        settings = settings_in(directory)
        vault = _vault_of(settings)
        if from_environment(os.environ):
            with customer_store(settings) as store:
                if not _encrypt_anew(store, settings.dealer.id, vault):
                    out.print(f"All customer data is under the key {vault.keyring.active} already.", markup=False)
                unused = _unused(store, settings.dealer.id, vault.keyring)
            if unused:
                out.print(f"Nothing needs {_named(unused)}: you may remove what is not needed from {KEYS_VARIABLE}.")
            return
        path = settings.directory / KEY_FILE_NAME
        try:
            with changing(path):
                vault.refresh()
                with customer_store(settings) as store:
                    _rotate_file(store, settings, vault, forget_old=forget_old)
        except BlockingIOError:
            fail("Another dealer-agent keys rotate is under way")
        except PermissionError:
            fail(f"{path} belongs to another user, or its folder may not be written: run this as the file's owner")
    out.print(f"Back up {path} anew, and keep the old copy for as long as old backups of the database.", markup=False)


def _rotate_file(store: Store, settings: Settings, vault: Vault, *, forget_old: bool) -> None:
    dealer_id, path = settings.dealer.id, settings.directory / KEY_FILE_NAME
    if _encrypt_anew(store, dealer_id, vault):
        out.print(f"That ended a change that was stopped; the new key is {vault.keyring.active}.", markup=False)
    else:
        key = new_key()
        # At first the new key only reads: no worker may meet what another one already seals and hashes with it.
        for keys in ((*vault.keyring.keys, key), (key, *vault.keyring.keys)):
            replace_key_file(path, replace(vault.keyring, keys=keys))
            time.sleep(TAKEN_UP_SECONDS)
        vault.refresh()
        store.check_keys(dealer_id)
        out.print(f"The new key is {vault.keyring.active}.", markup=False)
        _encrypt_anew(store, dealer_id, vault)
    unused = _unused(store, dealer_id, vault.keyring)
    if not unused:
        return
    if not forget_old:
        out.print(f"Nothing needs {_named(unused)} any more; --forget-old drops what nothing needs.", markup=False)
        return
    kept = tuple(entry for entry in vault.keyring.keys if entry[0] not in unused)
    replace_key_file(path, replace(vault.keyring, keys=kept))
    out.print(f"Forgotten: {_named(unused)}.", markup=False)


def _encrypt_anew(store: Store, dealer_id: str, vault: Vault) -> int:
    """Brings every value under the active key, a few at a time; how many there were."""
    done = 0
    with progress() as bar:
        task = bar.add_task("Encrypting", total=_left(store.keys_in_use(dealer_id), vault.keyring))
        while count := store.reseal(dealer_id, VALUES_AT_ONCE):
            done += count
            bar.update(task, advance=count)
    if done:
        out.print(f"{done:,} values were encrypted anew.")
    return done


def _left(used: Mapping[str, int], keyring: Keyring) -> int:
    return sum(count for key_id, count in used.items() if key_id != keyring.active)


def _unused(store: Store, dealer_id: str, keyring: Keyring) -> list[str]:
    used = store.keys_in_use(dealer_id)
    return [key_id for key_id in keyring.ids[1:] if not used.get(key_id)]


def _has_lasting_secret(env: Mapping[str, str]) -> bool:
    """Whether the environment's keys have a lasting secret: then only a new key is wanted."""
    try:
        return Keyring.parse(env.get(KEYS_VARIABLE, "")).lasting is not None
    except BadKeys:
        return False


def _named(key_ids: list[str]) -> str:
    return ", ".join(key_ids)


def _vault_of(settings: Settings) -> Vault:
    if settings.vault is None:
        fail(
            f"There is no key: put {KEY_FILE_NAME} back from your backup or set {KEYS_VARIABLE}; "
            "for a dealer that has no leads yet, dealer-agent keys create makes one"
        )
    return settings.vault


def _let_go_of_lost_key(settings: Settings) -> None:
    """A new key would not open what a lost one sealed: then the command ends. One that sealed nothing is no loss."""
    # Without a database, or with one from before there were keys, nothing is sealed yet.
    with suppress(DatabaseUnreachable, SchemaOutdated), Store.open(settings.database_url) as store:
        used = store.keys_in_use(settings.dealer.id)
        if used:
            fail(
                f"The database holds customer data under the key {_named(sorted(used))}: put the file {KEY_FILE_NAME} "
                "back from your backup. Without a backup this data cannot be read again: rename the database (with "
                "PostgreSQL, set DATABASE_URL to a new one), create a key, and import the inventory"
            )
        store.drop_unused_keys(settings.dealer.id)
