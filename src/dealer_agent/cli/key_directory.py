"""`dealer-agent keys directory`: the key of an agent that signs its requests, and the directory that publishes it."""

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from dealer_agent.cli.terminal import counted, err, fail, local, out, plain
from dealer_agent.http_signatures.directory import (
    MAX_BYTES,
    MEDIA_TYPE,
    PATH,
    TAG,
    DirectoryRefused,
    KeySet,
    directory_document,
    directory_headers,
    directory_url,
    read_directory,
    read_jwks,
)
from dealer_agent.http_signatures.errors import SignatureRefused
from dealer_agent.http_signatures.fields import Fields
from dealer_agent.http_signatures.keys import KeyRefused, PrivateKey, private_key_of, read_private_key
from dealer_agent.http_signatures.origin import parse_origin
from dealer_agent.http_signatures.web_bot_auth import signatures_with_tag

if TYPE_CHECKING:
    from dealer_agent.client.transport import Received

EXIT_CODES = (
    "Exit codes: 0 done, and with --check the directory is right; 1 a file cannot be read or written, or the "
    "directory is wrong; 2 a wrong option."
)
NAME = PATH.rpartition("/")[2]
SECONDS = 10.0
"""The longest time of a fetch: dealers wait no longer."""
DAY_SECONDS = 24 * 3600


def _origin(text: str | None) -> str | None:
    if text is not None and parse_origin(text) is None:
        raise typer.BadParameter(f"{plain(text)} is not an origin: give one like https://agent.example")
    return text and parse_origin(text)


def directory(
    key: Annotated[
        list[Path] | None,
        typer.Argument(metavar="KEY", help="Files with private keys: PEM without a password, or a JWK."),
    ] = None,
    new: Annotated[
        Path | None, typer.Option("--new", metavar="FILE", help="Write a new Ed25519 key into a new file.")
    ] = None,
    origin: Annotated[
        str | None,
        typer.Option("--as", metavar="ORIGIN", callback=_origin, help="Where the directory is: https://agent.example"),
    ] = None,
    write: Annotated[
        Path | None,
        typer.Option("--write", metavar="FOLDER", help="Write the directory and settings for nginx and Caddy there."),
    ] = None,
    days: Annotated[
        int, typer.Option("--days", min=1, max=366, help="How long the signature of the directory is valid.")
    ] = 90,
    check: Annotated[
        str | None,
        typer.Option(
            "--check", metavar="ORIGIN", callback=_origin, help="Fetch the directory of an agent, as dealers do."
        ),
    ] = None,
) -> dict[str, Any]:
    """Make the key of an agent that signs its requests, publish its directory, and test what is published.

    To begin, make a key: --new agent.pem. Then make the directory: agent.pem --as https://agent.example --write FOLDER.
    Serve it on that origin, and test it: agent.pem --check https://agent.example. With several keys, the directory has
    all of them, so that an old key works until no request is signed with it.
    """
    if sum(each is not None for each in (new, origin, check)) != 1:
        raise typer.BadParameter("give one of --new FILE, --as ORIGIN and --check ORIGIN")
    if write is not None and origin is None:
        raise typer.BadParameter("--write needs --as ORIGIN")
    if new is not None:
        if key:
            raise typer.BadParameter("--new makes a key: give no other KEY")
        return _make_key(new)
    keys = [_read(each) for each in key or ()]
    if check is not None:
        return _check(check, keys)
    assert origin is not None
    if not keys:
        raise typer.BadParameter("--as needs a KEY: make one with --new FILE")
    return _publish(keys, origin, write, days)


def _read(path: Path) -> PrivateKey:
    try:
        return read_private_key(path.read_bytes())
    except KeyRefused as refused:
        fail(f"{path} {refused}.")


def _make_key(path: Path) -> dict[str, Any]:
    """Writes a new private key into a new file, and prints what to do next. Returns the JSON of the command."""
    # Imported here: only this needs it.
    from dealer_agent.encryption.private_files import new_private_file

    key = Ed25519PrivateKey.generate()
    try:
        with new_private_file(path) as file:
            file.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    except FileExistsError:
        fail(f"{path} exists already, and is kept: choose another name.")
    thumbprint = private_key_of(key).thumbprint
    out.print(f"The new key {thumbprint} is in {path}. Keep it secret. Anybody who has it can sign as you.")
    out.print(f"Next: dealer-agent keys directory {path} --as https://YOUR-ORIGIN --write FOLDER", soft_wrap=True)
    return {"file": str(path), "thumbprint": thumbprint}


def _publish(keys: Sequence[PrivateKey], origin: str, folder: Path | None, days: int) -> dict[str, Any]:
    """Prints the signed directory of the keys, or writes it into a folder.

    It comes with a configuration for nginx and Caddy. Returns the JSON of the command.
    """
    now = int(time.time())
    document = directory_document(keys)
    headers = directory_headers(keys, document, origin.removeprefix("https://"), now, days * DAY_SECONDS)
    until = datetime.fromtimestamp(now + days * DAY_SECONDS, UTC)
    files = {}
    if folder is None:
        out.print(f"Serve this at {directory_url(origin)}, with these headers:\n", soft_wrap=True)
        out.print("\n".join(f"{name}: {value}" for name, value in headers.items()), soft_wrap=True)
        out.print(f"\n{document.decode()}", soft_wrap=True)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        texts = {
            NAME: document,
            "nginx.conf": _nginx(folder.absolute(), headers).encode(),
            "Caddyfile": _caddy(folder.absolute(), headers).encode(),
        }
        for name, text in texts.items():
            (folder / name).write_bytes(text)
            files[name] = str(folder / name)
        out.print(f"Written to {folder}: {', '.join(files)}.")
        out.print("Include nginx.conf in the `server` of your origin, or import Caddyfile in its site.")
        out.print("Then reload the web server.")
    err.print(f"The signature of the directory ends at {local(until)}: repeat the command before that.")
    err.print(f"To test what is published: dealer-agent keys directory --check {origin}")
    return {
        "url": directory_url(origin),
        "headers": headers,
        "document": document.decode(),
        "signature_until": until,
        "files": files,
    }


def _nginx(folder: Path, headers: Mapping[str, str]) -> str:
    """The configuration with which nginx serves the directory."""
    lines = [f"add_header {name} '{value}';" for name, value in headers.items() if name != "content-type"]
    inside = [f"alias '{folder / NAME}';", "types { }", f"default_type {MEDIA_TYPE};", *lines]
    return "\n".join([f"location = {PATH} {{", *(f"    {line}" for line in inside), "}", ""])


def _caddy(folder: Path, headers: Mapping[str, str]) -> str:
    """The configuration with which Caddy serves the directory."""
    lines = [f"header {name} `{value}`" for name, value in headers.items()]
    inside = [f"root * `{folder}`", f"rewrite * /{NAME}", *lines, "file_server"]
    return "\n".join([f"handle {PATH} {{", *(f"    {line}" for line in inside), "}", ""])


def _check(origin: str, keys: Sequence[PrivateKey]) -> dict[str, Any]:
    """Fetches the published directory of an origin, and ends the command if dealers would refuse it."""
    # Imported here, as in `_fetch`.
    import anyio

    received = anyio.run(_fetch, directory_url(origin))
    if received.status != 200:
        advice = (
            "Dealers do not follow redirects: serve the directory at this address itself."
            if received.status // 100 == 3
            else "Serve the directory at this address: dealer-agent keys directory KEY --as ORIGIN makes it."
        )
        fail(f"{received.url} answered {received.status}, not 200. {advice}")
    headers = [(name.lower(), value) for name, value in received.headers.raw]
    now = time.time()
    try:
        key_set = read_directory(headers, received.body, origin.removeprefix("https://"), now)
    except DirectoryRefused as refused:
        fail(f"{received.url}: {plain(str(refused))}.")
    unpublished = [each.thumbprint for each in keys if each.thumbprint not in key_set.keys]
    if unpublished:
        fail(f"{received.url} does not have the key {', '.join(unpublished)}: publish the directory again.")
    return _report(origin, key_set, len(read_jwks(received.body)), _signed_until(Fields(headers, MAX_BYTES)), now)


def _report(origin: str, key_set: KeySet, published: int, signed_until: int | None, now: float) -> dict[str, Any]:
    """Prints the keys of a published directory. Ends the command if none is valid now."""
    rows = []
    for each in key_set.keys.values():
        rows.append({"thumbprint": each.thumbprint, "algorithm": each.algorithm, "valid_now": each.is_valid_at(now)})
        out.print(f"{each.thumbprint}  {each.algorithm}{'' if each.is_valid_at(now) else '  not valid now'}")
    if not any(row["valid_now"] for row in rows):
        fail(f"No key of {origin} is valid now: publish one whose nbf is past and whose exp is not.")
    ignored = published - len(rows)
    if ignored:
        err.print(
            f"{counted(ignored, 'more key')} of the directory cannot be used for signatures. Dealers accept keys of the"
            " types Ed25519, P-256, P-384 and RSA."
        )
    kept_seconds = round(key_set.expires_at - now)
    out.print(f"{origin} has {counted(len(rows), 'key')}. Dealers fetch the directory again after {kept_seconds} s.")
    until = None if signed_until is None else datetime.fromtimestamp(signed_until, UTC)
    out.print("The directory is not signed." if until is None else f"The directory is signed until {local(until)}.")
    return {
        "origin": origin,
        "keys": rows,
        "ignored": ignored,
        "kept_seconds": kept_seconds,
        "signature_until": until,
    }


async def _fetch(url: str) -> "Received":
    """The response at a URL. Ends the command if there is none."""
    # Imported here: the other commands about keys send no request.
    from dealer_agent.client.errors import DealerAgentError
    from dealer_agent.client.transport import Transport

    pool = Transport(
        None, token=None, token_origins=None, headers={}, user_agent="keys directory", timeout=SECONDS, on_exchange=None
    )
    try:
        return await pool.send("GET", url, most=MAX_BYTES, headers={"Accept": MEDIA_TYPE})
    except DealerAgentError as error:
        fail(plain(str(error)))
    finally:
        await pool.aclose()


def _signed_until(fields: Fields) -> int | None:
    """When the first signature of the directory ends. It was verified before."""
    try:
        signatures = signatures_with_tag(fields, TAG, MAX_BYTES)
    except SignatureRefused:
        return None
    return min((each.parameters["expires"] for each in signatures), default=None)
