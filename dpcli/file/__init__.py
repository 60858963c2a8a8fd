"""Files: toml/ reads and writes TOML, with positions and findings; keys/ has the kinds of values; pipeline/ has the pipeline file."""
