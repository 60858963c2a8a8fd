"""Import of the records that other libraries keep of private runs, and export of pipelines to the formats of these libraries."""
