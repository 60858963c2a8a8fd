"""Accountants, with one composition theorem in each file. Each turns a composition of (mechanism, count) into a privacy profile."""
