"""A smooth weight that takes off one end of the line: w(x) = exp(-e^{k (x - c)}).

It is entire, between 0 and 1 on the real line, double-exponentially small beyond c, and 1 - w = O(e^{k (x - c)}) before.
"""

from __future__ import annotations

from dpcli.numerics.arrays import Array, ComplexArray, np

EDGE = 6.5  # k (x - c) beyond which w is below e^-100 at every height in use


def log_cutoff(place: Array | ComplexArray) -> ComplexArray:
    """log w where k (x - c) = `place`; off the real line held where its modulus is below e^-100."""
    return np.asarray(-np.exp(np.where(place.real > EDGE, EDGE, place) if np.iscomplexobj(place) else np.minimum(place, 700.0)))
