"""Replays and canaries, by which an audit tests the training of a file."""
