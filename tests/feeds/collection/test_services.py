"""Feeds in a running service, and in processes that work at the same time."""

import json
from pathlib import Path

import pytest
from tests.acceptance.asking import asked
from tests.acceptance.dealers import write_dealer
from tests.acceptance.running import PATIENCE_SECONDS, command_here, eventually, start, started, succeed_here
from tests.feeds.collection.feed_server import feed_server
from tests.feeds.collection.feeding import FOLDER, feed_bytes, feed_dealer, import_here, states
from tests.feeds.collection.uploading import PASSWORD_HASH
from tests.soak import sqlite_first

from dealer_agent.feeds.collection import collection

pytestmark = pytest.mark.outside_protocol("automatic feeds")


@sqlite_first()
def test_a_service_with_two_workers_imports_each_file_once(tmp_path: Path, database_url: str) -> None:
    with feed_server(feed_bytes(3)) as server:
        toml = server.toml() + FOLDER.replace("main", "second").replace("1", "2")
        with feed_dealer(tmp_path / "store", toml, database_url) as dealer:
            running = start(dealer.folder, workers=2, **dealer.env)
            try:
                eventually("the first import", lambda: asked(running.url, "inventory.search")["total"] == 3)
                for count in (4, 5):
                    dealer.upload(feed_bytes(count), feed="second")
                eventually("the last import", lambda: asked(running.url, "inventory.search")["total"] == 5)
                eventually("no file waits", lambda: "waiting" not in states(dealer.files()))
                assert [record.feed for record in dealer.imports()] == ["second", "second", "main"]
                assert len(server.requests) == 1
                listed = json.loads(
                    succeed_here("feeds", "list", "--json", "--dir", dealer.folder, cwd=None, **dealer.env)
                )
                assert [(feed["feed"], feed["state"], feed["waiting"]) for feed in listed] == [
                    # The units have no photos, and the first import says so.
                    ("main", "warnings", 0),
                    ("second", "ok", 0),
                ]
            finally:
                running.kill_all()


@sqlite_first()
def test_two_processes_at_once_import_a_file_once(tmp_path: Path, database_url: str) -> None:
    with feed_dealer(tmp_path / "store", database_url=database_url) as dealer:
        dealer.upload(feed_bytes(400))
        words = ["feeds", "run", "main", "--dir", str(dealer.folder)]
        said = [tmp_path / "said by one", tmp_path / "said by the other"]
        running = [started(words, file, file, **dealer.env) for file in said]
        for each in running:
            each.wait(PATIENCE_SECONDS)
        texts = [file.read_text("utf-8") for file in said]
        assert "Traceback" not in "".join(texts)
        assert sum("imported" in text for text in texts) == 1
        assert states(dealer.files()) == ["imported"]
        assert len(dealer.imports()) == 1


def test_the_commands_show_feeds_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The tests above import in processes.
    monkeypatch.setattr(collection, "import_in_process", import_here)
    folder = tmp_path / "store"
    with feed_dealer(folder) as dealer:
        dealer.upload(feed_bytes(3))
        assert "upload.json: imported" in succeed_here("feeds", "run", "main", "--dir", folder)
        assert "Nothing new." in succeed_here("feeds", "run", "main", "--dir", folder)
        (listed,) = json.loads(succeed_here("feeds", "list", "--dir", folder, "--json"))
        # The units have no photos: the list does not say ok over a warning.
        assert [listed[name] for name in ("feed", "source", "state", "problem")] == ["main", "folder", "warnings", None]
        (shown,) = json.loads(succeed_here("feeds", "show", "main", "--dir", folder, "--json"))
        assert shown["imported"] == listed["imported"]
        assert "settle_seconds" in succeed_here("feeds", "show", "main", "--dir", folder)
        (file,) = json.loads(succeed_here("feeds", "files", "main", "--dir", folder, "--json"))
        assert (file["name"], file["state"], file["revision"]) == ("upload.json", "imported", 1)
        (entry,) = json.loads(succeed_here("inventory", "history", "--dir", folder, "--json"))
        assert entry["feed"] == "main"

        dealer.upload(feed_bytes(1))
        done = command_here("feeds", "run", "main", "--dir", folder)
        assert (done.returncode, "refused" in done.stdout) == (1, True)
        (listed,) = json.loads(succeed_here("feeds", "list", "--dir", folder, "--json"))
        assert listed["state"] == "problem"
        unknown = command_here("feeds", "run", "other", "--dir", folder)
        assert (unknown.returncode, "The feeds are: main." in unknown.stderr) == (2, True)


def test_an_import_by_hand_reads_a_file_as_its_feed_does(tmp_path: Path) -> None:
    toml = '\n[[feeds]]\nname = "main"\nrooftops = ["Acceptance Motors South"]\n[feeds.upload]\n'
    columns = '[feeds.columns]\n"Fahrgestell" = "vin"\n"Baujahr" = "year"\n'
    toml = toml.replace("[feeds.upload]", "[feeds.folder]\npath = 'drop'") + columns
    folder = write_dealer(tmp_path / "store", toml)
    file = folder / "stock.csv"
    file.write_text("Fahrgestell,Baujahr,Make,Model\n1HGCY2F57RA000001,2024,Honda,Accord\n")
    succeed_here("inventory", "import", file, "--feed", "main", "--dir", folder)
    (entry,) = json.loads(succeed_here("inventory", "history", "--dir", folder, "--json"))
    assert (entry["feed"], entry["added"], entry["rooftops"]) == ("main", 1, "Acceptance Motors South")


def test_the_service_and_the_list_say_where_the_first_stock_comes_from(tmp_path: Path) -> None:
    toml = f'\n[[feeds]]\nname = "vendor"\n[feeds.upload]\npassword_hash = "{PASSWORD_HASH}"\n'
    folder = write_dealer(tmp_path / "store", toml)
    (listed,) = json.loads(succeed_here("feeds", "list", "--dir", folder, "--json"))
    assert (listed["state"], listed["next"]) == ("new", None)
    assert PASSWORD_HASH not in succeed_here("feeds", "show", "vendor", "--dir", folder)
    running = start(folder)
    running.kill_all()
    assert "The feed brings the stock: vendor." in running.stderr()
