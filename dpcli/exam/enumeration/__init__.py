"""Brute force: small datasets, every sample that a scheme can draw, every outcome; nothing here uses dpcli's formulas.

A world is a release (a function of the records in a sample) on two neighbouring datasets. Continuous outcomes are cut into cells, which is
post-processing: what is found is at most the truth, and short of it by the square of a cell.
"""
