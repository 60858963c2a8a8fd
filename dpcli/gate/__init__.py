"""The CI gate, which judges pipeline files against their caps and against their earlier cost.

commands/gate.py has the flags, gate_terms.py checks them, judge.py judges the files with the help of the others, and documents/gate.py puts
the verdicts into words. Begin with verdicts.py, which explains the terms.
"""
