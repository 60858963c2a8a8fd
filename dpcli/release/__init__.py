"""Noisy answers over a table."""
