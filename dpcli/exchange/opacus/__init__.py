"""Opacus: the history of an accountant in a checkpoint."""
