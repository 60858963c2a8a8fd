"""SQL scalars over the columns of one row, checked before any engine sees them; no row can make one fail."""
