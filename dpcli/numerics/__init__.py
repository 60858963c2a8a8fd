"""Numerical methods on numbers and arrays: tails, CGFs, contour integrals, grids and closed forms. They know nothing of mechanisms."""
