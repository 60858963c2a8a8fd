"""The pipeline file: typed values, strict reading, diagnostics with positions, JSON Schema."""
