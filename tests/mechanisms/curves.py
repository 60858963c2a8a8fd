"""Hockey-stick curves of losses, at negative epsilon too."""

from __future__ import annotations

import numpy as np

from dpcli.mechanisms.mechanism import Mechanism, PrivacyLoss
from tests.oracles import Array

AT: Array = np.linspace(-4.0, 4.0, 161)


def curve(loss: PrivacyLoss, at: Array = AT) -> Array:
    """delta(eps) = P(L > eps) - e^eps Q(L > eps)."""
    tails = loss.tails(at)
    found: Array = np.exp(tails.p_above) - np.exp(at + tails.q_above)
    return found


def worst(mechanism: Mechanism, at: Array = AT) -> Array:
    """The larger of the curves of a mechanism's losses."""
    found: Array = np.max([curve(loss, at) for loss in mechanism.losses()], axis=0)
    return found
