"""dpcli export: one file per library."""
