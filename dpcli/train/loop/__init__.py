"""A loop of the caller's own around private steps: the run of `dpcli train`, one step at a time."""
