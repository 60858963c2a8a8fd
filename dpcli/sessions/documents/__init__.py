"""The document of a dry run."""
