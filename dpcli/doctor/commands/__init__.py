"""The commands doctor and version."""
