"""Import from and export to Opacus, whose checkpoints contain the history of an accountant."""
