"""What a run knows about itself, as answers of the disclosure statement, where its file has none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpcli import __version__
from dpcli.file.pipeline.model import Disclosure
from dpcli.mechanisms.noise.correlated import CorrelatedSpec

if TYPE_CHECKING:
    from dpcli.train.plan.stages import Stage
    from dpcli.train.run.outcome import Outcome


def stated(outcome: Outcome) -> Disclosure:
    """The file's own answers, and beside them the run's."""
    own = outcome.plan.pipeline.disclosure
    known: dict[str, Any] = {
        "implementation": f"dpcli {__version__} on torch; clipped sums by {outcome.method}",
        "randomness": f"the noise is drawn from {outcome.noise}; batches from the operating system; no seed exists and nothing is saved"
        if outcome.private
        else f"NOT PRIVATE: {outcome.unprotected}",
        "floating_point": (
            "sums in single precision over micro-batches and in double precision over these, with noise that is larger by a bound on "
            "the rounding; noise is in single precision, so that its last bits are not protected (Mironov 2012)"
        ),
        "clipping": _clipping(outcome),
        "sampler": "; ".join(dict.fromkeys(_sampler(stage) for stage in outcome.plan.stages)) + ", as the accountant assumes",
        "privacy_model": "central",
        "query_model": "one-release",
        "utility": _utility(outcome.metrics),
        "verification": "before the first step the per-record gradients of a few records were compared with those taken one at a time",
    }
    return replace(own, **{name: value for name, value in known.items() if value is not None and getattr(own, name) is None})


def _clipping(outcome: Outcome) -> str:
    chosen = outcome.plan.train
    one = (
        "record"
        if chosen.records_per_unit is None
        else f"unit (the mean loss over at most {chosen.records_per_unit} of its records)"
    )
    seen = "" if chosen.seen_as is None else f", of each record {chosen.seen_as},"
    words = f"the gradient of each {one}{seen} to L2 norm {chosen.clipping.norm:g} ({chosen.clipping.style})"
    if chosen.clipping.split is not None:
        words += f", its parts each for itself: {chosen.clipping.split}"
    if chosen.clipping.count_noise is not None:
        words += (
            f" at the start; it then follows a quantile by a count with noise {chosen.clipping.count_noise:g}, which the noise "
            "multiplier pays for: the gradients' own noise is larger than it"
        )
    owned = outcome.plan.pipeline.privacy.max_contributions or 1
    return words + (f"; of each unit at most {owned} records were used" if owned > 1 else "")


def _sampler(stage: Stage) -> str:
    if isinstance(stage.spec, CorrelatedSpec):
        return f"{stage.entry.name}: batches in an order drawn for each run"
    scheme = "every step sees every record" if stage.entry.sampling is None else stage.entry.sampling.scheme
    return f"{stage.entry.name}: {scheme}, drawn by dpcli itself"


def _utility(metrics: Mapping[str, float]) -> str | None:
    return ", ".join(f"{name} {value:.4f}" for name, value in metrics.items()) + " on the data declared public" if metrics else None
