"""Records of a private file that are declared public, because they are held out: every k-th, the first one included."""

from __future__ import annotations

import math

from dpcli.base.errors import InputError

ROUNDING = 0.01  # a share such as 0.3333 stands for 1/3: its inverse, 3.0003, is not rounded up


def held_out_interval(share: float, key: str) -> int:
    """Return k, such that every k-th record is declared public. It is 1 / share rounded up, so that no larger share is.

    Args:
        share: the stated share of the records, above 0.
        key: the key that states the share, for the message.

    Raises:
        InputError: the share is above 1/2.
    """
    if share > 0.5:
        raise InputError(f"{key}: expected at most half of the records, found {share:g}")
    return math.ceil(1.0 / share - ROUNDING)
