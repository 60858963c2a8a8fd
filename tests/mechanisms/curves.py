"""Hockey-stick curves of privacy losses, delta(epsilon) from the tails that a loss returns.

Half of the epsilons in `AT` are negative: the curve of a pair (P, Q) at -epsilon follows from that of (Q, P) at epsilon, so that one curve
shows both directions.
"""

from __future__ import annotations

import numpy as np

from dpcli.mechanisms.mechanism import Mechanism, PrivacyLoss
from tests.oracles import Array

AT: Array = np.linspace(-4.0, 4.0, 161)


def curve(loss: PrivacyLoss, at: Array = AT) -> Array:
    """Return delta(eps) = P(L > eps) - e^eps Q(L > eps)."""
    tails = loss.tails(at)
    return np.asarray(np.exp(tails.p_above) - np.exp(at + tails.q_above))


def worst(mechanism: Mechanism, at: Array = AT) -> Array:
    """Return the larger of the curves of a mechanism's losses, one for each direction."""
    return np.asarray(np.max([curve(loss, at) for loss in mechanism.losses()], axis=0))
