"""Clipped sums of per-example gradients: the one place where an example's influence on the model is bounded."""
