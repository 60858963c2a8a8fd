"""SQL expressions over the columns of one row. They are checked before an engine runs them, and no row can make one fail."""
