"""Accountants, with one composition theorem in each file: from (mechanism, count) pairs to epsilon at a delta. The interface: base.py."""
