"""Agents that accept what they must refuse, and refuse what they must accept."""

from tests.checker.breaking import broken
from tests.checker.reading import VEHICLE, VIN, exactly, reads, refuses

from dealer_agent.checker.checks.strictness import ACCEPTED, REFUSED

for _id, (_skill, _members) in REFUSED.items():
    _valid = {"vin": VIN} if _skill == VEHICLE else {}
    broken(_id)(reads(_skill, exactly(_members), lambda _, valid=_valid: valid))  # type: ignore[misc]
for _id, (_skill, _members) in ACCEPTED.items():
    broken(_id)(refuses(_skill, exactly(_members)))
