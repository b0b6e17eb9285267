"""`python -m dealer_agent.feed_collection` is the process that imports a file of a feed."""

from dealer_agent.core_dumps import forbid_core_dumps
from dealer_agent.feed_collection.import_process import run

if __name__ == "__main__":
    forbid_core_dumps()  # The environment may hold keys.
    run()
