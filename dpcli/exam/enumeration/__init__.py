"""Brute-force enumeration of releases on small datasets, over every sample that a scheme can draw and every outcome.

The enumeration uses no formula of dpcli's mechanisms and accountants; bracket.py compares their bounds with it. A release is a function of
the records in a sample, and is evaluated on two neighbouring datasets. Continuous outcomes are divided into cells. This is post-processing,
so the enumerated delta is at most the true delta. The difference is of the order of the square of a cell's width.
"""
