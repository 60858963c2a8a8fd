"""The plan of a training run: the keys of [train], and the stages, the noise and the cost that follow from a file."""
