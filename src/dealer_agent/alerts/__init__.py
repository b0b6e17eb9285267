"""Alerts: messages to people about what needs them. At most one at the start, one at the end, and a digest a day."""
