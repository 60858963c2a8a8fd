"""Import from and export to dp-accounting, whose records are trees of DpEvents."""
