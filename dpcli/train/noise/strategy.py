"""Banded strategies of a matrix mechanism, optimised for prefix sums: which C, of those that cost the same, leaves the least noise.

Source: Choquette-Choo et al. 2023, arXiv:2306.08153, Section 4; parametrised by its columns and solved by L-BFGS.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from dpcli.mechanisms.noise.correlated import square_root
from dpcli.numerics.arrays import np

if TYPE_CHECKING:
    import torch

    from dpcli.random.streams import Reals

ROUNDS = 60  # of L-BFGS: more gain less than a thousandth


@lru_cache(maxsize=8)
def optimised(steps: int, bands: int) -> Reals:
    """Column t of C as row t: C[t, t], C[t + 1, t], ..., (n, bands), zero beyond the end; every one of Euclidean length 1.

    Minimises the Frobenius norm of A C^-1, A the prefix sums: its square is the sum of the variances of all prefix sums under noise z of
    variance 1. Never worse than the columns of the banded square root of A, each made as long, where the search starts. Read-only.
    """
    import torch

    start = torch.from_numpy(np.tile(square_root(bands), (steps, 1)))
    start = start * (torch.arange(steps)[:, None] + torch.arange(bands) < steps)
    free = start.clone().requires_grad_()
    search = torch.optim.LBFGS([free], max_iter=ROUNDS, history_size=20, line_search_fn="strong_wolfe", tolerance_change=0.0)

    def closure() -> torch.Tensor:
        search.zero_grad()
        found = error(unit(free))
        found.backward()  # type: ignore[no-untyped-call]
        return found

    search.step(closure)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        best = min(unit(start), unit(free), key=judged)
    columns: Reals = best.numpy()
    columns.flags.writeable = False
    return columns


def unit(columns: torch.Tensor) -> torch.Tensor:
    """Each of length 1."""
    lengths: torch.Tensor = columns.square().sum(1, keepdim=True).sqrt()
    return columns / lengths


def matrix(columns: torch.Tensor) -> torch.Tensor:
    """C of its columns."""
    steps, bands = columns.shape
    found = columns.new_zeros(steps, steps)
    for lag in range(bands):
        found += columns[: steps - lag, lag].diag(-lag)
    return found


def error(columns: torch.Tensor) -> torch.Tensor:
    """|A C^-1|^2, the sum over steps of the variance of the prefix sum."""
    import torch

    encoder = matrix(columns)
    prefixes = torch.ones_like(encoder).tril()
    left: torch.Tensor = torch.linalg.solve_triangular(encoder, prefixes, upper=False, left=False)
    return left.square().sum()


def judged(columns: torch.Tensor) -> float:
    """The error; infinite where the columns are of no encoder."""
    found = float(error(columns))
    return found if bool((columns[:, 0] > 0.0).all()) and math.isfinite(found) else math.inf
