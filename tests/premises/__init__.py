"""Premises that are broken on purpose: the number that stands on each of them is then exceeded, or the breach is refused."""
