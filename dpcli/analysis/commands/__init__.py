"""The commands account, calibrate, calibrate-sigma and diff."""
