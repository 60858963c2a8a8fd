"""Numerical methods on numbers and arrays. They know nothing of mechanisms."""
