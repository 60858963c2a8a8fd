"""Mechanisms that choose or report a value: noisy choices, randomised and shuffled reports, tests of stability, and private selection."""
