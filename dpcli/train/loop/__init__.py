"""Private steps in the user's own training loop. The run is that of `dpcli train`, but the caller takes each step."""
