"""Modules that every folder of dpcli may import: errors, plugins, keys of files, exact arithmetic, and lazy imports."""
