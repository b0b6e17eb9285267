"""Who sends a request, and what the dealer allows it (docs/protocol.md#callers). Pure."""

from dealer_agent.callers.caller import ANONYMOUS, Caller, CallerClass, issued, signed, token_caller

__all__ = ["ANONYMOUS", "Caller", "CallerClass", "issued", "signed", "token_caller"]
