"""Tree aggregation: the noise of prefix sums of which each is a sum of few noisy nodes of a binary tree over the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcli.numerics.arrays import np
from dpcli.train.noise.step import Correlated

if TYPE_CHECKING:
    from dpcli.random.streams import Reals


class Tree(Correlated):
    """Every complete node of the tree is its sum plus a fresh Gaussian; a prefix is estimated from the nodes below it.

    A node's own value and the estimates of its two children are weighted by their precision: with variances 1 and 2 v its estimate has
    v' = 2 v / (2 v + 1), and its own value the weight v'. A prefix is the sum of the estimates of the nodes in its binary digits, and the
    noise of a step the difference of two prefixes. At most one node for each level is kept.

    Source: Kairouz et al. 2021, arXiv:2103.00039, Algorithm 1 and Appendix B (estimates from below, after Honaker 2015).
    """

    __slots__ = ("_nodes", "_prefix")

    def restart(self, size: int) -> None:
        self._nodes: list[Reals] = []
        self._prefix = np.zeros(size)

    def step(self, number: int) -> Reals:
        """Step t completes a node on each level up to the number of trailing zeros of t."""
        node, variance = self.fresh(len(self._prefix)), 1.0
        while number % 2 == 0:
            number //= 2
            variance = 2.0 * variance / (2.0 * variance + 1.0)
            node = variance * self.fresh(len(node)) + (1.0 - variance) * (self._nodes.pop() + node)
        self._nodes.append(node)
        prefix = np.sum(self._nodes, axis=0)
        noise: Reals = prefix - self._prefix
        self._prefix = prefix
        return noise
