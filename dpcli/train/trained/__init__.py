"""Trained models: loaded, asked, measured and attested."""
