"""Replays (program.py) and canaries (canaries.py), by which `dpcli audit` tests the training of a file."""
