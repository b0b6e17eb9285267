"""The format of a snapshot: it is read without decoding, from memory or from a mapped file."""

from io import BytesIO
from mmap import ACCESS_READ, mmap
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.inventory.catalogue.conftest import made

from dealer_agent.inventory.catalogue import Catalogue, Listing, RemovedUnit
from dealer_agent.inventory.catalogue.flat_arrays import FlatArrays, FlatWriter
from dealer_agent.inventory.catalogue.flat_tables import Documents, DocumentWriter, Identifiers, SortedWords
from dealer_agent.inventory.catalogue.snapshot_builder import write_snapshot
from dealer_agent.protocol.requests import Filters, Sort

pytestmark = pytest.mark.outside_protocol("the file of a snapshot")

LOT = [Listing.of(made(f"v{n:03}", vin=f"VIN{n:014}", make="Ford", price=n, features=("Tow",))) for n in range(90)]
GONE = [RemovedUnit("w1", vin="SOLD1", stock="S1"), RemovedUnit("w2", stock="s1"), RemovedUnit("w3", vin="sold1")]


def written(file: BytesIO) -> FlatArrays:
    return FlatArrays(file.getvalue())


def test_a_mapped_file_answers_as_the_snapshot_in_memory_does(tmp_path: Path) -> None:
    with (tmp_path / "lot").open("wb") as file:
        writer = FlatWriter(file)
        write_snapshot(writer, LOT, GONE)
        writer.finish()
    here = Catalogue.build(LOT, GONE)
    with (tmp_path / "lot").open("rb") as file:
        mapped = Catalogue(FlatArrays(mmap(file.fileno(), 0, access=ACCESS_READ)), copies_listings=False)
    assert len(mapped) == len(here) == 90
    for filters in (Filters(), Filters(query="ford tow"), Filters(price_min=80), Filters(vin="vin00000000000007")):
        for sort in (Sort("price", "asc"), Sort("stock", "desc")):
            assert mapped.search(filters, 3, 20, sort) == here.search(filters, 3, 20, sort)
        assert mapped.facets(filters) == here.facets(filters)
    for vin in ("vin00000000000007", "SOLD1", "nobody"):
        first, second = mapped.find(vin), here.find(vin)
        assert (first.json if isinstance(first, Listing) else first) == (
            second.json if isinstance(second, Listing) else second
        )


def test_the_last_of_two_removed_units_with_one_identifier_is_found() -> None:
    catalogue = Catalogue.build([], GONE)
    assert catalogue.find(vin="Sold1") == GONE[2]
    assert catalogue.find(stock="S1") == GONE[1]


@pytest.mark.parametrize("spoiled", [b"", b"x" * 200, "cut", "more"])
def test_an_incomplete_snapshot_is_refused(spoiled: bytes | str) -> None:
    file = BytesIO()
    writer = FlatWriter(file)
    writer.array("numbers", np.arange(5))
    writer.finish()
    whole = file.getvalue()
    assert written(file).array("numbers").tolist() == [0, 1, 2, 3, 4]
    data = {"cut": whole[:-1], "more": whole + b"\0"}.get(spoiled, spoiled) if isinstance(spoiled, str) else spoiled
    assert isinstance(data, bytes)
    with pytest.raises(ValueError, match="not a complete snapshot"):
        FlatArrays(data)


def test_documents_are_numbered_by_an_order_and_can_be_empty() -> None:
    for at_hand in (0, 100):
        file = BytesIO()
        writer = FlatWriter(file)
        writer.text("before", b"xyz")
        taken = DocumentWriter(writer, "some")
        for document in (b"a", b"", b"ccc"):
            taken.add(document)
        taken.finish(np.array([2, 0, 1]))
        writer.finish()
        found = Documents(written(file), "some", most_copied=at_hand)
        assert (len(found), found.having([0, 1, 2]), found.having([2, 0])) == (3, [b"ccc", b"a", b""], [b"", b"ccc"])


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), min_size=1), unique=True))
def test_a_word_is_found_at_its_place_among_sorted_words(given_words: list[str]) -> None:
    words = sorted(given_words)
    file = BytesIO()
    writer = FlatWriter(file)
    SortedWords.write(writer, "words", words)
    writer.finish()
    found = SortedWords(written(file), "words")
    for place, word in enumerate(words):
        assert found.position(word) == (place, True)
        assert found.position(word + "\U0010ffff")[0] == sum(other < word + "\U0010ffff" for other in words)
    assert found.position("") == (0, False)
    assert found.position("\ud800")[1] is False


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=3)))
def test_an_identifier_finds_all_its_rows_in_order(identifiers: list[str]) -> None:
    file = BytesIO()
    writer = FlatWriter(file)
    Identifiers.write(writer, "ids", identifiers)
    writer.finish()
    found = Identifiers(written(file), "ids")
    for text in {*identifiers, "nobody", "\ud800"} - {""}:
        rows = [row for row, identifier in enumerate(identifiers) if identifier == text]
        assert found.all(text) == rows
