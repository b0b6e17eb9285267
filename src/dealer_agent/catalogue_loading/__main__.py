"""`python -m dealer_agent.catalogue_loading` is the process that makes a large snapshot."""

from dealer_agent.catalogue_loading.snapshot_process import run
from dealer_agent.core_dumps import forbid_core_dumps

if __name__ == "__main__":
    forbid_core_dumps()  # The environment may hold keys.
    run()
