"""The CI gate, which judges pipeline files against their caps and against their earlier cost."""
