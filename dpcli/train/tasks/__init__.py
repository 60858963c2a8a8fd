"""Training tasks. Each module builds a model, records and a loss from [train], and contains no code about privacy."""
