"""Measures the figures of the README, ours beside those of others: `python -m benchmarks`."""
