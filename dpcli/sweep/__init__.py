"""Accuracy against epsilon: many training runs of one file, or a search among them that is itself a private mechanism."""
