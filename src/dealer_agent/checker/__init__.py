"""Checks any dealer agent against the protocol, from outside."""
