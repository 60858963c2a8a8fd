"""Engines: one plan in the SQL of three of them; what is private is filtered, bounded and added up there, and only sums come out."""
