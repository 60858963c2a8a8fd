"""Results to text: one `Document` per use case, one renderer per format; data in, string out, no I/O."""
