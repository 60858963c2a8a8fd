"""Accountants, one composition theorem in each file: from [(mechanism, count)] to a privacy profile."""
