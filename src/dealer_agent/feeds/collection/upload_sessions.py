"""The SFTP side of an upload: asyncssh's own SFTP server, restricted to the folder of the account.

`map_path` checks each path of a client. Uploads, renames and deletions go to the `UploadFolder` of the account, which
has its bounds. Nothing else works: no reading, no folders, no links, no shell. A test fails when a new version of
asyncssh has another method. `UploadHandler` uses internals of asyncssh. The test of an interrupted upload protects it.
"""

import asyncio
import os
import posixpath
import unicodedata
from collections.abc import Callable
from typing import Any, NoReturn

import asyncssh
from asyncssh.packet import SSHPacket
from asyncssh.sftp import SFTPServerHandler
from asyncssh.stream import SSHReader, SSHServerStreamSession, SSHWriter

from dealer_agent.feeds.collection.uploads import Upload, UploadFolder

SFTP_VERSION = 3
"""The version that all clients speak."""
MOST_UNREAD_BYTES = 1 << 20
"""Answers that a client has not read. Then its connection is closed."""
LONGEST_PATH = 1024
LONGEST_NAME = 150
"""Both in bytes."""


def file_name(path: bytes) -> str:
    """The name of the file at a path of a client. Empty for the folder itself. Raises SFTPError."""
    if len(path) > LONGEST_PATH:
        raise asyncssh.SFTPFailure("The path is too long: choose a shorter name")
    try:
        text = path.decode()
    except UnicodeDecodeError:
        raise asyncssh.SFTPNoSuchFile("The path is not UTF-8: choose another name") from None
    name = posixpath.normpath(posixpath.join("/", text)).lstrip("/")
    if "/" in name:
        raise asyncssh.SFTPNoSuchFile("There are no folders: upload the file to /")
    if any(unicodedata.category(char)[0] == "C" for char in name):
        raise asyncssh.SFTPNoSuchFile("The name has control characters: choose another")
    if len(name.encode()) > LONGEST_NAME:
        raise asyncssh.SFTPFailure(f"The name is too long: choose one of at most {LONGEST_NAME} bytes")
    return name


def _refused(words: str) -> Callable[..., NoReturn]:
    def refuse(*_: object) -> NoReturn:
        raise asyncssh.SFTPPermissionDenied(words)

    return refuse


class UploadSession(asyncssh.SFTPServer):
    """The SFTP session of a client that has logged in. The methods of the base see only the folder of the account."""

    def __init__(self, chan: "asyncssh.SSHServerChannel[bytes]", folder: UploadFolder) -> None:
        folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        super().__init__(chan, os.fsencode(folder.path))
        self._folder = folder
        self.is_answering = False

    read = _refused("Files cannot be read here")
    mkdir = rmdir = _refused("There are no folders: upload the file to /")
    symlink = link = readlink = _refused("There are no links")
    statvfs = fstatvfs = _refused("The size of the disk is not shown")
    open56 = _refused("This server supports only version 3 of SFTP")

    def map_path(self, path: bytes) -> bytes:
        """The path on this machine of a path of the client. Every method uses it. Raises SFTPError."""
        file_name(path)
        return super().map_path(path)

    async def open(self, path: bytes, pflags: int, attrs: asyncssh.SFTPAttrs) -> object:  # noqa: ARG002
        """Begins a file."""
        if not pflags & asyncssh.FXF_WRITE:
            raise asyncssh.SFTPPermissionDenied("Files cannot be read here")
        if pflags & asyncssh.FXF_APPEND:
            raise asyncssh.SFTPOpUnsupported("A file cannot be continued: send the whole file again")
        return await asyncio.to_thread(self._folder.begin, _some_name(path))

    async def write(self, file_obj: object, offset: int, data: bytes) -> int:
        """Writes bytes of an open file."""
        await asyncio.to_thread(self._folder.write, _upload(file_obj), offset, data)
        return len(data)

    async def close(self, file_obj: object) -> None:
        """Ends a file. asyncssh also calls this for the open files of a client that has gone: then it is deleted."""
        done = self._folder.close if self.is_answering else self._folder.drop
        await asyncio.to_thread(done, _upload(file_obj))

    async def fsetstat(self, file_obj: object, attrs: asyncssh.SFTPAttrs) -> None:
        """Sets the time. A client may also cut an open file. The rest has no effect."""
        if attrs.size is not None:
            await asyncio.to_thread(self._folder.truncate, _upload(file_obj), attrs.size)
        super().fsetstat(file_obj, _times(attrs))

    def setstat(self, path: bytes, attrs: asyncssh.SFTPAttrs) -> None:
        """Sets the time. The rest has no effect."""
        if attrs.size is not None:
            raise asyncssh.SFTPOpUnsupported("The size of a closed file cannot change: send the whole file again")
        super().setstat(path, _times(attrs))

    lsetstat = setstat

    async def rename(self, oldpath: bytes, newpath: bytes) -> None:
        """Gives a file its final name, also that of an older file."""
        await asyncio.to_thread(self._folder.rename, _some_name(oldpath), _some_name(newpath))

    posix_rename = rename

    async def remove(self, path: bytes) -> None:
        """Deletes a file. A complete file is imported all the same."""
        await asyncio.to_thread(self._folder.remove, _some_name(path))

    def fsync(self, file_obj: object) -> None:
        """The close syncs the file."""

    def exit(self) -> None:
        """Ends the session. Without an exit status, `scp` of OpenSSH reports a failure."""
        self.channel.exit(0)


class UploadHandler(SFTPServerHandler):
    """Answers the requests of a session. `on_request` is called for each."""

    def __init__(
        self, session: UploadSession, reader: SSHReader[bytes], writer: SSHWriter[bytes], on_request: Callable[[], None]
    ) -> None:
        super().__init__(session, reader, writer, SFTP_VERSION)
        self._session = session
        self._on_request = on_request

    async def _process_packet(self, pkttype: int, pktid: int, packet: SSHPacket) -> None:
        """Answers one request. Overrides a private method of asyncssh to bound what a client may cause."""
        self._on_request()
        if self._session.channel.get_write_buffer_size() > MOST_UNREAD_BYTES:
            # The end of the session alone would wait until the client has read them.
            self._session.connection.abort()
            raise asyncssh.SFTPConnectionLost("The client does not read the answers")
        # A client may send many small requests at once. The other clients come between them.
        await asyncio.sleep(0)
        self._session.is_answering = True
        try:
            await super()._process_packet(pkttype, pktid, packet)
        finally:
            self._session.is_answering = False


class UploadStream(SSHServerStreamSession[bytes]):
    """A channel of a client that has logged in. Only the subsystem `sftp` can be started on it."""

    def __init__(self, folder: UploadFolder, on_request: Callable[[], None], on_end: Callable[[], None]) -> None:
        super().__init__(None)
        self._folder = folder
        self._on_request = on_request
        self._on_end = on_end

    @property
    def variables(self) -> int:
        """How many environment variables the client has sent. They have no effect."""
        channel: Any = self._chan
        return len(channel.get_environment()) if channel is not None else 0

    def subsystem_requested(self, subsystem: str) -> bool:
        """Whether the client may start this subsystem."""
        return subsystem == "sftp"

    def session_started(self) -> None:
        """Starts the SFTP session."""
        assert self._chan is not None
        assert self._conn is not None
        channel: Any = self._chan
        reader, writer = SSHReader[bytes](self, self._chan), SSHWriter[bytes](self, self._chan)
        session = UploadSession(channel, self._folder)
        self._conn.create_task(UploadHandler(session, reader, writer, self._on_request).run(), reader.logger)

    def connection_lost(self, exc: Exception | None) -> None:
        """The channel is closed."""
        super().connection_lost(exc)
        self._on_end()


def _some_name(path: bytes) -> str:
    name = file_name(path)
    if not name:
        raise asyncssh.SFTPFailure("This path is that of the folder: add the name of a file")
    return name


def _upload(file_obj: object) -> Upload:
    assert isinstance(file_obj, Upload)
    return file_obj


def _times(attrs: asyncssh.SFTPAttrs) -> asyncssh.SFTPAttrs:
    return asyncssh.SFTPAttrs(atime=attrs.atime, mtime=attrs.mtime)
