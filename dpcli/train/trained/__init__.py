"""Trained models of private runs: loading, predictions, metrics, attestations, and folders for the Hugging Face Hub (hub.py)."""
