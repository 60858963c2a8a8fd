"""Propose-test-release: statistics that are released only if a noisy test finds them stable."""
