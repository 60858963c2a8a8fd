"""An odometer: a bound on what was spent so far that holds at every moment, also at one that is chosen from the outputs.

`dpcli budget show --odometer` prints it. In the proofs approx-dp, advanced, rdp, zcdp and gdp are the filters of currencies.py, which add
up the costs of runs against a cap, and *slack* is the part of delta that advanced uses up. All but approx-dp call the functions below.

The statement. Let delta be the ledger's, and u the number at a moment, from the costs that are charged by then. For each pair of
neighbouring datasets D and D' there is an event G, the same for all moments, whose probability on D is at least 1 - delta. Stop by any rule
that looks at the outputs, and let A be any set of outputs at which u is at most x, a number that was fixed beforehand. Then "A and G" is at
most e^x times as likely on D as A is on D', so that P(A) <= e^x P'(A) + delta.

The proof, for the currencies that bound Renyi divergences (rdp, zcdp, gdp):

1. Fix D, D', the rule by which runs are chosen from outputs, and an order a = 1 + z > 1. The loss L of the outputs so far is the logarithm
   of their likelihood ratio P/P'. It is the sum of the losses of the runs, because each run draws noise of its own.
2. Of one run with the answers h so far, let V(h) be the largest mean of (P/P')^z of its answers to come, on D and over all ways to ask on.
   V(h) is at least 1, because one may ask nothing. At the beginning it is at most e^(z r), where r is the Renyi divergence of the run at
   the order a. So W(h) = (P/P')(h)^z V(h) does not grow in the mean with an answer.
3. Let M be the product of W(h) e^(-z r) over all runs that gave an answer. An answer changes the factor of its own run alone, whichever
   runs overlap, and a new run begins with a factor of at most 1. So M is a supermartingale that begins at 1, and e^(z (L - R)) <= M, where
   R is the sum of r. The R of the ledger is at least this one. It charges a run in full before its first answer, and voids only runs that
   gave none.
4. The mean of M over several orders is a supermartingale too, if the orders and their weights do not depend on any output. By Ville's
   inequality (1939) it ever reaches 1/delta with probability at most delta. G is the event that it never does. On G the mean of
   e^(z (L - R)) over the orders is below 1/delta at every moment, so that L is below u, the number at which this mean is 1/delta.
5. The divergence of a run with rho-zCDP is at most a rho, and that of a mu-GDP run is at most that of its Gaussian pair, a mu^2 / 2.

The proof, for costs (epsilon, delta) of runs (approx-dp, advanced):

6. Such a run computes its answers from one draw of randomised response at epsilon, which fails, and shows the dataset, with probability
   delta (Kairouz, Oh, Viswanath 2015, arXiv:1311.0776; for interactive runs Vadhan & Zhang 2022, arXiv:2207.08335). On each path the deltas
   of the runs sum to at most their cap, which never changes. So the probability that any run fails is at most this cap.
7. approx-dp: without a failure L is at most the sum of the epsilons. G is the event that no run fails, and the cap is delta.
8. advanced: without a failure the divergence of a draw is at most a epsilon^2 / 2. Steps 1 to 4 hold for the draws with slack instead of
   delta, and the cap is delta - slack.

If a dataset is cut into blocks, a unit loses only by runs that read a block with its records. Their costs for the whole unit sum to at most
m^k times the spending of the fullest block (dpcli.ledger.blocks.family, steps 4 to 6), and each is known before its run begins.

If no cost has a delta, G is the event that L never exceeds u: the odometer bounds the loss itself. That is more than the cap says, so u may
exceed the epsilon of the cap. If a cost has a delta, L may exceed u with a probability above delta, and only the statement holds. No step
uses the cap on epsilon, so the odometer holds even if this cap was raised after outputs.

The r of a run is fixed when it begins, whenever it is charged. So a correction of its price restores the bound, even if outputs led to the
correction; until then the R of the ledger is too low. If a history is imported, its runs were seen before the opening: step 4 then needs
that delta, and the order or the slack, were not chosen from their outputs.

Source: Rogers et al. 2016, arXiv:1605.08294 (odometers); Whitehouse et al. 2023, arXiv:2203.05481 (mixtures of orders); Haney et al. 2023,
arXiv:2309.05901 (runs that overlap).
"""

from __future__ import annotations

import math

from dpcli.ledger.filters.filter import largest_within

# The orders of the mixture, less 1, of equal weight. Soundness needs that they are constants, so that nothing that was seen can choose
# them. Which orders they are affects only accuracy. The best order of an epsilon of 0.01 at delta = 1e-10 is near 4,600, that of an
# epsilon of 100 at 1e-6 near 1.5.
ORDERS_ABOVE_ONE = tuple(2.0**k for k in range(-2, 13))
# Factors for the rounding errors of the two functions below, so that their results stay upper bounds.
ONE_ORDER_ROUNDED_UP, MIXTURE_ROUNDED_UP = 1.0 + 1e-14, 1.0 + 1e-12


def loss_at_one_order(above_one: float, divergence: float, delta: float) -> float:
    """Return an upper bound on the loss at every moment, except with probability `delta`, from the divergence at one order."""
    return (divergence - math.log(delta) / above_one) * ONE_ORDER_ROUNDED_UP if divergence else 0.0


def loss_at_any_moment(rho: float, delta: float) -> float:
    """Return an upper bound on the loss at every moment, except with probability `delta`, of runs whose rho sum to `rho` by then.

    It is the loss at which the mean of e^(z (loss - (1 + z) rho)) over `ORDERS_ABOVE_ONE` is 1 / delta, rounded up; inf if rho is.
    """
    log_sum = math.log(len(ORDERS_ABOVE_ONE)) - math.log(delta)
    if rho == 0.0:
        return 0.0
    divergences = [(z, (1.0 + z) * rho) for z in ORDERS_ABOVE_ONE]
    high = min(divergence + log_sum / z for z, divergence in divergences)  # one order alone reaches 1 / delta here
    if math.isinf(high):
        return high

    def not_reached(loss: float) -> bool:
        return math.fsum(math.exp(min(z * (loss - divergence) - log_sum, 0.0)) for z, divergence in divergences) < 1.0

    return largest_within(not_reached, high) * MIXTURE_ROUNDED_UP
