"""Few and weak steps: the exact accountant with and without one big jump, side by side. Medians of five, caches emptied; CPU time.

    python -m tests.benchmarks.weak [--without]

Without --without the other column is left out: it takes minutes.
"""

from __future__ import annotations

import statistics
import sys
import time
from contextlib import nullcontext
from unittest import mock

from dpcli.accountants.base import Bound
from dpcli.accountants.exact import ExactProfile
from dpcli.base.errors import NotRepresentable
from dpcli.mechanisms.noise.gaussian_spec import SampledGaussian
from dpcli.numerics.work import limited
from tests.benchmarks.settings import WEAK, Setting

RUNS = 5


@limited
def _asked(setting: Setting) -> Bound | str:
    steps = tuple((SampledGaussian(1.0 / noise, rate), count) for rate, noise, count in setting.phases)
    try:
        return ExactProfile(steps).epsilon(setting.delta)
    except NotRepresentable as error:
        return str(error)


def row(setting: Setting) -> tuple[str, str, float]:
    """(epsilon, relative width, median milliseconds)."""
    times = []
    for _ in range(RUNS):
        start = time.process_time()
        found = _asked(setting)
        times.append(1e3 * (time.process_time() - start))
        if times[-1] > 2e3:
            break
    if isinstance(found, str) or found.lower is None:
        return "refused", "", statistics.median(times)
    return f"{found.upper:.10g}", f"{(found.upper - found.lower) / found.upper:.0e}", statistics.median(times)


def main(words: list[str]) -> None:
    """Print the table."""
    ways = (True, False) if "--without" in words else (True,)
    for setting in WEAK:
        cells = []
        for way in ways:
            with nullcontext() if way else mock.patch("dpcli.numerics.contour.certified.cuttable", return_value=False):
                cells.append("{:>16} {:>6} {:9.1f} ms".format(*row(setting)))
        sys.stdout.write(f"{setting.text:48} " + "   without: ".join(cells) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
