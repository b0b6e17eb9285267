"""The pages of docs/reference that are written from the code say what the code says."""

import re
from pathlib import Path

import pytest
from scripts.reference import FOLDER, pages

PAGES = pages()
ARCHITECTURE = FOLDER.parents[1] / "ARCHITECTURE.md"
RENEW = "run `make docs`, and commit what it writes"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_generated_page_is_that_of_the_code(path: Path) -> None:
    assert path.read_text("utf-8") == PAGES[path], f"{path} is out of date: {RENEW}"


def test_every_setting_has_a_meaning() -> None:
    settings = (FOLDER / "settings.md").read_text("utf-8")
    missing = [line for line in settings.splitlines() if "UNDOCUMENTED" in line]
    assert missing == [], "write the meaning of these settings into docs/reference/settings.md"


def test_the_map_of_the_source_has_every_package() -> None:
    drawn = re.findall(r">(\w+)</text>", PAGES[FOLDER.parent / "explanation" / "layers.svg"])
    mapped = re.findall(r"\b(\w+)(?:/|\.py)", ARCHITECTURE.read_text("utf-8").partition("\n## ")[0])
    assert set(drawn) <= set(mapped)
