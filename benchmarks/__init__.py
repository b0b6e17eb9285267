"""Every figure that the README quotes, with the peer beside it: `python -m benchmarks`."""
