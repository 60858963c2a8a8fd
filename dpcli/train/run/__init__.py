"""A training run: its processes, its charge in the ledger, its saved state, and the files that it writes.

training_run.py is the run from beginning to end, and charged_run.py its charge, its pauses and its resumption.
"""
