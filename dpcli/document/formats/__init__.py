"""The output formats of documents."""
