"""`dealer-agent feeds password` and `feeds host-key`: what a vendor needs to upload feeds to our SFTP server."""

import os
import sys
from getpass import getpass
from pathlib import Path

from dealer_agent.cli.open_dealer import FolderOption
from dealer_agent.cli.terminal import JsonOption, fail, out, print_table, section
from dealer_agent.config.installation import load_served
from dealer_agent.encryption.passwords import check_new_password, hash_password


def password() -> None:
    """Ask for a password, and print its hash for the upload section of a feed.

    Without a terminal, the first line of the input is the password. Nothing is stored.
    """
    chosen = _ask() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
    try:
        check_new_password(chosen)
    except ValueError as problem:
        fail(str(problem))
    out.print(f'password_hash = "{hash_password(chosen)}"', soft_wrap=True)


def host_key(folder: FolderOption = Path(), as_json: JsonOption = False) -> None:
    """Show the host key of the SFTP server, and its fingerprint for vendors. A missing key is made."""
    # Imported here: asyncssh takes a moment.
    from dealer_agent.feed_collection.host_key import fingerprint
    from dealer_agent.feed_collection.host_key import host_key as read_host_key

    installation = load_served(folder, os.environ)
    path = installation.directory / installation.file.sftp.host_key_file
    key = read_host_key(path)
    public_key = " ".join(key.export_public_key().decode().split()[:2])
    columns, values = ("Fingerprint", "Public key", "File"), (fingerprint(key), public_key, str(path))
    if as_json:
        print_table("", columns, [values], as_json=True)
    else:
        section("Host key", dict(zip(columns, values, strict=True)))


def _ask() -> str:
    chosen = getpass("Password: ")
    if getpass("Again: ") != chosen:
        fail("The two passwords differ: try again")
    return chosen
