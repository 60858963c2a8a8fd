"""The disclosure statement of a private release: its items, and the answers from a pipeline file and its account."""
