"""A queue that serves dealers in turn, so that one dealer's flood does not hold up the others. Pure."""

from collections import OrderedDict, deque
from itertools import islice
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Turns(Generic[Item]):
    """Items of dealers. The items of one dealer keep their order. `take` goes from dealer to dealer.

    No call takes longer because there are more dealers.
    """

    def __init__(self) -> None:
        # By dealer id, in the order of the next turns.
        self._waiting: OrderedDict[str, deque[Item]] = OrderedDict()
        self.size = 0
        """The number of items. An attribute: every request reads it, and a method takes longer."""
        # The dealers that `next_dealers` returned last, and that must let others go first.
        self._last: set[str] = set()

    @property
    def dealers(self) -> int:
        """The number of dealers that have items."""
        return len(self._waiting)

    def next_dealers(self, most: int) -> list[str]:
        """The dealers whose turn it is, at most so many. Those of the last call wait while others have items."""
        others = (dealer_id for dealer_id in self._waiting if dealer_id not in self._last)
        found = list(islice(others, most)) or list(islice(self._waiting, most))
        self._last = set(found)
        return found

    def count(self, dealer_id: str) -> int:
        """The number of a dealer's items."""
        return len(self._waiting.get(dealer_id, ()))

    def add(self, dealer_id: str, item: Item) -> None:
        """Adds an item behind the dealer's others. A dealer without items comes after all other dealers."""
        self.size += 1
        items = self._waiting.get(dealer_id)
        if items is None:
            items = self._waiting[dealer_id] = deque()
        items.append(item)

    def put_first(self, dealer_id: str, item: Item) -> None:
        """Adds an item before the dealer's others. The dealer comes before all other dealers."""
        self._last.discard(dealer_id)
        self.size += 1
        self._waiting.setdefault(dealer_id, deque()).appendleft(item)
        self._waiting.move_to_end(dealer_id, last=False)

    def take(self, dealer_id: str | None = None) -> tuple[str, Item]:
        """Removes and returns the first item of a dealer, who then comes last; by default of the first dealer.

        Raises KeyError for a dealer without items, and StopIteration if there are no items.
        """
        dealer_id = next(iter(self._waiting)) if dealer_id is None else dealer_id
        items = self._waiting[dealer_id]
        item = items.popleft()
        self.size -= 1
        if not items:
            del self._waiting[dealer_id]
        elif len(self._waiting) > 1:
            self._waiting.move_to_end(dealer_id)
        return dealer_id, item

    def take_all(self, dealer_id: str) -> deque[Item]:
        """Removes and returns all items of a dealer."""
        items = self._waiting.pop(dealer_id, deque())
        self.size -= len(items)
        return items
