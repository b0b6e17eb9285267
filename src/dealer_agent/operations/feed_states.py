"""How the feeds of a dealer are doing: for `dealer-agent feeds`, and for the console."""

from dealer_agent.open_installation import OpenDealer
from dealer_agent.storage.alerts import warned_imports
from dealer_agent.storage.stock.feeds import FeedState, feed_states


def states_of_feeds(dealer: OpenDealer) -> dict[str, FeedState]:
    """The states of the feeds by name. A feed that no process has seen yet has an empty state."""
    with dealer.read() as tx:
        states = {state.name: state for state in feed_states(tx)}
        return {
            feed.name: states.get(feed.name)
            or FeedState(feed.name, feed.source, tx.now, tx.now, None, None, None, None, None, is_late=False, waiting=0)
            for feed in dealer.settings.feeds
        }


def warned_feeds(dealer: OpenDealer) -> set[str]:
    """The feeds whose newest import has warnings."""
    with dealer.read() as tx:
        return {feed for feed in warned_imports(tx) if feed is not None}


def state_word(warned: set[str], state: FeedState) -> str:
    """The state of a feed in one word. `warned` are the feeds whose newest import has warnings."""
    if state.problem is not None:
        return "problem"
    if state.is_late:
        return "late"
    if state.name in warned:
        return "warnings"
    return "ok" if state.checked_at or state.new_at else "new"
