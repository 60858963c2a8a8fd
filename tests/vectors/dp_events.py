"""Writes dp_events.json: DpEvents as dp-accounting makes them, with the epsilons of its own accountants.

python tests/vectors/dp_events.py > tests/vectors/dp_events.json    # where dp-accounting 0.6 is installed
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from typing import Any

DELTA = 1e-5
RELATIONS = ("ADD_OR_REMOVE_ONE", "REPLACE_ONE", "REPLACE_SPECIAL")


def events(d: Any) -> Iterator[Any]:
    """Return an event of each class that an accountant prices, and typical trees of events."""
    gaussian, laplace = d.GaussianDpEvent, d.LaplaceDpEvent
    yield gaussian(2.0)
    yield d.SelfComposedDpEvent(gaussian(4.5), 20)
    yield laplace(1.5)
    yield d.SelfComposedDpEvent(laplace(25.0), 12)
    yield d.DiscreteLaplaceDpEvent(0.3, 2)
    yield d.DiscreteLaplaceDpEvent(0.07, 1)
    yield d.RandomizedResponseDpEvent(0.4, 2)
    yield d.RandomizedResponseDpEvent(0.75, 10)
    yield d.ZCDpEvent(0.02)
    yield d.SelfComposedDpEvent(d.ZCDpEvent(0.001), 30)
    yield d.MixtureOfGaussiansDpEvent(3.0, [0.0, 1.0, 2.0], [0.5, 0.25, 0.25])
    yield d.SingleEpochTreeAggregationDpEvent(6.0, 100)
    yield d.SingleEpochTreeAggregationDpEvent(6.0, [31])
    yield d.PoissonSampledDpEvent(0.01, gaussian(1.1))
    yield d.SelfComposedDpEvent(d.PoissonSampledDpEvent(256 / 60000, gaussian(1.12)), 14063)
    yield d.SelfComposedDpEvent(d.PoissonSampledDpEvent(0.1, laplace(4.0)), 5)
    yield d.SelfComposedDpEvent(d.PoissonSampledDpEvent(0.02, d.ComposedDpEvent([gaussian(2.0), gaussian(3.0)])), 100)
    yield d.SampledWithoutReplacementDpEvent(1000, 50, gaussian(3.0))
    yield d.SelfComposedDpEvent(d.SampledWithoutReplacementDpEvent(5000, 100, gaussian(2.5)), 40)
    yield d.TruncatedSubsampledGaussianDpEvent(10000, 0.01, 250, 1.2)
    yield d.ComposedDpEvent([gaussian(5.0), laplace(9.0), d.NoOpDpEvent()])
    yield d.ComposedDpEvent([d.SelfComposedDpEvent(d.PoissonSampledDpEvent(0.05, gaussian(s)), 10) for s in (1.5, 2.0, 3.0)])
    yield d.SelfComposedDpEvent(d.ComposedDpEvent([gaussian(8.0), gaussian(12.0)]), 7)
    yield d.RepeatAndSelectDpEvent(gaussian(5.0), 10.0, 1.0)
    yield d.RepeatAndSelectDpEvent(gaussian(5.0), 8.0, math.inf)
    yield d.RepeatAndSelectDpEvent(d.SelfComposedDpEvent(d.PoissonSampledDpEvent(0.02, gaussian(1.5)), 50), 4.0, 0.5)


def plain(value: Any) -> Any:
    """Return a named tuple of the package as a table with the names of its class and fields."""
    if hasattr(value, "_fields"):
        own = {name: plain(getattr(value, name)) for name in value._fields if name not in ("module_name", "class_name")}
        return {"type": value.class_name, **own}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return "inf" if value == math.inf else value


def main() -> None:
    import dp_accounting
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    d = dp_accounting.dp_event
    found = []
    for event in events(d):
        asked = {}
        for relation in RELATIONS:
            for name, kind in (("pld", PLDAccountant), ("rdp", RdpAccountant)):
                accountant = kind(neighboring_relation=NeighboringRelation[relation])
                if accountant.supports(event):
                    asked.setdefault(relation, {})[name] = float(accountant.compose(event).get_epsilon(DELTA))
        found.append({"event": plain(event.to_named_tuple()), "epsilon": asked})
    json.dump({"about": __doc__, "made by": "dp-accounting 0.6.0", "delta": DELTA, "cases": found}, sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
