"""Noise on the integers: its probability laws, its samplers, and choices by noisy scores."""
