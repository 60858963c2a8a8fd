"""The lint rules, which find known failures in pipeline files: settings by which a printed epsilon is wrong, or says less than it seems.

Rules are grouped in files by theme. rule_info.py has their class, catalogue.py lists them by code, and run.py applies them. To start fast,
no module of this folder imports numpy.
"""
