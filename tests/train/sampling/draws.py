"""Helpers for tests of random numbers: p-values, scripted streams, and noise as one row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import binom, chi2, chisquare

if TYPE_CHECKING:
    import torch


def variance_p(drawn: np.ndarray, variance: float = 1.0) -> float:
    """Return the two-sided p-value of the hypothesis that the numbers are normal with this variance, by chi-square."""
    statistic = float(np.square(drawn.astype(float)).sum() / variance)
    return 2.0 * min(chi2.cdf(statistic, drawn.size), chi2.sf(statistic, drawn.size))


class Scripted:
    """A random stream that returns given words."""

    private = False

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def words(self, count: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        taken, self.left = self.left[:count], self.left[count:]
        assert len(taken) == count, "more words were asked for than expected"
        return np.array(taken, np.uint64)

    def bulk(self) -> np.random.Generator:
        raise AssertionError


def binomial_fit(draws: np.ndarray[tuple[int], np.dtype[np.int64]], trials: int, rate: float) -> float:
    """Return the p-value of a chi-square test with about 20 classes of expected counts above 5."""
    edges = np.unique(binom.ppf(np.linspace(0.05, 0.95, 19), trials, rate))
    expected = np.diff(np.concatenate(([0.0], binom.cdf(edges, trials, rate), [1.0]))) * len(draws)
    observed = np.bincount(np.searchsorted(edges, draws), minlength=len(expected))
    kept = expected > 5.0
    observed, expected = np.append(observed[kept], observed[~kept].sum()), np.append(expected[kept], expected[~kept].sum() + 1e-9)
    return float(chisquare(observed, expected * (observed.sum() / expected.sum())).pvalue)


def flat(drawn: dict[str, torch.Tensor]) -> np.ndarray:
    return np.concatenate([values.numpy().reshape(-1) for values in drawn.values()])
