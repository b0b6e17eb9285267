"""The upkeep of the dealers of an installation: old data is deleted, and heads are recorded, for each dealer once."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.running import eventually
from tests.installation.platform import add, make_installation, run_installation
from tests.storage.calls import read, write, write_at

from dealer_agent.config.installation import Installation
from dealer_agent.server import upkeep as upkeeps
from dealer_agent.server.chain_heads import read_heads
from dealer_agent.storage.dealer_registry import set_state
from dealer_agent.storage.refusals import record_refusal
from dealer_agent.storage.store import Store
from dealer_agent.storage.upkeep import claim_upkeep, find_due_upkeep, note_recorded_heads

pytestmark = pytest.mark.outside_protocol("many dealers in one service")

NORTH, SOUTH, WEST = "north-motors", "south-motors", "west-motors"
HOUR = timedelta(hours=1)
