"""What a dataset has spent: mechanisms in a hash chain, added up by a privacy filter."""
