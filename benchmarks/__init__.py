"""Measures the figures of the README, ours beside those of others: `python -m benchmarks`."""

from pathlib import Path

RESULTS = Path(__file__).with_name("results")
FIGURES = RESULTS / "figures.json"
"""The figures of the last full run of each part."""
