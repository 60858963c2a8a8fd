"""Empirical lower bounds on epsilon: what an attack, or a replay, proves about a program that claims to be private."""
