"""Charts of pipelines: one kind per file, each a function from a question to a chart."""
