"""One composition theorem per file: from [(mechanism, count)] to a privacy profile."""
