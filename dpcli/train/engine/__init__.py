"""Clipped sums of per-example gradients. This package is the only place that bounds the influence of an example on the model."""
