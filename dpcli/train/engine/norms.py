"""Clipping norms that single precision can measure gradients against. Without torch: files are read by it."""

from __future__ import annotations

# The squares of 1e-8 are 1e-16, those of a gradient that is a thousandth of it 1e-22: far above 1e-38, below which single precision loses
# digits, and above what `squares` takes for nothing. 1 / 1e-8 times any number whose square is finite is finite. The same upwards.
SMALLEST, LARGEST = 1e-8, 1e12
