"""Audits of programs that claim to be private. An attack or a replay gives an empirical lower bound on epsilon, or a counterexample."""
