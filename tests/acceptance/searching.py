"""A search for what a customer said, in every form in which it may hide, with every key that still exists."""

import base64
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from sqlalchemy import create_engine, select

from dealer_agent.encryption import Keyring
from dealer_agent.encryption.keyring import KEY_BYTES
from dealer_agent.storage.database_url import database_url
from dealer_agent.storage.schema import metadata

MARK = "Zuliquixwy"
"""Stands in everything that a customer says below, and in nothing else."""

EMAIL = f"{MARK}.Mail@example.com"
PHONE = "+1 (202) 555-0187"
NOTATIONS = ("2025550187", "202 555 0187", "202-555-0187", "202.555.0187", "(202) 555", "555-0187", "555 0187")


def forms_of(text: str) -> Iterator[bytes]:
    """A text as it may stand in a file: in several encodings, as hexadecimal digits, and anywhere inside base64."""
    for said in {text, text.lower(), text.upper()}:
        raw = said.encode()
        yield from (raw, raw.hex().encode(), said.encode("utf-16-le"), said.encode("utf-16-be"))
        for shift in range(3):
            # Only the letters that depend on the text alone, and not on its neighbours.
            coded = base64.b64encode(bytes(shift) + raw)
            yield coded[-(-8 * shift // 6) : 8 * (shift + len(raw)) // 6]


NEEDLES = sorted({form for text in (MARK, *NOTATIONS) for form in forms_of(text)})


def personal(content: bytes) -> str | None:
    """What of a customer stands in this, with its surroundings."""
    for needle in NEEDLES:
        at = content.find(needle)
        if at >= 0:
            return repr(content[max(0, at - 80) : at + 80])
    return None


def tables_of(url: str) -> dict[str, bytes]:
    """Every column of every table of a PostgreSQL schema, as text and with the bytes of binary columns as they are."""
    content = {}
    with psycopg.connect(url) as connection:
        names = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()").fetchall()
        for (name,) in names:
            rows = connection.execute(f'SELECT * FROM "{name}"'.encode()).fetchall()
            cells = (cell for row in rows for cell in row)
            content[name] = b"\n".join(cell if isinstance(cell, bytes) else str(cell).encode() for cell in cells)
    assert {"leads", "consent_events", "accesses"} <= set(content)
    return content


SEALED = re.compile(rb"\x01([\x01-\x20])(?=[A-Za-z0-9])")
"""How every sealed value begins: its form, the length of its key's id, and the id."""

LONGEST_READ = 4096
"""So many bytes of each value are searched: what names a person is at its beginning."""


def files_of(folder: Path, url: str) -> Iterator[tuple[Path, bytes]]:
    """Every file that keeps data: the dealer's folder, and the server's with its write-ahead log."""
    folders = [folder]
    if url.startswith("postgresql"):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM")
            connection.execute("CHECKPOINT")
        folders.append(Path(os.environ["DEALER_AGENT_TEST_POSTGRESQL"]))
    for each in folders:
        # Other tests drop databases of the same server meanwhile: `walk` passes over folders that are gone.
        for place, _, names in os.walk(each):
            for path in (Path(place, name) for name in names):
                with suppress(FileNotFoundError):
                    if path.is_file():
                        yield path, path.read_bytes()


class Reader:
    """Somebody who has every key that still exists, the permanent secret too.

    No context is needed: without its tag, AES-GCM is AES in counter mode.
    """

    def __init__(self, folder: Path, more: Iterable[bytes] = ()) -> None:
        """`more` are further keys, with unknown ids."""
        keyring = Keyring.parse((folder / "dealer-agent.keys").read_text())
        assert keyring.permanent is not None
        info = b"dealer-agent vault 1: encryption"
        every = [*keyring.keys, ("lasting", keyring.permanent)]
        self._keys = {key_id: HKDF(SHA256(), 32, salt=None, info=info).derive(key) for key_id, key in every}
        self._keys |= {f"key {n}": HKDF(SHA256(), 32, None, info).derive(key) for n, key in enumerate(more)}
        self.values = 0
        """How many sealed values it has met."""

    def reads(self, content: bytes) -> str | None:
        """How it reads the customer somewhere in these bytes: in the clear, or by which key. None where it cannot."""
        if personal(content):
            return "in the clear"
        for _, nonce, sealed in _sealed_in(content):
            self.values += 1
            for key_id, key in self._keys.items():
                plain = _plain(key, nonce, sealed)
                if MARK.lower().encode() in plain.lower() or b"2025550187" in plain:
                    return f"with {key_id}"
        return None

    def wrapped_keys(self, content: bytes) -> set[bytes]:
        """What may be keys of dealers in these bytes, as the keys of an installation decrypt them."""
        return {
            _plain(self._keys[key_id], nonce, sealed)[:KEY_BYTES]
            for key_id, nonce, sealed in _sealed_in(content)
            if key_id in self._keys
        }


def _sealed_in(content: bytes) -> Iterator[tuple[str, bytes, bytes]]:
    """The key's id, the nonce and the encrypted bytes of each sealed value, and what follows it."""
    for match in SEALED.finditer(content):
        start = match.end() + match[1][0]
        key_id, nonce = content[match.end() : start], content[start : start + 12]
        if len(nonce) == 12 and re.fullmatch(rb"[A-Za-z0-9._-]+", key_id):
            yield key_id.decode(), nonce, content[start + 12 : start + 12 + LONGEST_READ]


def _plain(key: bytes, nonce: bytes, sealed: bytes) -> bytes:
    return Cipher(AES(key), CTR(nonce + b"\0\0\0\2")).decryptor().update(sealed)


def readable(folder: Path, url: str) -> list[str]:
    """The files in which a key that still exists reads the customer, and how."""
    wrapped: set[bytes] = set()
    if (folder / "installation.toml").exists():
        searching = Reader(folder)
        wrapped = {key for _, content in files_of(folder, url) for key in searching.wrapped_keys(content)}
        assert wrapped, "the search finds keys of dealers at all"
    reader = Reader(folder, (key for key in wrapped if len(key) == KEY_BYTES))
    found = [f"{path}: {how}" for path, content in files_of(folder, url) if (how := reader.reads(content))]
    assert found or reader.values > 5, "the search finds sealed values at all"
    return found


def readable_columns(folder: Path, url: str) -> set[str]:
    """The columns of the database in which a key that still exists reads the customer."""
    reader, found = Reader(folder), set()
    with create_engine(database_url(url)).connect() as connection:
        for table in metadata.sorted_tables:
            for row in connection.execute(select(table)):
                for name, value in row._mapping.items():
                    if value is not None and reader.reads(value if isinstance(value, bytes) else str(value).encode()):
                        found.add(f"{table.name}.{name}")
    assert found or reader.values > 5
    return found
