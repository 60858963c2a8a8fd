"""Sessions, which are runs of a command that are charged as a whole. Each has a price, its own folder, and a run in a ledger."""
