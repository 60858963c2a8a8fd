"""Accountants, with one composition theorem in each file. Each turns a composition, [(mechanism, count)], into a privacy profile."""
