"""Private training on torch: it does what the pipeline file declares, and refuses what it cannot honour."""
