"""dpcli comment: one file per system."""
