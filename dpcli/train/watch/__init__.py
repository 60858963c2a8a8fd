"""Somebody else's training loop, compared with a file while it runs: how it samples, and what reaches its optimizer."""
