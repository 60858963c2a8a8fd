"""Monitoring of training loops that dpcli did not create. Their sampling (loader.py) and noise (noise_measurement.py) are compared with a file."""
