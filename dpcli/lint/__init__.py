"""The failure catalogue as rules: one registry line each, grouped in files by theme; nothing here needs numpy."""
