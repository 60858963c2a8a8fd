"""dpcli: compose, calibrate and gate the privacy loss of differentially private pipelines.

>>> import dpcli
>>> pipeline = dpcli.load("examples/mnist.toml")            # doctest: +SKIP
>>> dpcli.account(pipeline, accountants=["rdp"]).epsilon    # doctest: +SKIP
2.5966419...
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers take it as True; importing `typing` here would slow down the start of every command
if TYPE_CHECKING:
    from typing import Any

    from dpcli.analysis.account import Account, account
    from dpcli.analysis.calibrate import Calibration, calibrate
    from dpcli.analysis.epsilon import Epsilons, epsilon
    from dpcli.exchange.events.dp_event import from_dp_event, to_dp_event
    from dpcli.federated.round import Round
    from dpcli.federated.rounds import Rounds, rounds
    from dpcli.file.pipeline.model import Pipeline
    from dpcli.file.pipeline.read import load
    from dpcli.ledger.budget import DatasetBudget, ReservedRun, budget
    from dpcli.release.table_release import PlannedRelease, ReleasedAnswers, plan_release, release
    from dpcli.train.loop.private import Private, PrivateBatch, PrivateResult, private
    from dpcli.train.loop.transformers_trainer import PrivateTrainer
    from dpcli.train.trained.loading import load_model
    from dpcli.train.trained.trained_model import TrainedModel
    from dpcli.train.watch.watch import Watch, watch

__version__ = "0.1.0"
__all__ = [
    "Account",
    "Calibration",
    "DatasetBudget",
    "Epsilons",
    "Pipeline",
    "PlannedRelease",
    "Private",
    "PrivateBatch",
    "PrivateResult",
    "PrivateTrainer",
    "ReleasedAnswers",
    "ReservedRun",
    "Round",
    "Rounds",
    "TrainedModel",
    "Watch",
    "__version__",
    "account",
    "budget",
    "calibrate",
    "epsilon",
    "from_dp_event",
    "load",
    "load_model",
    "plan_release",
    "private",
    "release",
    "rounds",
    "to_dp_event",
    "watch",
]

_HOME = {  # the place of each public object, as "package.module:name"
    "Account": "dpcli.analysis.account:Account",
    "account": "dpcli.analysis.account:account",
    "Calibration": "dpcli.analysis.calibrate:Calibration",
    "calibrate": "dpcli.analysis.calibrate:calibrate",
    "Epsilons": "dpcli.analysis.epsilon:Epsilons",
    "epsilon": "dpcli.analysis.epsilon:epsilon",
    "from_dp_event": "dpcli.exchange.events.dp_event:from_dp_event",
    "to_dp_event": "dpcli.exchange.events.dp_event:to_dp_event",
    "Round": "dpcli.federated.round:Round",
    "Rounds": "dpcli.federated.rounds:Rounds",
    "rounds": "dpcli.federated.rounds:rounds",
    "DatasetBudget": "dpcli.ledger.budget:DatasetBudget",
    "ReservedRun": "dpcli.ledger.budget:ReservedRun",
    "budget": "dpcli.ledger.budget:budget",
    "Pipeline": "dpcli.file.pipeline.model:Pipeline",
    "load": "dpcli.file.pipeline.read:load",
    "PlannedRelease": "dpcli.release.table_release:PlannedRelease",
    "plan_release": "dpcli.release.table_release:plan_release",
    "ReleasedAnswers": "dpcli.release.table_release:ReleasedAnswers",
    "release": "dpcli.release:PACKAGE",  # Python binds this name to the package in the folder release, which can be called itself
    "Private": "dpcli.train.loop.private:Private",
    "PrivateBatch": "dpcli.train.loop.private:PrivateBatch",
    "PrivateResult": "dpcli.train.loop.private:PrivateResult",
    "private": "dpcli.train.loop.private:private",
    "PrivateTrainer": "dpcli.train.loop.transformers_trainer:PrivateTrainer",
    "Watch": "dpcli.train.watch.watch:Watch",
    "watch": "dpcli.train.watch.watch:watch",
    "TrainedModel": "dpcli.train.trained.trained_model:TrainedModel",
    "load_model": "dpcli.train.trained.loading:load_model",
}


def __getattr__(name: str) -> Any:
    """Return an object of the public API. Its module is imported when the object is first used."""
    if name not in _HOME:
        raise AttributeError(f"module 'dpcli' has no attribute {name!r}")
    from dpcli.base.lazy import load as resolve  # `load` is a public name of this module

    return resolve(_HOME[name])


def __dir__() -> list[str]:
    return __all__
