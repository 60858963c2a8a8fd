"""Measurements, which are run by hand: for example `python -m tests.benchmarks.peers`."""
