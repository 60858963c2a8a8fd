"""One plan in the SQL of three engines: what is private is filtered, bounded and added up there, and only sums come out."""
