"""Makes an erasure final: without the old key, remains of erased values in the database's files cannot be read."""

import os
from datetime import UTC, datetime

from dealer_agent.cli.keys import change_key, changing_keys, rotation_of
from dealer_agent.cli.terminal import fail, out
from dealer_agent.config import Settings
from dealer_agent.config.keys import KEY_FILE_NAME, KEYS_VARIABLE, from_environment
from dealer_agent.server.key_rotation import changeable_key_file
from dealer_agent.storage.store import Store


def require_key_file() -> None:
    """Ends the command if the keys are in the environment, because it cannot destroy a key there."""
    if from_environment(os.environ):
        fail(
            f"--final cannot change the keys in {KEYS_VARIABLE}. Erase without it, then replace the key "
            "(dealer-agent keys rotate --help): the erasure is final when you have removed the old key there"
        )


def make_final(settings: Settings, store: Store) -> None:
    """Replaces the key, and destroys every key that may have encrypted erased data. Ends the command if one is left."""
    path = settings.directory / KEY_FILE_NAME
    with rotation_of(settings, store) as rotation, changing_keys(path):
        rotation.cipher.refresh()
        before = set(rotation.cipher.keyring.ids)
        change_key(rotation, destroy=True)
        if rotation.cipher.keyring.active in before:  # It only completed a change that was interrupted.
            change_key(rotation, destroy=True)
        left = before.intersection(rotation.cipher.keyring.ids)
    if left:
        fail(
            f"The erasure is not final: the key {', '.join(sorted(left))} is still needed, because a value cannot be "
            "encrypted with the new key. "
            "dealer-agent consent verify says what was changed in the database"
        )
    out.print(
        f"\nThe erasure is final: the old key is destroyed. Back up {path} again, and delete its older copies: with "
        "one of them, remains in the database's files and in its backups can be read.",
        markup=False,
    )


def tell_when_final(settings: Settings, store: Store) -> None:
    """Shows when the erasure becomes final, or what makes it final."""
    if from_environment(os.environ):
        when = (
            f"when you have replaced the key in {KEYS_VARIABLE} and removed the old one there "
            "(dealer-agent keys rotate --help)"
        )
    elif changeable_key_file(settings.directory, os.environ) is None or not settings.dealer.privacy.rotate_keys_days:
        when = (
            "when the key is destroyed. The service does not do this by itself here: run dealer-agent leads erase "
            "--final"
        )
    else:
        with rotation_of(settings, store) as rotation:
            by = rotation.final_by(datetime.now(UTC))
        when = f"by {by:%Y-%m-%d}: the running service destroys the key by then. --final does it at once"
    out.print(
        f"\nThe erasure becomes final {when}. Until then, a person who has the key and the database's files can read "
        "remains in them.",
        markup=False,
    )
