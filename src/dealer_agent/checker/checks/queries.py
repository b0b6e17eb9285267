"""Free text in inventory.search. The specification leaves open how it is matched."""

from dealer_agent.checker.check import Skipped, check, expect
from dealer_agent.checker.differences import LONGEST_WORD, clearly_different, tokens
from dealer_agent.checker.searches import PAGE, Listing, expect_matching, filtered, identified, number_of
from dealer_agent.checker.target import Target


@check("query.longest")
async def longest(target: Target) -> None:
    """200 characters are allowed."""
    await filtered(target, {"query": ("honda " * 40)[:200]})


@check("query.empty")
async def empty(target: Target) -> None:
    """An empty text is no constraint."""
    page = await filtered(target, {"query": ""})
    await target.material.listings()
    whole = target.material.total
    expect(page.total == whole, f"An empty query finds {page.total} of {whole} vehicles.", target)


@check("query.nothing")
async def nothing(target: Target) -> None:
    """A word that nobody uses finds nothing."""
    await target.material.some_listings()
    page = await filtered(target, {"query": "qzxvwkj"})
    expect(not page.vehicles and not page.total, "A query for a word that no listing has finds vehicles.", target)


@check("query.make")
async def make(target: Target) -> None:
    """The name of a make finds its vehicles."""
    word = await _one_word(target, "make")
    await expect_matching(target, {"query": word}, lambda each: True if each.get("make") == word else None)


@check("query.model")
async def model(target: Target) -> None:
    """The name of a model finds its vehicles."""
    word = await _one_word(target, "model")
    await expect_matching(target, {"query": word}, lambda each: True if each.get("model") == word else None)


@check("query.vin")
async def vin(target: Target) -> None:
    """A VIN finds its vehicle."""
    wanted = str((await identified(target, "vin"))[0]["vin"])
    await expect_matching(target, {"query": wanted}, lambda each: each.get("vin") == wanted)


@check("query.stock")
async def stock(target: Target) -> None:
    """A stock number finds its vehicle."""
    wanted = str((await identified(target, "stock"))[0]["stock"])
    await expect_matching(target, {"query": wanted}, lambda each: True if each.get("stock") == wanted else None)


@check("query.every-word")
async def every_word(target: Target) -> None:
    """A further word finds fewer vehicles, and never more."""
    word = await _one_word(target, "make")
    page, fewer = await filtered(target, {"query": word}), await filtered(target, {"query": f"{word} qzxvwkj"})
    expect(
        not fewer.total or (page.total or 0) > fewer.total,
        "A word that no listing has does not narrow a query.",
        target,
    )


@check("query.two-words")
async def two_words(target: Target) -> None:
    """Make and model together find the vehicles that have both."""
    for each in await target.material.having("make"):
        words = [str(each.get(name, "")) for name in ("make", "model")]
        if all(len(tokens(word)) == 1 for word in words):

            def matches(other: Listing, words: list[str] = words) -> bool | None:
                return True if [other.get("make"), other.get("model")] == words else None

            await expect_matching(target, {"query": " ".join(words)}, matches)
            return
    raise Skipped("No listing has a make and a model of one word each.")


@check("query.case")
async def case(target: Target) -> None:
    """Upper and lower case find the same."""
    word = await _one_word(target, "make")
    page, other = await filtered(target, {"query": word}), await filtered(target, {"query": word.swapcase()})
    expect(
        page.total == other.total, f"{word} finds {page.total} vehicles, and {word.swapcase()} {other.total}.", target
    )


@check("query.prefix")
async def prefix(target: Target) -> None:
    """The start of a word finds it."""
    word = await _one_word(target, "make", 5)
    start = word[:-1].lower()
    await expect_matching(target, {"query": start}, lambda each: True if each.get("make") == word else None)


@check("query.with-filter")
async def with_filter(target: Target) -> None:
    """A query and a filter apply together."""
    word = await _one_word(target, "make")
    listings = [each for each in await target.material.listings() if each.get("make") == word]
    years = [year for each in listings if (year := number_of(each, "year")) is not None]
    if len(set(years)) < 2:
        raise Skipped("No make has listings of two years.")
    last = int(max(years)) - 1

    def matches(each: Listing) -> bool | None:
        year = number_of(each, "year")
        if year is None:
            return None
        if year > last:
            return False
        return True if each.get("make") == word else None

    await expect_matching(target, {"query": word, "year_max": last}, matches)


async def _one_word(target: Target, member: str, letters: int = 2) -> str:
    """A value that is one word of letters, and that not all listings have. The most frequent of those that few have."""
    values = [str(each[member]) for each in await target.material.having(member)]
    few = {
        value
        for value in values
        if value.isalpha()
        and letters <= len(value) <= LONGEST_WORD
        and values.count(value) <= PAGE
        and any(clearly_different(member, value, each) for each in values)
    }
    if not few:
        raise Skipped(f"No {member} is one word of {letters} letters that few listings have.")
    return max(few, key=lambda word: (values.count(word), word))
