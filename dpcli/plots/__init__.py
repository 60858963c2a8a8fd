"""Charts of pipelines: each kind is a function from a question to a chart."""
