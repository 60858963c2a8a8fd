"""Monitoring of training loops that dpcli did not create. Their sampling and their noise are compared with a file while they run."""
