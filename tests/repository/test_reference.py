"""The pages that are written from the code say what the code says, and ARCHITECTURE.md counts its files."""

import re
from pathlib import Path

import pytest
from scripts.reference import FOLDER, pages

PAGES = pages()
ARCHITECTURE = FOLDER.parents[1] / "ARCHITECTURE.md"
RENEW = "run `make docs`, and commit what it writes"


@pytest.mark.parametrize(
    ("what", "word"),
    [
        ("a vehicle field", "battery_kwh"),
        ("a feed layout", "homenet"),
        ("an alert", "certificate_expiring"),
        ("a delivery channel", "FolderChannel"),
    ],
)
def test_the_number_of_files_to_touch_is_that_of_the_source(what: str, word: str) -> None:
    """The files of the source, without generated ones, that name an existing field, layout, alert or channel."""
    source = FOLDER.parents[1] / "src" / "dealer_agent"
    files = [path for path in source.rglob("*") if path.suffix in {".py", ".toml"} and path not in PAGES]
    naming = [path for path in files if re.search(rf"\b{word}\b", path.read_text("utf-8"))]
    row = re.search(rf"^\| {what} \| (\d+) \|", ARCHITECTURE.read_text("utf-8"), re.MULTILINE)
    assert row is not None
    assert int(row[1]) == len(naming), naming


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_generated_page_is_that_of_the_code(path: Path) -> None:
    assert path.read_text("utf-8") == PAGES[path], f"{path} is out of date: {RENEW}"


def test_every_setting_has_a_meaning() -> None:
    settings = (FOLDER / "settings.md").read_text("utf-8")
    missing = [line for line in settings.splitlines() if "UNDOCUMENTED" in line]
    assert missing == [], "write the meaning of these settings into docs/reference/settings.md"


def test_the_map_of_the_source_has_every_package() -> None:
    drawn = re.findall(r">([\w.]+)</text>", PAGES[FOLDER.parent / "explanation" / "layers.svg"])
    mapped = re.findall(r"\b(\w+)(?:/|\.py)", ARCHITECTURE.read_text("utf-8").partition("\n## ")[0])
    assert {name.rpartition(".")[2] for name in drawn} <= set(mapped)


def test_the_files_that_the_map_names_exist() -> None:
    named = set(re.findall(r"\b\w+\.py\b", ARCHITECTURE.read_text("utf-8")))
    existing = {path.name for folder in ("src", "tests") for path in (FOLDER.parents[1] / folder).rglob("*.py")}
    assert named - existing == set()


def test_the_glossary_has_at_most_40_words_in_order() -> None:
    words = re.findall(r"^\| \*\*(.+?)\*\* \|", (FOLDER / "glossary.md").read_text("utf-8"), re.MULTILINE)
    assert words == sorted(words, key=str.lower)
    assert len(words) <= 40
