"""Free text in inventory.search. The specification leaves open how it is matched."""

from dealer_agent.checker.check import check, check_each, expect_refused
from dealer_agent.checker.differences import LONGEST_WORD, clearly_different, tokens
from dealer_agent.checker.outcome import Skipped, expect
from dealer_agent.checker.searches import expect_matching, filtered, identified, number_of, numbers
from dealer_agent.checker.target import PAGE, Listing, Target


@check("query.longest")
async def _(target: Target) -> None:
    await filtered(target, {"query": ("honda " * 40)[:200]})


@check("strict.query-201")
async def _(target: Target) -> None:
    await expect_refused(target, filters={"query": "a" * 201})


@check("query.nothing")
async def _(target: Target) -> None:
    await target.some_listings()
    page = await filtered(target, {"query": "qzxvwkj"})
    expect(not page.vehicles and not page.total, "A query for a word that no listing has finds vehicles.")


async def _finds(target: Target, query: str, member: str, value: str, other: bool | None = None) -> None:
    """Raises Failed unless a query finds the vehicles with a value. `other`: whether it may find others."""
    await expect_matching(target, {"query": query}, lambda each: True if each.get(member) == value else other)


@check_each({"query.make": "make", "query.model": "model"})
async def _(target: Target, member: str) -> None:
    word = await _one_word(target, member)
    await _finds(target, word, member, word)


@check_each({"query.vin": ("vin", False), "query.stock": ("stock", None)})
async def _(target: Target, member: str, other: bool | None) -> None:
    wanted = str((await identified(target, member))[0][member])
    await _finds(target, wanted, member, wanted, other)


@check("query.every-word")
async def _(target: Target) -> None:
    word = await _one_word(target, "make")
    page, fewer = await filtered(target, {"query": word}), await filtered(target, {"query": f"{word} qzxvwkj"})
    expect(not fewer.total or (page.total or 0) > fewer.total, "A word that no listing has does not narrow a query.")


@check("query.two-words")
async def _(target: Target) -> None:
    for each in await target.having("make"):
        words = [str(each.get(name, "")) for name in ("make", "model")]
        if all(len(tokens(word)) == 1 for word in words):

            def matches(other: Listing, words: list[str] = words) -> bool | None:
                return True if [other.get("make"), other.get("model")] == words else None

            await expect_matching(target, {"query": " ".join(words)}, matches)
            return
    raise Skipped("No listing has a make and a model of one word each.")


@check("query.case")
async def _(target: Target) -> None:
    word = await _one_word(target, "make")
    page, other = await filtered(target, {"query": word}), await filtered(target, {"query": word.swapcase()})
    expect(page.total == other.total, f"{word} finds {page.total} vehicles, and {word.swapcase()} {other.total}.")


@check("query.prefix")
async def _(target: Target) -> None:
    word = await _one_word(target, "make", 5)
    await _finds(target, word[:-1].lower(), "make", word)


@check("query.with-filter")
async def _(target: Target) -> None:
    word = await _one_word(target, "make")
    years = numbers([each for each in await target.listings() if each.get("make") == word], "year")
    if len(set(years)) < 2:
        raise Skipped("No make has listings of two years.")
    last = int(max(years)) - 1

    def matches(each: Listing) -> bool | None:
        year = number_of(each, "year")
        if year is not None and year > last:
            return False
        return True if year is not None and each.get("make") == word else None

    await expect_matching(target, {"query": word, "year_max": last}, matches)


async def _one_word(target: Target, member: str, letters: int = 2) -> str:
    """A value that is one word of letters, and that not all listings have. The most frequent of those that few have."""
    values = [str(each[member]) for each in await target.having(member)]
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
