"""Sessions, which are charged as a whole: the price of its file, a folder of its own, and its run in a ledger."""
