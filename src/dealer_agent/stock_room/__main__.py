"""`python -m dealer_agent.stock_room`: how the show room starts the process that makes a large snapshot."""

from dealer_agent.stock_room.making import run
from dealer_agent.vault.core_dumps import forbid_core_dumps

if __name__ == "__main__":
    forbid_core_dumps()  # The keys may be in its environment.
    run()
