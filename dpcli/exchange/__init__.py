"""Import of other libraries' records of a private run as pipelines, and export of pipelines to their formats."""
