"""OpenDP, in a version whose samplers draw what they say."""

from __future__ import annotations

import re
from functools import cache

from dpcli.base.errors import Unavailable
from dpcli.base.extras import require

# Before it, division of rationals was wrong and the discrete samplers were biased: opendp issue 2638.
FIRST = (0, 14, 2)


@cache
def contributed() -> None:
    """Enable the samplers, once; Unavailable where OpenDP is absent or biased."""
    require("opendp")
    from importlib.metadata import version

    check_version(version("opendp"))
    from opendp.mod import enable_features

    enable_features("contrib")


def check_version(version: str) -> None:
    """Refuse versions whose samplers are known to be biased, and those that do not say which they are."""
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    if numbers < FIRST:
        raise Unavailable(f"expected opendp 0.14.2 or later, found {version}: its noise is biased; pip install -U 'dpcli[release]'")
