"""What other libraries keep of a private run, as a pipeline, and a pipeline as they keep it."""
