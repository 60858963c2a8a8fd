"""Declarations of keys: kinds of values, tables that become dataclasses, and the words about them for messages and the manual."""
