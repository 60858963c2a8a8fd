"""The search for the encoder of a banded matrix mechanism, whose noise train/noise.py draws (`BandedSpec`).

An *encoder* C is a lower triangular matrix. The mechanism releases C x + z, where x are the sums of the steps and z are independent
Gaussians. With b *bands*, column t of C is zero except for C[t, t], ..., C[t + b - 1, t]. Every column has length 1, and a record takes
part at most once in b successive steps, so its columns do not overlap. All encoders of the search therefore have the same cost. They differ
in their *error*. The prefix sums of the noisy steps have the noise A C^-1 z, where A is the matrix of prefix sums, with ones on and below
the diagonal. The error is the sum of the variances of this noise.

L-BFGS searches for the least error (`optimise_banded`). It starts at a *Toeplitz* encoder, whose columns are shifted copies of one column.
Such an encoder has only b coefficients, which a smaller search finds (`best_toeplitz`).

Source: Choquette-Choo et al. 2023, arXiv:2306.08153, Section 4. Here the encoder is parametrised by its columns.
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

# Limits of the search for an encoder. They affect the error of the noise and the time of the search, and not the cost.
LEAST_RATIO = 0.01  # least ratio of successive coefficients of a Toeplitz encoder; the search divides by the ratios
SEARCH_ROUNDS = 60  # iterations of L-BFGS; further iterations reduce the error by less than 0.1 %
HISTORY = 20  # earlier iterations from which L-BFGS estimates the curvature


@lru_cache(maxsize=8)
def optimise_banded(steps: int, bands: int) -> Reals:
    """Return the columns of a banded encoder C with small error on prefix sums, as a read-only array.

    Row t of the result contains C[t, t], C[t + 1, t], ..., with zeros beyond the last step. Each row has Euclidean length 1. The search
    starts at the normalised columns of `best_toeplitz`, or of the square root of A, cut to the bands, if they have less error. If it finds
    no better encoder, these columns are returned. The result is cached, because `first_weight` (train/noise.py) and every stage of a run
    ask for it again.
    """
    import torch

    within_run = torch.arange(steps)[:, None] + torch.arange(bands) < steps
    starts = (best_toeplitz(steps, bands), square_root(bands))
    initial = min((_normalise(torch.from_numpy(column) * within_run) for column in starts), key=_finite_error)
    free = initial.clone().requires_grad_()
    # tolerance_change = 0: a step that changes little does not end the search.
    search = torch.optim.LBFGS(
        [free], max_iter=SEARCH_ROUNDS, history_size=HISTORY, line_search_fn="strong_wolfe", tolerance_change=0.0
    )

    def closure() -> torch.Tensor:
        search.zero_grad()
        loss = prefix_error(_normalise(free))
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    search.step(closure)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        best = min(initial, _normalise(free), key=_finite_error)
    columns: Reals = best.numpy()
    columns.flags.writeable = False
    return columns


def best_toeplitz(steps: int, bands: int) -> Reals:
    """Return the coefficients c of a banded Toeplitz encoder with small error on prefix sums, non-increasing from c_0 = 1.

    The columns are not normalised, so the search minimises the product of the squared cost and the error: |c|^2 sum_t (n - t) p_t^2. Here
    |c|^2 is the largest squared length of a column. p is the first column of A C^-1, which solves c * p = (1, 1, ...) as a convolution. The
    later columns are shifted copies of p, so p_t occurs n - t times in n steps. If g solves C^T g = ((n - t) p_t)_t, the derivative of half
    the sum by c_k is -sum_t g_t p_{t-k}.

    The search is over the ratios of successive coefficients. It starts at the first coefficients of the Toeplitz matrix whose square is A.
    """
    start = square_root(bands)
    if bands == 1:
        return start

    from scipy.optimize import minimize
    from scipy.signal import lfilter

    occurrences = np.arange(steps, 0.0, -1.0)  # n - t

    def loss(ratios: Reals) -> tuple[float, Reals]:
        """Return half the logarithm of the product that is minimised, and its derivatives by the ratios."""
        column = np.cumprod(np.concatenate(([1.0], ratios)))
        p = lfilter([1.0], column, np.ones(steps))
        g = lfilter([1.0], column, (occurrences * p)[::-1])[::-1]
        square, error = float(column @ column), float(occurrences @ np.square(p))
        by_column = [column[k] / square - float(g[k:] @ p[: steps - k]) / error for k in range(bands)]
        # c_k is the product of the first k ratios. Ratio j therefore enters every c_k with k >= j, each with derivative c_k / (ratio j).
        by_ratio = np.cumsum((np.array(by_column) * column)[:0:-1])[::-1] / ratios
        return 0.5 * math.log(square * error), by_ratio

    search = minimize(loss, start[1:] / start[:-1], jac=True, method="L-BFGS-B", bounds=[(LEAST_RATIO, 1.0)] * (bands - 1))
    return np.asarray(np.cumprod(np.concatenate(([1.0], search.x))))


def _normalise(columns: torch.Tensor) -> torch.Tensor:
    """Return the columns scaled to Euclidean length 1."""
    lengths: torch.Tensor = columns.square().sum(1, keepdim=True).sqrt()
    return columns / lengths


def prefix_error(columns: torch.Tensor) -> torch.Tensor:
    """Return the squared Frobenius norm of A C^-1, which is the sum of the variances of all prefix sums if z has variance 1."""
    import torch

    steps, bands = columns.shape
    encoder = columns.new_zeros(steps, steps)
    for lag in range(bands):
        encoder += columns[: steps - lag, lag].diag(-lag)  # the diagonal that is `lag` places below the main one
    prefixes = torch.ones_like(encoder).tril()
    decoded: torch.Tensor = torch.linalg.solve_triangular(encoder, prefixes, upper=False, left=False)
    return decoded.square().sum()


def _finite_error(columns: torch.Tensor) -> float:
    """Return `prefix_error` of the columns, or infinity if they form no valid encoder: the diagonal must be positive."""
    error = float(prefix_error(columns))
    is_invertible = bool((columns[:, 0] > 0.0).all())
    return error if is_invertible and math.isfinite(error) else math.inf
