"""Who sends a request, and what the dealer allows it (docs/protocol.md#callers). Pure."""

from dealer_agent.callers.caller import ANONYMOUS, Caller, CallerClass, class_of, issued, signed, token_caller
from dealer_agent.callers.policy import Policy, PolicyBook

__all__ = [
    "ANONYMOUS",
    "Caller",
    "CallerClass",
    "Policy",
    "PolicyBook",
    "class_of",
    "issued",
    "signed",
    "token_caller",
]
