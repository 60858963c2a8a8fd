"""Measurements, run by hand: `python -m tests.benchmarks.peers`, `python tests/benchmarks/speed.py`."""
