"""`dealer-agent inventory import` as its user sees it (docs/protocol.md#feed-price)."""

import json
import os
import pty
import re
import subprocess
from pathlib import Path

import pytest
from tests.acceptance.dealers import generation, stocked_dealer, write_dealer, write_feed
from tests.acceptance.running import COMMAND, command_here, environment, succeed_here

HEADER = "vin,stock,dealer_id,condition,year,make,model,price,mileage,cost,colour_of_the_key"


def counts(said: str) -> dict[str, int]:
    """The table at the end."""
    found = re.findall(r"^ *([A-Z][a-z ]+?) *[│|] *(\d+) *$", said, re.MULTILINE)
    return {name: int(count) for name, count in found}


def rows(*lines: str) -> str:
    return "\n".join([HEADER, *lines]) + "\n"


HONDA = "1HGCY2F57RA000001,H1,NORTH,used,2024,Honda,Accord,28040,14210,1,blue"
FORD = "1FTFW1E50PFA00002,F1,SOUTH,new,2026,Ford,F-150,51200,,1,red"
TESLA = "5YJ3E1EA8PF000003,T1,NOWHERE,cpo,2023,Tesla,Model 3,30000,20100,1,red"
NAMELESS = ",,NORTH,used,2020,Nobody,Knows,1000,5,1,red"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A dealer without stock, and room for files."""
    return write_dealer(tmp_path / "store")


def bring_in(store: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    file = store / "export.csv"
    file.write_text(text, encoding="utf-8")
    return command_here("inventory", "import", file, "--dir", store, *options)


def test_the_table_counts_what_became_of_every_unit(store: Path) -> None:
    first = bring_in(store, rows(HONDA, FORD, TESLA))
    assert first.returncode == 0, first.stderr
    assert counts(first.stdout)["Added"] == 3
    assert counts(first.stdout)["For sale now"] == 3

    second = bring_in(store, rows(HONDA.replace("28040", "27500"), FORD), "--allow-shrink")
    assert {name: counts(second.stdout)[name] for name in ("Added", "Changed", "Unchanged", "Sold")} == {
        "Added": 0,
        "Changed": 1,
        "Unchanged": 1,
        "Sold": 1,
    }

    third = bring_in(store, rows(HONDA.replace("28040", "27500"), FORD, TESLA))
    assert counts(third.stdout)["Back for sale"] == 1
    assert counts(third.stdout)["Unchanged"] == 2
    assert counts(third.stdout)["For sale before"] == 2


def test_the_history_tells_what_every_import_changed(store: Path) -> None:
    """Also of refused files, with the reasons. A dry run is not in it."""
    assert "Nothing was imported yet" in succeed_here("inventory", "history", "--dir", store)
    bring_in(store, rows(HONDA, FORD, TESLA))
    bring_in(store, rows(HONDA), "--dry-run")
    assert bring_in(store, rows(HONDA)).returncode == 1
    bring_in(store, rows(HONDA, FORD), "--allow-shrink")
    said = succeed_here("inventory", "history", "--dir", store)
    lines = [re.findall(r"\d+", line.partition("imported")[2]) for line in said.splitlines() if "imported" in line]
    assert [line[:5] for line in lines] == [["0", "0", "2", "1", "0"], ["3", "0", "0", "0", "0"]]
    assert succeed_here("inventory", "history", "--limit", "1", "--dir", store).count(" export.csv ") == 1
    assert "units_lost: 2 of 3 units that are for sale are not in the file." in said
    latest, refused, first = json.loads(succeed_here("inventory", "history", "--json", "--dir", store))
    assert [each["outcome"] for each in (latest, refused, first)] == ["imported", "refused", "imported"]
    assert refused["findings"] == [
        {
            "check": "units_lost",
            "action": "refuse",
            "sentence": "2 of 3 units that are for sale are not in the file.",
        }
    ]
    assert (refused["file"], refused["layout"], refused["added"]) == ("export.csv", "canonical", None)


def test_a_file_that_cannot_be_read_is_in_the_history(store: Path) -> None:
    bring_in(store, rows(HONDA))
    for text in ("", "<html><body>Login required</body></html>"):
        assert bring_in(store, text, "--dry-run").returncode == 1
        assert bring_in(store, text).returncode == 1
    page, empty, first = json.loads(succeed_here("inventory", "history", "--json", "--dir", store))
    assert first["outcome"] == "imported"
    assert (page["outcome"], page["layout"], page["findings"][0]["check"]) == ("refused", None, "unreadable")
    assert "The file is a web page" in page["findings"][0]["sentence"]
    assert "The file is empty" in empty["findings"][0]["sentence"]


def test_a_refusal_names_the_command_that_imports_the_file(store: Path) -> None:
    bring_in(store, rows(HONDA, FORD, TESLA))
    without_prices = rows(HONDA, FORD, TESLA).replace("price", "preis")
    refused = bring_in(store, without_prices)
    assert refused.returncode == 1
    assert "prices_lost: 3 of 3 units would lose their price." in refused.stderr
    assert "columns_missing: selling_price: the last import had it in price." in refused.stderr
    assert "Columns that are not understood: preis, colour_of_the_key." in refused.stderr
    named = refused.stderr.strip().splitlines()[-1].split()
    assert named[:3] == ["dealer-agent", "inventory", "import"]
    assert named[-4:] == ["--accept", "prices_lost", "--accept", "columns_missing"]
    accepted = command_here(*named[1:])
    assert accepted.returncode == 0, accepted.stderr
    assert "prices_lost: 3 of 3 units would lose their price." in accepted.stdout.partition("Warnings")[2]
    unknown = bring_in(store, without_prices, "--accept", "price_lost")
    assert unknown.returncode == 2
    assert "did you mean prices_lost" in unknown.stderr


def test_the_thresholds_and_actions_of_checks_are_settings(store: Path) -> None:
    bring_in(store, rows(HONDA, FORD, TESLA))
    without_prices = rows(HONDA, FORD, TESLA).replace("price", "preis")
    toml = store / "dealer.toml"
    before = toml.read_text("utf-8")
    toml.write_text(
        f'{before}\n[checks]\nprices_lost = 1.0\nactions = {{columns_missing = "warn"}}\n', encoding="utf-8"
    )
    said = bring_in(store, without_prices)
    assert said.returncode == 0, said.stderr
    assert "columns_missing: " in said.stdout
    assert "prices_lost" not in said.stdout
    toml.write_text(f'{before}\n[checks]\nactions = {{columns_mising = "off"}}\n', encoding="utf-8")
    wrong = bring_in(store, without_prices)
    assert wrong.returncode == 1
    assert "did you mean columns_missing" in wrong.stderr


def test_a_column_that_is_not_understood_is_one_line(store: Path) -> None:
    units = rows(*(f",S{n},NORTH,used,MMXX,Ford,Focus,2000{n},{n}000,1,red" for n in range(45)))
    done = bring_in(store, units)
    assert done.returncode == 1
    assert "not_understood: year: 45 of 45 values are not understood, such as 'MMXX' on line 2." in done.stderr
    assert done.stdout.count("MMXX") == 1


def test_refused_rows_are_named_with_their_line_and_the_reason(store: Path) -> None:
    done = bring_in(store, rows(HONDA, NAMELESS, FORD))
    assert done.returncode == 0
    assert counts(done.stdout)["Refused rows"] == 1
    assert counts(done.stdout)["Added"] == 2
    refused = done.stdout.partition("Refused rows")[2].partition("Imported")[0]
    (line,) = [line for line in refused.splitlines() if re.match(r"\s*3 ", line)]
    assert re.search(r"[A-Za-z]{4,}", line), "no reason"


def test_rows_of_one_vin_are_named_with_their_lines(store: Path) -> None:
    said = bring_in(store, rows(HONDA, FORD, HONDA)).stdout
    assert counts(said)["Repeated rows"] == 1
    assert re.search(r"4 .*1HGCY2F57RA000001.*also on line 2; line 4 counts", said)


def test_columns_that_say_nothing_to_us_and_columns_that_are_never_read_are_named(store: Path) -> None:
    said = bring_in(store, rows(HONDA)).stdout
    assert re.search(r"never read.*cost", said)
    assert "Layout canonical" in said


@pytest.mark.requirement("import-names-assumption")
@pytest.mark.requirement("rooftop-unmatched")
def test_units_without_a_rooftop_and_the_meaning_of_the_price_are_told(store: Path) -> None:
    said = bring_in(store, rows(HONDA, TESLA)).stdout
    assert re.search(r"1 unit names no rooftop .*Acceptance Motors North", said)
    assert 'feed_price = "advertised"' in said


def test_rooftops_whose_fees_are_not_given_show_no_price_and_are_named(store: Path) -> None:
    """A price before fees that nobody gave is never guessed (docs/protocol.md#feed-price)."""
    toml = store / "dealer.toml"
    toml.write_text(toml.read_text("utf-8").replace('"advertised"', '"before_fees"'), encoding="utf-8")
    said = bring_in(store, rows(HONDA)).stdout
    assert re.search(r"No vehicle of .*Acceptance Motors North.* shows a price", said)


def test_a_dry_run_tells_the_same_and_changes_nothing(store: Path) -> None:
    bring_in(store, rows(HONDA, FORD))
    before = (store / "dealer-agent.db").read_bytes()
    done = bring_in(store, rows(HONDA, TESLA.replace("NOWHERE", "NORTH")), "--dry-run", "--allow-shrink")
    assert done.returncode == 0
    assert counts(done.stdout)["Added"] == 1
    assert counts(done.stdout)["Sold"] == 1
    assert "Nothing was changed" in done.stdout
    assert (store / "dealer-agent.db").read_bytes() == before
    assert counts(bring_in(store, rows(HONDA, FORD)).stdout)["Unchanged"] == 2


@pytest.mark.requirement("feeds-of-rooftops")
def test_the_feed_of_one_rooftop_leaves_the_units_of_the_others(store: Path) -> None:
    bring_in(store, rows(HONDA, FORD))
    south = store / "south.csv"
    south.write_text(rows(FORD.replace("51200", "50000"), HONDA, TESLA), encoding="utf-8")
    options = ("--rooftop", "acceptance motors south", "--dir", store, "--allow-shrink")
    said = succeed_here("inventory", "import", south, *options)
    assert {name: counts(said)[name] for name in ("Added", "Changed", "Sold", "At other rooftops", "For sale now")} == {
        "Added": 1,
        "Changed": 1,
        "Sold": 0,
        "At other rooftops": 1,
        "For sale now": 2,
    }
    assert re.search(r"3 .*1HGCY2F57RA000001.*The unit is at Acceptance Motors North", said)
    assert re.search(r"1 unit names no rooftop .*Acceptance Motors South", said)
    south.write_text(rows(), encoding="utf-8")
    assert counts(succeed_here("inventory", "import", south, *options))["Sold"] == 2
    history = succeed_here("inventory", "history", "--dir", store)
    assert re.search(r"export.csv.* all", history)
    assert "Acceptance Motors South" in re.sub(r"\s+", " ", history)


def test_an_unknown_rooftop_is_refused_with_the_names_of_the_rooftops(store: Path) -> None:
    done = bring_in(store, rows(HONDA), "--rooftop", "East")
    assert done.returncode == 1
    assert "'East' is not a rooftop of dealer.toml" in done.stderr
    assert "Acceptance Motors North" in done.stderr


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_a_file_that_would_remove_much_of_the_stock_is_refused_until_that_is_allowed(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    store = stocked_dealer(tmp_path / "store", units=generation(0, 10))
    small = write_feed(store / "small.json", generation(0, 5))
    refused = command_here("inventory", "import", small, "--dir", store, *options)
    assert refused.returncode == 1
    assert "5 of 10 units that are for sale are not in the file" in refused.stderr
    assert "--allow-shrink" in refused.stderr
    assert "Nothing was changed" in refused.stderr
    allowed = command_here("inventory", "import", small, "--dir", store, "--allow-shrink", *options)
    assert allowed.returncode == 0
    assert counts(allowed.stdout)["Sold"] == 5


BAD_FILES = {
    "empty": b"",
    "blank": b"\n\n  \n",
    "not a table": b"Dear Sir or Madam,\n\nplease find no inventory here.\n",
    "binary": bytes(range(256)) * 40,
    "broken JSON": b'[{"vin": "1HGCY2F57RA000001"',
    "JSON of something else": b'"hello"',
    "a lone header": HEADER.encode(),
    "zeros": bytes(5000),
    "a web page": b"<html><body>Login required</body></html>",
    "a quotation mark that is not closed": f'{HEADER}\n"{HONDA}\n{FORD}\n'.encode(),
    "an image": b"\x89PNG\r\n\x1a\n" + bytes(100),
    "gzip": b"\x1f\x8b" + bytes(100),
    "one long line": HEADER.encode() + b"\n" + b"," * 1_000_001,
}


@pytest.mark.parametrize("content", BAD_FILES.values(), ids=BAD_FILES)
def test_a_file_that_is_no_inventory_is_refused_in_plain_words_and_changes_nothing(
    tmp_path: Path, content: bytes
) -> None:
    store = stocked_dealer(tmp_path / "store")
    file = store / "export.csv"
    file.write_bytes(content)
    done = command_here("inventory", "import", file, "--dir", store)
    assert done.returncode == 1, done.stdout
    assert done.stderr.startswith("Error: ")
    assert "of 3 units" in done.stderr or len(done.stderr) < 400
    assert "No leads" in command_here("leads", "list", "--dir", store).stdout


def test_texts_of_a_file_are_printed_without_control_sequences(store: Path) -> None:
    """Square brackets are no markup, names between colons no emoji, and escape sequences do not reach the terminal."""
    done = bring_in(store, rows(NAMELESS, "NOTAVIN[/red],:car:\x1b[2J,NORTH,used,20x0,[bold]Honda,Accord,1,5,1,red"))
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    assert "\N{AUTOMOBILE}" not in done.stdout


def test_a_terminal_sees_a_progress_bar_and_a_pipe_does_not(tmp_path: Path) -> None:
    store = write_dealer(tmp_path / "store")
    file = write_feed(store / "stock.json", generation(0, 1200))
    piped = command_here("inventory", "import", file, "--dir", store)
    assert "Reading" not in piped.stderr

    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [COMMAND, "inventory", "import", file, "--dir", store],
        env=environment({"TERM": "xterm"}),
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    ) as importing:
        os.close(theirs)
        seen = b""
        # Reading a terminal whose other end is shut is an error on Linux.
        while part := _read(ours):
            seen += part
        os.close(ours)
    assert importing.returncode == 0
    assert b"Reading" in seen
    assert b"1200/1200" in seen


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""
