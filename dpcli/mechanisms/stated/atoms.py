"""A dominating pair with finitely many outcomes."""

from __future__ import annotations

import math
from typing import ClassVar

from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.contour.tilted_closed import TiltedAtoms
from dpcli.numerics.logspace import log_sum
from dpcli.numerics.quadrature import log_bernoulli
from dpcli.numerics.tails import Tails, atom_tails


@dataclass(frozen=True, slots=True)
class AtomicLoss:
    """Outcomes of probability e^{log_reference} under Q and likelihood ratio e^{log_ratio}."""

    decays: ClassVar[bool] = False

    log_reference: tuple[float, ...]
    log_ratio: tuple[float, ...]

    def cgf(self, z: Array) -> Array:
        """log(1 + E_Q[B_{z+1}(r - 1)]): a sum of non-negative terms, so that a small K keeps its digits."""
        return atomic_cgf(z, np.array(self.log_reference)[None, :], np.array(self.log_ratio)[None, :])

    def tilted(self, t: float) -> TiltedAtoms:
        """The same atoms and, with what mass they leave, the outcomes of ratio 1."""
        reference, ratio = self._complete()
        return TiltedAtoms(reference + (t + 1.0) * ratio, ratio, float(self.cgf(np.array([t]))[0]))

    def tails(self, at: Array) -> Tails:
        """The same atoms, in order."""
        reference, ratio = self._complete()
        order = np.argsort(ratio, kind="stable")
        return atom_tails(at, ratio[order], (reference + ratio)[order], reference[order])

    def _complete(self) -> tuple[Array, Array]:
        """log Q and log r with the outcomes of ratio 1 added."""
        rest = max(-math.expm1(math.log(math.fsum(map(math.exp, self.log_reference)))), 1e-300)
        return np.array([*self.log_reference, math.log(rest)]), np.array([*self.log_ratio, 0.0])


def atomic_cgf(z: Array, log_reference: Array, log_ratio: Array) -> Array:
    """`AtomicLoss.cgf` for outcomes that may differ from order to order: arrays of shape (1 or len(z), outcomes)."""
    return np.asarray(np.logaddexp(0.0, log_sum(log_bernoulli(z[:, None], log_ratio) + log_reference)) * (1.0 + 1e-13))
