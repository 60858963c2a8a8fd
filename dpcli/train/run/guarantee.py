"""What a run guarantees, as values that a machine reads: every word beside the epsilon that it means nothing without."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from dpcli.file.pipeline.datasets import window_data
from dpcli.train.plan.plan import Portion, TrainingPlan


def guarantee(plan: TrainingPlan, repeated: Collection[Portion], private: bool) -> dict[str, Any]:
    """Of a run that has ended. epsilon: an upper bound, unrounded; None where the noise was not private, which guarantees nothing.

    repeated: portions that may have been done twice, and are counted twice.
    """
    privacy, found = plan.pipeline.privacy, plan.account_with(repeated)
    assert found.winner is not None  # or there were no plan
    return {
        "private": private,
        "epsilon": found.upper if private else None,
        "delta": float(found.delta),
        "unit": privacy.unit or "record",
        "adjacency": privacy.adjacency.value,
        "max_contributions": privacy.max_contributions,
        "records_per_unit": plan.train.records_per_unit,
        "dataset_size": privacy.dataset_size,
        "releases": privacy.releases,
        "accountant": found.winner.accountant.name,
        "tuning": plan.train.covers.tuning,
        **window_data(privacy),
        **plan.row_data,
    }
