"""TOML as text: reading, writing, positions of keys, findings with places, and limits against files from elsewhere."""
