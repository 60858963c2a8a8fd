"""The spending of a dataset: mechanisms in a hash chain, added up by a privacy filter."""
