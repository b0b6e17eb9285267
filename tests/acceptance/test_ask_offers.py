"""`dealer-agent ask quote`, `hold` and `release`, and the proof of a quote, against a real service."""

import json
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.acceptance.conftest import Guarded
from tests.acceptance.dealers import FORD_VIN, HONDA_VIN
from tests.acceptance.running import Running, command_here

pytestmark = pytest.mark.outside_protocol("the commands ask and offers")


def ask(dealer: Guarded, *words: str | Path, known: bool = True) -> subprocess.CompletedProcess[str]:
    return command_here("ask", dealer.url, *words, cwd=None, **({"DEALER_AGENT_TOKEN": dealer.token} if known else {}))


def asked(dealer: Guarded, *words: str | Path) -> Any:
    """The JSON document of a command that succeeds."""
    done = ask(dealer, *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_quote_is_a_table_with_what_is_firm_and_what_is_missing(offering: Guarded) -> None:
    done = ask(offering, "quote", HONDA_VIN, "--zip", "22301", known=False)
    assert done.returncode == 0, done.stderr
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert any("State tax" in line and "government" in line and "estimated" in line for line in lines)
    assert any("dealer" in line and "firm" in line for line in lines)
    for words in ("2024 Honda Accord Hybrid", "Total", "28,040.00", "Not in the total: title, registration.", "UTC"):
        assert words in done.stdout


def test_a_quote_in_a_file_is_verified_with_keys_of_the_dealer_and_with_stored_ones(
    offering: Guarded, tmp_path: Path
) -> None:
    file, keys = tmp_path / "quote.json", tmp_path / "keys.json"
    quote = asked(offering, "quote", HONDA_VIN, "--out", file)
    assert json.loads(file.read_bytes()) == quote
    keys.write_bytes(httpx.get(f"{offering.url}/.well-known/offer-keys.json").content)
    for source in (("--keys", keys), ("--from", offering.url)):
        done = command_here("offers", "verify", file, *source)
        assert (done.returncode, done.stderr) == (0, "")
        assert f"The quote {quote['quote_id']} was signed" in done.stdout
    file.write_text(json.dumps(quote | {"price": 1}))
    for source in (("--keys", keys), ("--from", offering.url)):
        done = command_here("offers", "verify", file, *source)
        assert done.returncode == 1
        assert "not the one that was signed" in done.stderr


@pytest.mark.parametrize("sources", [(), ("--keys", "keys.json", "--from", "http://127.0.0.1:1")])
def test_the_keys_come_from_exactly_one_place(sources: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "quote.json").write_text("{}")
    done = command_here("offers", "verify", tmp_path / "quote.json", *sources)
    assert done.returncode == 2
    assert "Give either --keys or --from." in done.stderr


def test_a_quote_that_another_dealer_signed_is_not_of_this_one(
    offering: Guarded, service: Running, tmp_path: Path
) -> None:
    file = tmp_path / "quote.json"
    asked(offering, "quote", HONDA_VIN, "--out", file)
    done = command_here("offers", "verify", file, "--from", service.url)
    assert done.returncode == 1
    assert "in a folder above it" in done.stderr


def test_a_file_that_cannot_be_written_is_an_error(offering: Guarded, tmp_path: Path) -> None:
    done = ask(offering, "quote", HONDA_VIN, "--out", tmp_path / "none" / "quote.json")
    assert done.returncode == 1
    assert "No such file or directory" in done.stderr


def test_a_vehicle_is_held_and_released(offering: Guarded) -> None:
    quote = asked(offering, "quote", FORD_VIN)
    held = ask(offering, "hold", quote["quote_id"], "--idempotency-key", "one")
    assert held.returncode == 0, held.stderr
    assert "active, until" in held.stdout
    again = asked(offering, "hold", quote["quote_id"], "--idempotency-key", "one")
    assert again["hold_id"] in held.stdout
    conflict = ask(offering, "hold", quote["quote_id"])
    assert conflict.returncode == 3
    assert "HOLD_CONFLICT" in conflict.stderr
    assert f"Your own hold of it: {again['hold_id']}" in conflict.stderr
    assert "Held until: 20" in conflict.stderr
    released = ask(offering, "release", again["hold_id"])
    assert "released." in released.stdout


@pytest.mark.parametrize(
    ("words", "known", "code", "said"),
    [
        (("quote", "1HGCM82633A004352"), True, 4, "VEHICLE_NOT_FOUND"),
        (("hold", "01KE7AQ2N0V5X3J8R6T4Y9W1ZX"), True, 3, "Ask for a quote."),
        (("hold", "01KE7AQ2N0V5X3J8R6T4Y9W1ZX"), False, 3, "give --sign and --as, or --token"),
        (("release", "01KE7AQ2N0V5X3J8R6T4Y9W1ZX"), True, 3, "HOLD_NOT_FOUND"),
    ],
)
def test_a_refusal_says_what_to_do(
    offering: Guarded, words: tuple[str, ...], known: bool, code: int, said: str
) -> None:
    done = ask(offering, *words, known=known)
    assert done.returncode == code
    assert said in done.stderr


def test_a_dealer_without_offers_says_so(service: Running) -> None:
    done = command_here("ask", service.url, "quote", HONDA_VIN, cwd=None)
    assert done.returncode == 3
    assert "UNSUPPORTED_SKILL" in done.stderr
