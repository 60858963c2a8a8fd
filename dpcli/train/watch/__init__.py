"""Monitoring of training loops that dpcli did not create: their sampling (loader.py) and their noise (noise_measurement.py)."""
