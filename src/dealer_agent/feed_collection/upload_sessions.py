"""The SFTP side of an upload: translates the requests of a client into calls of the `UploadFolder` of its account.

Nothing else works: no reading, no folders, no links, no shell. `UploadSession` replaces every method of asyncssh's
`SFTPServer`, because the original ones use the file system. A test fails when a new version of asyncssh has another
method. `UploadHandler` uses internals of asyncssh. The test of an interrupted upload protects it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from typing import Any, NoReturn, ParamSpec, TypeVar

import asyncssh
from asyncssh.packet import SSHPacket
from asyncssh.sftp import SFTPServerHandler
from asyncssh.stream import SSHReader, SSHServerStreamSession, SSHWriter

from dealer_agent.feed_collection.uploads import FOLDER_ATTRS, ShownFile, Upload, UploadFolder, file_name

SFTP_VERSION = 3
"""The version that all clients speak."""
MOST_UNREAD_BYTES = 1 << 20
"""Answers that a client has not read. Then its connection is closed."""

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class UploadSession(asyncssh.SFTPServer):
    """The SFTP session of a client that has logged in."""

    def __init__(self, chan: "asyncssh.SSHServerChannel[bytes]", folder: UploadFolder, threads: Executor) -> None:
        super().__init__(chan)
        self._folder = folder
        self._threads = threads
        self.is_answering = False

    async def open(self, path: bytes, pflags: int, attrs: asyncssh.SFTPAttrs) -> object:  # noqa: ARG002
        """Begins a file."""
        if not pflags & asyncssh.FXF_WRITE:
            raise asyncssh.SFTPPermissionDenied("Files cannot be read here")
        if pflags & asyncssh.FXF_APPEND:
            raise asyncssh.SFTPOpUnsupported("A file cannot be continued: send the whole file again")
        return await self._in_thread(self._folder.begin, file_name(path))

    async def write(self, file_obj: object, offset: int, data: bytes) -> int:
        """Writes bytes of an open file."""
        await self._in_thread(self._folder.write, _upload(file_obj), offset, data)
        return len(data)

    async def close(self, file_obj: object) -> None:
        """Ends a file. asyncssh also calls this for the open files of a client that has gone: then it is deleted."""
        done = self._folder.close if self.is_answering else self._folder.drop
        await self._in_thread(done, _upload(file_obj))

    async def fstat(self, file_obj: object) -> asyncssh.SFTPAttrs:
        """The attributes of an open file."""
        return _upload(file_obj).shown.attrs()

    async def fsetstat(self, file_obj: object, attrs: asyncssh.SFTPAttrs) -> None:
        """Sets the time that a client sees. A client may also cut an open file. The rest has no effect."""
        upload = _upload(file_obj)
        if attrs.size is not None:
            await self._in_thread(self._folder.truncate, upload, attrs.size)
        _set_time(upload.shown, attrs)

    async def stat(self, path: bytes) -> asyncssh.SFTPAttrs:
        """The attributes of a file that this account has uploaded, or of the folder."""
        name = file_name(path)
        return (await self._in_thread(self._folder.find, name)).attrs() if name else FOLDER_ATTRS

    async def lstat(self, path: bytes) -> asyncssh.SFTPAttrs:
        """As `stat`: there are no links."""
        return await self.stat(path)

    async def setstat(self, path: bytes, attrs: asyncssh.SFTPAttrs) -> None:
        """Sets the time that a client sees. The rest has no effect."""
        if attrs.size is not None:
            raise asyncssh.SFTPOpUnsupported("The size of a closed file cannot change: send the whole file again")
        if name := file_name(path):
            _set_time(await self._in_thread(self._folder.find, name), attrs)

    async def lsetstat(self, path: bytes, attrs: asyncssh.SFTPAttrs) -> None:
        """As `setstat`: there are no links."""
        await self.setstat(path, attrs)

    async def scandir(self, path: bytes) -> AsyncIterator[asyncssh.SFTPName]:
        """The files that this account has uploaded."""
        if file_name(path):
            raise asyncssh.SFTPNoSuchFile("There are no folders")
        for name in (b".", b".."):
            yield asyncssh.SFTPName(name, attrs=FOLDER_ATTRS)
        for text, shown in (await self._in_thread(self._folder.files)).items():
            yield asyncssh.SFTPName(text.encode(), attrs=shown.attrs())

    async def realpath(self, path: bytes) -> bytes:
        """The path below `/`. It need not exist."""
        return b"/" + file_name(path).encode()

    async def rename(self, oldpath: bytes, newpath: bytes) -> None:
        """Gives a file its final name."""
        await self._in_thread(self._folder.rename, file_name(oldpath), file_name(newpath))

    async def posix_rename(self, oldpath: bytes, newpath: bytes) -> None:
        """As `rename`."""
        await self.rename(oldpath, newpath)

    async def remove(self, path: bytes) -> None:
        """Deletes a file that waits for its final name."""
        await self._in_thread(self._folder.remove, file_name(path))

    async def fsync(self, file_obj: object) -> None:
        """The close syncs the file."""

    def read(self, file_obj: object, offset: int, size: int) -> NoReturn:  # noqa: ARG002
        """Refused."""
        raise asyncssh.SFTPPermissionDenied("Files cannot be read here")

    def mkdir(self, path: bytes, attrs: asyncssh.SFTPAttrs) -> NoReturn:  # noqa: ARG002
        """Refused."""
        raise asyncssh.SFTPPermissionDenied("There are no folders: upload the file to /")

    def rmdir(self, path: bytes) -> NoReturn:  # noqa: ARG002
        """Refused."""
        raise asyncssh.SFTPPermissionDenied("There are no folders")

    def symlink(self, oldpath: bytes, newpath: bytes) -> NoReturn:  # noqa: ARG002
        """Refused."""
        raise asyncssh.SFTPPermissionDenied("There are no links")

    def link(self, oldpath: bytes, newpath: bytes) -> NoReturn:  # noqa: ARG002
        """Refused."""
        raise asyncssh.SFTPPermissionDenied("There are no links")

    def readlink(self, path: bytes) -> NoReturn:  # noqa: ARG002
        """Refused."""
        raise asyncssh.SFTPNoSuchFile("There are no links")

    def open56(self, path: bytes, desired_access: int, flags: int, attrs: Any) -> NoReturn:  # noqa: ARG002
        """Refused: it is of another version of the protocol."""
        raise asyncssh.SFTPOpUnsupported("Only version 3 of the protocol works here")

    def statvfs(self, path: bytes) -> NoReturn:  # noqa: ARG002
        """Refused: the disk is not the client's."""
        raise asyncssh.SFTPOpUnsupported("The size of the disk is not shown")

    def fstatvfs(self, file_obj: object) -> NoReturn:  # noqa: ARG002
        """Refused: the disk is not the client's."""
        raise asyncssh.SFTPOpUnsupported("The size of the disk is not shown")

    def lock(self, file_obj: object, offset: int, length: int, flags: int) -> NoReturn:  # noqa: ARG002
        """Refused."""
        raise asyncssh.SFTPOpUnsupported("Files cannot be locked")

    def unlock(self, file_obj: object, offset: int, length: int) -> NoReturn:  # noqa: ARG002
        """Refused."""
        raise asyncssh.SFTPOpUnsupported("Files cannot be locked")

    def map_path(self, path: bytes) -> NoReturn:  # noqa: ARG002
        """No path of a client is one of this machine."""
        raise asyncssh.SFTPPermissionDenied("No such path")

    def reverse_map_path(self, path: bytes) -> NoReturn:  # noqa: ARG002
        """No path of a client is one of this machine."""
        raise asyncssh.SFTPPermissionDenied("No such path")

    def exit(self) -> None:
        """Ends the session. Without an exit status, `scp` of OpenSSH reports a failure."""
        self.channel.exit(0)

    async def _in_thread(
        self, work: Callable[Arguments, Result], *arguments: Arguments.args, **_: Arguments.kwargs
    ) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)


class UploadHandler(SFTPServerHandler):
    """Answers the requests of a session. `on_request` is called for each."""

    def __init__(
        self, session: UploadSession, reader: SSHReader[bytes], writer: SSHWriter[bytes], on_request: Callable[[], None]
    ) -> None:
        super().__init__(session, reader, writer, SFTP_VERSION)
        self._session = session
        self._on_request = on_request

    async def _process_packet(self, pkttype: int, pktid: int, packet: SSHPacket) -> None:
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

    def __init__(
        self, folder: UploadFolder, threads: Executor, on_request: Callable[[], None], on_end: Callable[[], None]
    ) -> None:
        super().__init__(None)
        self._folder = folder
        self._threads = threads
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
        session = UploadSession(channel, self._folder, self._threads)
        self._conn.create_task(UploadHandler(session, reader, writer, self._on_request).run(), reader.logger)

    def connection_lost(self, exc: Exception | None) -> None:
        """The channel is closed."""
        super().connection_lost(exc)
        self._on_end()


def _upload(file_obj: object) -> Upload:
    assert isinstance(file_obj, Upload)
    return file_obj


def _set_time(shown: ShownFile, attrs: asyncssh.SFTPAttrs) -> None:
    if attrs.mtime is not None:
        shown.modified = int(attrs.mtime)
