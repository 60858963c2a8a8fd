"""Confidence intervals and expected errors of noisy answers, and the postprocessing of answers."""
