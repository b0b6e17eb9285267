"""Where the keys to customer data come from, who may read them, and that no message quotes one."""

import multiprocessing
import os
from base64 import urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.patching import replace_in

from dealer_agent.config import SettingsError, keys, load_settings
from dealer_agent.config.keys import KeyFile, changing, create_key_file, load_cipher, replace_key_file
from dealer_agent.encryption import Cipher, InvalidKeys, Keyring, new_key, render

ONE, TWO = ("k-one", bytes(range(32))), ("k-two", bytes(range(100, 132)))
PERMANENT = bytes(range(64, 96))
ONE_TEXT = urlsafe_b64encode(ONE[1]).decode().rstrip("=")


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    """A key file with one key, as `init` makes it."""
    path = tmp_path / "dealer-agent.keys"
    path.write_text(render(Keyring((ONE,), PERMANENT)))
    path.chmod(0o600)
    return path


def refused(folder: Path, env: dict[str, str] | None = None) -> str:
    with pytest.raises(SettingsError) as problem:
        load_cipher(folder, env or {})
    assert ONE_TEXT[:8] not in str(problem.value)
    return str(problem.value)


def loaded(folder: Path, env: dict[str, str] | None = None) -> Cipher:
    cipher = load_cipher(folder, env or {})
    assert cipher is not None
    return cipher


def test_keys_come_from_the_file_beside_dealer_toml(key_file: Path) -> None:
    assert loaded(key_file.parent).keyring == Keyring((ONE,), PERMANENT)


def test_a_file_without_a_permanent_secret_gets_one_once(key_file: Path) -> None:
    key_file.write_text(render(Keyring((TWO, ONE))))
    first = loaded(key_file.parent).keyring
    assert first.keys == (TWO, ONE)
    assert first.permanent is not None
    assert loaded(key_file.parent).keyring == first
    assert key_file.read_text().count("lasting:") == 1


def test_a_variable_without_a_permanent_secret_is_refused_with_what_to_add(tmp_path: Path) -> None:
    assert "keys create --print" in refused(tmp_path, {"DEALER_AGENT_KEYS": render(Keyring((ONE,)))})


def test_without_a_file_they_come_from_the_environment(tmp_path: Path) -> None:
    env = {"DEALER_AGENT_KEYS": render(Keyring((TWO, ONE), PERMANENT)).replace("\n", ",")}
    assert loaded(tmp_path, env).keyring.ids == ("k-two", "k-one")


def test_the_environment_wins_and_the_file_is_not_even_read(key_file: Path) -> None:
    key_file.write_text("rubbish")
    key_file.chmod(0o644)
    assert loaded(key_file.parent, {"DEALER_AGENT_KEYS": render(Keyring((TWO,), PERMANENT))}).keyring.ids == ("k-two",)


@pytest.mark.parametrize("value", ["", "  \n"])
def test_a_variable_that_is_empty_is_not_set(key_file: Path, value: str) -> None:
    assert loaded(key_file.parent, {"DEALER_AGENT_KEYS": value}).keyring.ids == ("k-one",)


def test_without_any_key_there_is_no_cipher(tmp_path: Path) -> None:
    assert load_cipher(tmp_path, {}) is None


def test_the_settings_have_the_cipher_of_the_key_file_and_do_not_show_its_keys(key_file: Path) -> None:
    toml = 'id = "acme"\nname = "Acme"\nfeed_price = "advertised"\n[[rooftops]]\nname = "N"\ntimezone = "Asia/Tokyo"\n'
    (key_file.parent / "dealer.toml").write_text(toml)
    cipher = load_settings(key_file.parent, {}).cipher
    assert cipher is not None
    assert cipher.keyring.ids == ("k-one",)
    assert ONE_TEXT not in repr(load_settings(key_file.parent, {}))
    key_file.unlink()
    assert load_settings(key_file.parent, {}).cipher is None


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o666, 0o610, 0o620, 0o777], ids=oct)
def test_a_file_that_others_may_use_is_refused_with_what_to_type(key_file: Path, mode: int) -> None:
    key_file.chmod(mode)
    told = refused(key_file.parent)
    assert told.startswith("dealer-agent.keys: ")
    assert f"chmod 600 {key_file}" in told


@pytest.mark.parametrize("mode", [0o600, 0o400], ids=oct)
def test_a_file_for_its_owner_only_is_taken(key_file: Path, mode: int) -> None:
    key_file.chmod(mode)
    assert loaded(key_file.parent).keyring.ids == ("k-one",)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_key_file_without_permission_to_read_is_refused_with_this_reason(key_file: Path) -> None:
    key_file.chmod(0)
    assert "cannot be read: Permission denied" in refused(key_file.parent)


MALFORMED: dict[str, tuple[bytes, str]] = {
    "an empty file": (b"", "dealer-agent.keys: has no key"),
    "a key that was cut": (f"# keys\n\nk-one:{ONE_TEXT[:-3]}\n".encode(), "dealer-agent.keys, line 3: "),
    "a key alone": (f"{ONE_TEXT}\n".encode(), "dealer-agent.keys, line 1: "),
    "an id twice": (f"a:{ONE_TEXT}\na:{'B' * 43}\n".encode(), "dealer-agent.keys, line 2: "),
    "no text": (f"k-one:{ONE_TEXT}".encode("utf-16"), "dealer-agent.keys: is not text"),
}


@pytest.mark.parametrize(("content", "expected"), MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_file_is_refused_with_the_line(key_file: Path, content: bytes, expected: str) -> None:
    key_file.write_bytes(content)
    assert refused(key_file.parent).startswith(expected)


def test_a_malformed_variable_is_refused_by_its_name(tmp_path: Path) -> None:
    assert refused(tmp_path, {"DEALER_AGENT_KEYS": ONE_TEXT}).startswith("DEALER_AGENT_KEYS: ")


def test_a_file_of_a_windows_editor_is_read(key_file: Path) -> None:
    key_file.write_bytes(b"\xef\xbb\xbf" + f"k-one:{ONE_TEXT}\r\n".encode())
    assert loaded(key_file.parent).keyring.keys == (ONE,)


OBSTACLES: dict[str, Callable[[Path], object]] = {
    "a link that leads nowhere": lambda path: path.symlink_to("gone"),
    "a folder": lambda path: path.mkdir(0o700),
}


@pytest.mark.parametrize("obstacle", OBSTACLES.values(), ids=OBSTACLES.keys())
def test_a_folder_or_a_broken_link_named_like_the_key_file_is_an_error_and_no_absent_key(
    tmp_path: Path, obstacle: Callable[[Path], object]
) -> None:
    obstacle(tmp_path / "dealer-agent.keys")
    assert refused(tmp_path).startswith("dealer-agent.keys: ")


@pytest.mark.parametrize("umask", [0o022, 0o000, 0o077], ids=oct)
def test_a_new_file_is_for_its_owner_only_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        path = create_key_file(tmp_path)
    finally:
        os.umask(before)
    assert path.name == "dealer-agent.keys"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    assert len(loaded(tmp_path).keyring.ids) == 1


def test_each_new_file_has_its_own_key(tmp_path: Path) -> None:
    made = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        made.append(create_key_file(tmp_path / name).read_text())
    assert made[0] != made[1]


@pytest.mark.parametrize("content", ["", f"k-one:{ONE_TEXT}"], ids=["empty", "with a key"])
def test_a_file_that_is_there_is_never_written_over(tmp_path: Path, content: str) -> None:
    path = tmp_path / "dealer-agent.keys"
    path.write_text(content)
    with pytest.raises(FileExistsError):
        create_key_file(tmp_path)
    assert path.read_text() == content
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_a_replaced_file_keeps_its_mode_and_its_link(tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    real = create_key_file(tmp_path / "secrets")
    link = tmp_path / "dealer-agent.keys"
    link.symlink_to(real)
    replace_key_file(link, Keyring((TWO, ONE), PERMANENT))
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o600
    assert loaded(tmp_path).keyring.ids == ("k-two", "k-one")
    assert [entry.name for entry in (tmp_path / "secrets").iterdir()] == [real.name]


def test_what_a_killed_rotation_left_behind_goes_with_the_next_one(key_file: Path) -> None:
    (key_file.parent / ".dealer-agent.keys.new").write_text("k-lost:")
    replace_key_file(key_file, Keyring((TWO,)))
    assert [entry.name for entry in key_file.parent.iterdir()] == [key_file.name]


def _hold(folder: Path, held: "multiprocessing.synchronize.Event", done: "multiprocessing.synchronize.Event") -> None:
    with changing(folder / "dealer-agent.keys"):
        held.set()
        done.wait(120)


def test_two_processes_never_change_the_keys_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    held, done = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(tmp_path, held, done))
    other.start()
    try:
        assert held.wait(120)
        with pytest.raises(BlockingIOError), changing(tmp_path / "dealer-agent.keys"):
            pass
    finally:
        done.set()
        other.join(120)
    with changing(tmp_path / "dealer-agent.keys"):
        pass


def test_a_file_is_parsed_again_only_when_it_changed(key_file: Path) -> None:
    file = KeyFile(key_file)
    before = file.read()
    assert file.read() is before
    replace_key_file(key_file, Keyring((TWO, ONE)))
    assert file.read().ids == ("k-two", "k-one")


def test_a_running_cipher_takes_the_keys_of_a_changed_file(key_file: Path) -> None:
    cipher = loaded(key_file.parent)
    replace_key_file(key_file, Keyring((TWO, ONE), PERMANENT))
    assert cipher.decrypt(Cipher(Keyring((TWO,))).encrypt(b"Robin")) == b"Robin"
    assert cipher.keyring.active == "k-two"


BREAKING: dict[str, tuple[Callable[[Path], object], str]] = {
    "gone": (lambda path: path.unlink(), "backup"),
    "half written": (lambda path: path.write_text(f"k-one:{ONE_TEXT[:9]}"), "43 characters"),
    "open to others": (lambda path: path.chmod(0o644), "chmod 600"),
}


@pytest.mark.parametrize(("breaking", "expected"), BREAKING.values(), ids=BREAKING.keys())
def test_a_running_cipher_keeps_its_keys_when_the_file_breaks(
    key_file: Path, breaking: Callable[[Path], object], expected: str
) -> None:
    cipher = loaded(key_file.parent)
    sealed = cipher.encrypt(b"Robin")
    breaking(key_file)
    with pytest.raises(InvalidKeys, match=expected) as problem:
        cipher.refresh()
    assert ONE_TEXT[:8] not in str(problem.value)
    assert cipher.decrypt(sealed) == b"Robin"


def test_a_file_that_somebody_else_would_lose_is_left_as_it_is(key_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the system says to one who may write the folder and does not own the file."""

    def not_permitted(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    before = key_file.read_text()
    replace_in(monkeypatch, keys, "os", chown=not_permitted)
    with pytest.raises(PermissionError):
        replace_key_file(key_file, Keyring((new_key(),)))
    assert key_file.read_text() == before
    assert [entry.name for entry in key_file.parent.iterdir()] == [key_file.name]
