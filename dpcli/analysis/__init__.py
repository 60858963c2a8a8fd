"""The cost of pipelines: accounts, calibration, comparisons of files, and the meaning of a guarantee."""
