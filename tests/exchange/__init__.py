"""What other libraries keep, and what of it becomes a pipeline."""
