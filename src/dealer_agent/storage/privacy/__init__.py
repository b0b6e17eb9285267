"""Protects customer data over its life: keys, consent and access chains, withdrawals, erasure."""
