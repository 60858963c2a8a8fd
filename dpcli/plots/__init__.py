"""The charts of `dpcli plot`. Each kind of chart is a function that takes a question about a pipeline and returns a chart."""
