"""Documents and charts, and the formats that show them."""
