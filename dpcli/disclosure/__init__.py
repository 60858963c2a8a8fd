"""Disclosure of a private release: the items, their answers, and the statement that they make up."""
