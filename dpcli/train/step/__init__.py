"""The steps of DP-SGD: their preparation, the noisy gradient, and the optimizers."""
