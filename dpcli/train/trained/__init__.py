"""Trained models: loading, predictions, metrics and attestations."""
