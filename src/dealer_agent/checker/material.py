"""What checks share, fetched once for each interface: the listings, the dealer's information, the facets."""

from typing import TYPE_CHECKING, Any

from dealer_agent.checker.check import Failed, Skipped
from dealer_agent.checker.searches import whole_number

if TYPE_CHECKING:
    from dealer_agent.checker.target import Target

Listing = dict[str, Any]

PAGE = 100
MOST_LISTINGS = 1_000
"""The most listings that are read. Checks of a larger stock know a part of it only."""


class Material:
    """The material of one interface. It is fetched when a check first asks for it, with the target that was bound."""

    def __init__(self) -> None:
        self._target: Target | None = None
        self._listings: list[Listing] | None = None
        self._problem: str | None = None
        self.total = 0
        """The `total` of a search without filters, as the target says it."""

    def bind(self, target: "Target") -> None:
        """Names the target that fetches the material: the first one of the interface."""
        self._target = self._target or target

    @property
    def complete(self) -> bool:
        """Whether `listings` has the whole stock. It has the first listings of a larger one."""
        return self._listings is not None and len(self._listings) >= self.total

    async def listings(self) -> list[Listing]:
        """All listings, found by paging. Skips the check if they cannot be read: another check fails for that."""
        if self._listings is None and self._problem is None:
            try:
                self._listings = await self._read_listings()
            except (Failed, Skipped) as problem:
                self._problem = f"The listings cannot be read: {problem}"
        if self._problem is not None:
            raise Skipped(self._problem)
        return self._listings or []

    async def some_listings(self) -> list[Listing]:
        """All listings. Skips the check if the stock is empty."""
        found = await self.listings()
        if not found:
            raise Skipped("The stock is empty.")
        return found

    async def having(self, member: str) -> list[Listing]:
        """The listings that have a member. Skips the check if none has it."""
        found = [each for each in await self.listings() if each.get(member) is not None]
        if not found:
            raise Skipped(f"No listing has {member}.")
        return found

    async def information(self) -> dict[str, Any]:
        """The dealer's information. Skips the check if it cannot be read."""
        return await self._ask("dealer.information")

    async def facets(self) -> dict[str, Any]:
        """The facets of the whole stock. Skips the check if they cannot be read."""
        return await self._ask("inventory.facets")

    async def _ask(self, skill: str) -> dict[str, Any]:
        try:
            return await self._bound().ask(skill)
        except Failed as problem:
            raise Skipped(f"{skill} cannot be read: {problem}") from None

    def _bound(self) -> "Target":
        assert self._target is not None
        return self._target

    async def _read_listings(self) -> list[Listing]:
        target = self._bound()
        if "inventory.search" not in target.card.skills:
            raise Skipped("The card does not offer inventory.search.")
        found: list[Listing] = []
        while True:
            page = await target.ask("inventory.search", pagination={"skip": len(found), "limit": PAGE})
            vehicles = page.get("vehicles")
            listings = [each for each in vehicles if isinstance(each, dict)] if isinstance(vehicles, list) else []
            total = whole_number(page.get("total"))
            self.total = len(found) + len(listings) if total is None else total
            found += listings
            if not listings or len(found) >= min(self.total, MOST_LISTINGS):
                return found
