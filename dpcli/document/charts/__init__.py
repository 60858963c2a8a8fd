"""The layout of charts, and the formats that draw them."""
