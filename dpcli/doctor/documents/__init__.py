"""The documents of the commands doctor and version."""
