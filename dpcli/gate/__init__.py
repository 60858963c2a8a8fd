"""The CI gate: several files against their caps and against what they cost before; one file per kind of condition."""
