"""The CI gate: files are judged against their caps and against their earlier cost."""
