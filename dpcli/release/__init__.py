"""Noisy answers to queries about a table: the command `dpcli release` and the measures of its queries."""
