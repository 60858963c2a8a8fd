"""Private selection (the best of a random number K of runs) by its definition, as an independent check of dpcli's bounds.

`TRIALS` are distributions of K for tests of mechanisms and of sweeps. `selected` gives the distribution of the best of K draws.
"""

from __future__ import annotations

import math

import numpy as np

from dpcli.mechanisms.choice.trial_numbers import BinomialTrials, NegativeBinomial, PoissonTrials

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
    """Return f(x) = E[x^K], from the definitions."""
    if isinstance(trials, PoissonTrials):
        return np.exp(trials.mean * (x - 1.0))
    if isinstance(trials, BinomialTrials):
        return (1.0 + trials.mean / trials.most * (x - 1.0)) ** trials.most
    inside = 1.0 - (1.0 - trials.gamma) * x
    if trials.eta == 0.0:
        return np.log(inside) / math.log(trials.gamma)
    return (inside**-trials.eta - 1.0) / (trials.gamma**-trials.eta - 1.0)


def selected(trials: Counts, one: np.ndarray) -> np.ndarray:
    """Return the probabilities of the best of K draws from `one`, whose outcomes are ordered from the worst. The first is for K = 0."""
    below = np.concatenate(([0.0], np.cumsum(one)))
    below[-1] = 1.0
    return np.concatenate(([generating(trials, np.zeros(1))[0]], np.diff(generating(trials, below))))


def delta(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(max(np.maximum(a - math.exp(epsilon) * b, 0.0).sum() for a, b in ((p, q), (q, p))))


def worst_order(trials: Counts, mu: float, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the masses of N(mu, 1) and N(0, 1) in cells of the line, ordered from the worst outcome of a run to the best.

    Larger numbers are worse, except that a cell of a large loss is moved to the place in the order where it costs most at `epsilon`.
    """
    from scipy.stats import norm

    edges = np.linspace(-9.0, 9.0 + mu, 8001)
    ends = np.concatenate(([-np.inf], edges[1:], [np.inf]))
    p, q = (
        np.where(edges < shift, np.diff(norm.cdf(ends - shift)), -np.diff(norm.sf(ends - shift))) for shift in (mu, 0.0)
    )  # each from the tail that keeps its digits
    cuts = edges[::20]
    rates = [np.exp(-trials.depth(norm.cdf(cuts - shift))) for shift in (mu, 0.0)]
    place = edges.copy()
    for cell in np.flatnonzero(np.log(p / q) > epsilon - float(np.log(rates[0] / rates[1]).max())):
        gain = rates[0] - math.exp(epsilon) * q[cell] / p[cell] * rates[1]
        if gain.max() > 0.0:
            place[cell] = cuts[gain.argmax()]
    order = np.argsort(-place, kind="stable")
    return p[order], q[order]
