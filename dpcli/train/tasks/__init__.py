"""Training tasks: each module turns [train] into a model, its records and its loss, and knows nothing of privacy."""
