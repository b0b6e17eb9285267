"""Vendors upload feeds to our SFTP server (docs/reference/feeds.md#receive-feeds-by-sftp)."""

import os
from pathlib import Path

import asyncssh
import pytest
from tests.feeds.collection.uploading import FEED, OTHER_USER, PASSWORD, USER, eventually, openssh, uploading
from tests.servers.small_disk import fill, small_disk

from dealer_agent.feeds.collection.upload_sessions import UploadSession
from dealer_agent.feeds.collection.uploads import UploadLimits

pytestmark = [
    pytest.mark.outside_protocol("uploads of feeds by SFTP"),
    pytest.mark.anyio,
    pytest.mark.usefixtures("quick_logins"),
]


async def test_a_file_is_complete_when_it_is_closed(tmp_path: Path) -> None:
    async with uploading(tmp_path) as running, running.session() as client:
        async with client.open("feed.csv", "wb") as file:
            await file.write(FEED)
            assert running.files() == {}
        assert running.files() == {"feed.csv": FEED}
        assert [path.read_bytes() for path in running.received()] == [FEED]


async def test_a_file_with_a_temporary_name_is_complete_when_it_is_renamed(tmp_path: Path) -> None:
    async with uploading(tmp_path) as running, running.session() as client:
        for number in range(2):
            async with client.open("feed.csv.tmp", "wb") as file:
                await file.write(FEED)
            assert len(running.received()) == number
            await client.rename("feed.csv.tmp", "feed.csv")
        assert running.files() == {"feed.csv": FEED}
        assert len(running.received()) == 2
        assert running.leftovers() == []


async def test_a_client_sees_size_and_time_of_what_it_uploaded(tmp_path: Path) -> None:
    (tmp_path / "feed.csv").write_bytes(FEED)
    async with uploading(tmp_path) as running, running.session() as client:
        await client.put(str(tmp_path / "feed.csv"), preserve=True)
        seen = await client.stat("/feed.csv")
        assert seen.size == len(FEED)
        assert seen.mtime == int((tmp_path / "feed.csv").stat().st_mtime)
        assert sorted(await client.listdir("/")) == [".", "..", "feed.csv"]
        await client.remove("feed.csv")
        assert not await client.exists("feed.csv")


@pytest.mark.parametrize(
    "commands",
    [
        ["put feed.csv"],
        ["put -p feed.csv /feed.csv"],
        ["put feed.csv feed.csv.filepart", "rename feed.csv.filepart feed.csv"],
        ["cd /", "pwd", "ls -l", "put feed.csv other.part", "rename other.part feed.csv", "ls feed.csv"],
    ],
    ids=" ".join,
)
async def test_the_client_of_openssh_uploads(tmp_path: Path, commands: list[str]) -> None:
    (tmp_path / "feed.csv").write_bytes(FEED)
    async with uploading(tmp_path) as running:
        code, said = await openssh(running, [f"lcd {tmp_path}", *commands])
        assert code == 0, said
        assert running.files() == {"feed.csv": FEED}


async def test_scp_of_openssh_uploads(tmp_path: Path) -> None:
    (tmp_path / "feed.csv").write_bytes(FEED)
    async with uploading(tmp_path) as running:
        for _ in range(2):
            words = ["-s", str(tmp_path / "feed.csv"), f"{USER}@127.0.0.1:feed.csv"]
            code, said = await openssh(running, [], "scp", *words)
            assert code == 0, said
        assert len(running.received()) == 2
        assert running.files() == {"feed.csv": FEED}


@pytest.mark.parametrize(
    ("program", "words"),
    [("ssh", ["id"]), ("ssh", ["-W", "127.0.0.1:22"]), ("scp", ["-O", "feed.csv", f"{USER}@127.0.0.1:feed.csv"])],
)
async def test_there_is_no_shell_no_command_and_no_forwarding(tmp_path: Path, program: str, words: list[str]) -> None:
    async with uploading(tmp_path) as running:
        code, said = await openssh(running, [], program, *words)
        assert code != 0, said
        assert "uid=" not in said


async def test_a_file_with_missing_bytes_is_not_taken(tmp_path: Path) -> None:
    async with uploading(tmp_path) as running, running.session() as client:
        file = await client.open("feed.csv", "wb")
        await file.write(FEED[10:], 10)
        with pytest.raises(asyncssh.SFTPError, match="send the whole file again"):
            await file.close()
        assert running.files() == {}
        assert running.leftovers() == []


async def test_an_interrupted_upload_is_never_taken(tmp_path: Path) -> None:
    """The library closes the open files of a client that has gone. This must not look like the client's own close."""
    async with uploading(tmp_path) as running:
        connection = await running.connect()
        client = await connection.start_sftp_client()
        file = await client.open("feed.csv", "wb")
        await file.write(FEED)
        assert len(running.leftovers()) == 1
        connection.abort()
        await eventually("the part is deleted", lambda: not running.leftovers())
        assert running.files() == {}


async def test_a_session_that_ends_with_an_open_file_is_an_interrupted_upload(tmp_path: Path) -> None:
    async with uploading(tmp_path) as running, await running.connect() as connection:
        client = await connection.start_sftp_client()
        file = await client.open("feed.csv", "wb")
        await file.write(FEED)
        client.exit()
        await client.wait_closed()
        await eventually("the part is deleted", lambda: not running.leftovers())
        assert running.files() == {}


async def test_a_file_may_be_renamed_on_another_connection(tmp_path: Path) -> None:
    async with uploading(tmp_path) as running:
        async with running.session() as client, client.open("feed.csv.tmp", "wb") as file:
            await file.write(FEED)
        async with running.session() as client:
            await client.rename("feed.csv.tmp", "feed.csv")
        assert running.files() == {"feed.csv": FEED}


async def test_parts_of_a_killed_process_are_deleted_and_those_of_other_processes_stay(tmp_path: Path) -> None:
    async with uploading(tmp_path) as running, running.session() as client:
        running.incoming().mkdir(parents=True)
        (running.incoming() / ".0123456789abcdef.part").write_bytes(FEED)
        async with client.open("one.csv", "wb") as one, client.open("two.csv", "wb") as two:
            assert len(running.leftovers()) == 2
            await one.write(FEED)
            await two.write(FEED)
        assert running.files() == {"one.csv": FEED, "two.csv": FEED}


async def test_accounts_do_not_see_each_other(tmp_path: Path) -> None:
    async with uploading(tmp_path) as running:
        async with running.session(USER) as client, running.session(OTHER_USER) as rival:
            async with client.open("feed.csv.tmp", "wb") as file:
                await file.write(FEED)
            assert await rival.listdir("/") == [".", ".."]
            with pytest.raises(asyncssh.SFTPNoSuchFile):
                await rival.rename("feed.csv.tmp", "feed.csv")
        assert running.files(OTHER_USER) == {}


OUTSIDE = [
    b"../x.csv/y",
    b"/etc/cron.d/x",
    b"folder/x.csv",
    b"x\0.csv",
    b"x\n.csv",
    "x\u202evsc.csv".encode(),
    b"\xff\xfe",
    b"x" * 151,
    b"x" * 100_000,
    b"",
    b".",
    b"/",
]


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: repr(path[:20]))
async def test_no_path_leads_out_of_the_folder(tmp_path: Path, path: bytes) -> None:
    async with uploading(tmp_path) as running, running.session() as client:
        with pytest.raises(asyncssh.SFTPError):
            await client.open(path, "wb")
        async with client.open("feed.csv.tmp", "wb") as file:
            await file.write(FEED)
        with pytest.raises(asyncssh.SFTPError):
            await client.rename("feed.csv.tmp", path)
        await client.rename("feed.csv.tmp", "../../feed.csv")
        assert running.files() == {"feed.csv": FEED}
        assert sorted(path.name for path in tmp_path.rglob("*")) == sorted(
            ["feeds", USER, "incoming", "uploads", "feed.csv"]
        )


REFUSED = {
    "read": lambda client: client.open("feed.csv", "rb"),
    "append": lambda client: client.open("feed.csv", "ab"),
    "mkdir": lambda client: client.mkdir("folder"),
    "rmdir": lambda client: client.rmdir("/"),
    "symlink": lambda client: client.symlink("/etc/passwd", "link"),
    "link": lambda client: client.link("feed.csv", "link"),
    "readlink": lambda client: client.readlink("feed.csv"),
    "grow": lambda client: client.truncate("feed.csv", 1 << 40),
    "disk": lambda client: client.statvfs("/"),
    "list": lambda client: client.listdir("/etc"),
    "stat": lambda client: client.stat("/etc/passwd"),
    "other": lambda client: client.remove("other.csv"),
}


@pytest.mark.parametrize("request_of", REFUSED.values(), ids=REFUSED)
async def test_what_is_no_upload_is_refused(tmp_path: Path, request_of: object) -> None:
    assert callable(request_of)
    async with uploading(tmp_path) as running, running.session() as client:
        async with client.open("feed.csv", "wb") as file:
            await file.write(FEED)
        with pytest.raises(asyncssh.SFTPError):
            await request_of(client)
        await client.chmod("feed.csv", 0o777)
        assert running.received()[0].stat().st_mode & 0o777 == 0o600
        assert running.files() == {"feed.csv": FEED}


async def test_bytes_cannot_be_read_from_a_file_that_is_open_for_writing(tmp_path: Path) -> None:
    async with uploading(tmp_path) as running, running.session() as client, client.open("feed.csv", "w+b") as file:
        await file.write(FEED)
        with pytest.raises(asyncssh.SFTPPermissionDenied):
            await file.read(10, 0)


def test_every_method_of_the_library_is_replaced_or_only_shows_attributes() -> None:
    """Another method could read or write files without the bounds of the account."""
    harmless = {"channel", "connection", "env", "logger", "convert_attrs", "_to_sftpname"} | {
        f"format_{each}" for each in ("user", "group", "longname")
    }
    shows = {"stat", "lstat", "fstat", "scandir", "realpath", "reverse_map_path"}
    unsupported = {"lock", "unlock"}
    methods = {name for name in vars(asyncssh.SFTPServer) if not name.startswith("__")}
    assert methods - harmless - shows - unsupported <= set(vars(UploadSession))


async def test_a_link_in_the_folder_shows_nothing_outside(tmp_path: Path) -> None:
    """No client can make one. It would be another fault first."""
    (tmp_path / "outside" / "folder").mkdir(parents=True)
    async with uploading(tmp_path) as running, running.session() as client:
        (running.uploads() / "link").symlink_to(tmp_path / "outside")
        with pytest.raises(asyncssh.SFTPError):
            await client.realpath("link")
        with pytest.raises(asyncssh.SFTPError):
            await client.listdir("link/folder")


async def test_a_file_over_its_bound_is_refused(tmp_path: Path) -> None:
    async with (
        uploading(tmp_path, limits=UploadLimits(1000, 5, 10_000, 1 << 30, 0)) as running,
        running.session() as client,
    ):
        file = await client.open("feed.csv", "wb")
        await file.write(b"x" * 1000, 0)
        with pytest.raises(asyncssh.SFTPError, match="more than 1000 bytes"):
            await file.write(b"x", 1000)
        with pytest.raises(asyncssh.SFTPError, match="not imported"):
            await file.close()
        sparse = await client.open("sparse.csv", "wb")
        with pytest.raises(asyncssh.SFTPError, match="more than 1000 bytes"):
            await sparse.write(b"x", 1 << 60)
        with pytest.raises(asyncssh.SFTPError, match="not imported"):
            await sparse.close()
        assert running.files() == {}


async def test_the_files_and_bytes_of_an_account_are_bounded(tmp_path: Path) -> None:
    async with uploading(tmp_path, limits=UploadLimits(1000, 2, 1500, 1 << 30, 0)) as running:
        async with running.session() as client:
            async with client.open("one.csv", "wb") as one:
                await one.write(b"x" * 1000)
            with pytest.raises(asyncssh.SFTPError):
                async with client.open("two.csv", "wb") as two:
                    await two.write(b"x" * 501)
            async with client.open("two.csv", "wb") as two:
                await two.write(b"x" * 500)
            with pytest.raises(asyncssh.SFTPError, match="2 files already wait"):
                await client.open("three.csv", "wb")
            running.received()[0].unlink()
            async with client.open("three.csv", "wb") as three:
                await three.write(b"x" * 1000)
        async with running.session(OTHER_USER) as rival, rival.open("one.csv", "wb") as one:
            await one.write(b"x" * 1000)


async def flood(client: asyncssh.SFTPClient) -> None:
    for number in range(1000):
        async with client.open(f"{number}.csv", "wb") as file:
            await file.write(b"x" * 100_000)


async def test_one_account_fills_neither_the_disk_nor_the_bound_of_the_dealer(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "8m") as disk:
        limits = UploadLimits(1 << 30, 1000, 1 << 40, dealer_bytes=1 << 40, least_free=4 << 20)
        async with uploading(disk, limits=limits) as running:
            async with running.session() as client:
                with pytest.raises(asyncssh.SFTPError, match=r"Too many bytes already wait|file is not imported"):
                    await flood(client)
                with pytest.raises(asyncssh.SFTPError, match="Too many bytes already wait"):
                    await (await client.open("more.csv", "wb")).write(bytes(100_000))
            free = os.statvfs(disk)
            # A quarter of the room is the share of an account, and half of it that of a dealer.
            assert free.f_bavail * free.f_frsize > 6 << 20
            assert len(running.received()) > 5
            async with running.session(OTHER_USER) as rival, rival.open("one.csv", "wb") as one:
                await one.write(b"x" * 300_000)
            running.received()[0].unlink()
            running.received()[0].unlink()
            async with running.session() as client, client.open("again.csv", "wb") as file:
                await file.write(b"x" * 10_000)
            fill(disk / "filler")
            for user in (USER, OTHER_USER):
                async with running.session(user) as client:
                    with pytest.raises(asyncssh.SFTPError, match="disk of the receiver is nearly full"):
                        await client.open("late.csv", "wb")


async def test_the_unfinished_files_of_an_account_are_bounded(tmp_path: Path) -> None:
    async with (
        uploading(tmp_path, limits=UploadLimits(1000, 100, 10_000, 1 << 30, 0)) as running,
        running.session() as client,
    ):
        for number in range(8):
            await client.open(f"{number}.csv", "wb")
        with pytest.raises(asyncssh.SFTPError, match="not finished"):
            await client.open("9.csv", "wb")


@pytest.mark.parametrize("user", [USER, OTHER_USER, "nobody", "n" * 1000])
async def test_a_wrong_password_is_refused(tmp_path: Path, user: str) -> None:
    async with uploading(tmp_path) as running:
        with pytest.raises(asyncssh.PermissionDenied):
            await running.connect(user, password=f"{PASSWORD}!")


async def test_a_key_opens_only_the_account_that_has_it(tmp_path: Path) -> None:
    async with uploading(tmp_path) as running:
        login = {"password": None, "client_keys": [running.client_key]}
        async with await running.connect(USER, **login):
            pass
        for user in (OTHER_USER, "nobody"):
            with pytest.raises(asyncssh.PermissionDenied):
                await running.connect(user, **login)
        with pytest.raises(asyncssh.PermissionDenied):
            await running.connect(
                USER, password=None, client_keys=[asyncssh.generate_private_key("ecdsa-sha2-nistp256")]
            )
