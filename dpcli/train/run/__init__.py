"""A training run: its processes, its charge in the ledger, its saved state, and the files that it writes."""
