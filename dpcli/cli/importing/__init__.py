"""dpcli import: one file per library."""
