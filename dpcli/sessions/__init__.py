"""Sessions: runs of a command that are charged as a whole. A session has a pipeline file with its cost, a folder, and a run in a ledger."""
