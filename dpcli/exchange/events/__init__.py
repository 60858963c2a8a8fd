"""dp-accounting: trees of DpEvents."""
