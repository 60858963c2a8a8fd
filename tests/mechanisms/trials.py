"""How often a run is repeated, and what the best of that many draws is distributed as."""

from __future__ import annotations

import math

import numpy as np

from dpcli.mechanisms.choice.repeat_and_select import BinomialTrials, NegativeBinomial, PoissonTrials

NEGATIVE_BINOMIALS = [
    NegativeBinomial(1.0, 0.1),
    NegativeBinomial(0.0, 0.05),
    NegativeBinomial(0.5, 0.02),
    NegativeBinomial(-0.5, 0.01),
]
Counts = NegativeBinomial | PoissonTrials | BinomialTrials
TRIALS: list[Counts] = [
    *NEGATIVE_BINOMIALS,
    NegativeBinomial(3.0, 0.3),
    PoissonTrials(0.3),
    PoissonTrials(1.0),
    PoissonTrials(10.0),
    BinomialTrials(4, 2.0),
    BinomialTrials(20, 10.0),
]


def generating(trials: Counts, x: np.ndarray) -> np.ndarray:
    """f(x) = E[x^K], from the definitions."""
    if isinstance(trials, PoissonTrials):
        return np.exp(trials.mean * (x - 1.0))
    if isinstance(trials, BinomialTrials):
        return (1.0 + trials.mean / trials.most * (x - 1.0)) ** trials.most
    inside = 1.0 - (1.0 - trials.gamma) * x
    if trials.eta == 0.0:
        return np.log(inside) / math.log(trials.gamma)
    return (inside**-trials.eta - 1.0) / (trials.gamma**-trials.eta - 1.0)


def selected(trials: Counts, one: np.ndarray) -> np.ndarray:
    """Distribution of the best of K draws from `one` (ordered, worst first); first entry: K = 0."""
    below = np.concatenate(([0.0], np.cumsum(one)))
    below[-1] = 1.0
    return np.concatenate(([generating(trials, np.zeros(1))[0]], np.diff(generating(trials, below))))
