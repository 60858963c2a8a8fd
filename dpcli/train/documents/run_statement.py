"""The statement of a run, for those who will use its model: the disclosure statement, with what was really done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import ROUND_FLOOR
from typing import TYPE_CHECKING, Any

from dpcli import __version__
from dpcli.base.rounding import figures, up
from dpcli.file.pipeline.model import Disclosure
from dpcli.mechanisms.noise.correlated import CorrelatedSpec
from dpcli.sessions.documents.dry_run import rows_words
from dpcli.train.plan.sources import FUNCTION

if TYPE_CHECKING:
    from dpcli.train.plan.stages import Stage
    from dpcli.train.run.outcome import Outcome


def stated(outcome: Outcome) -> Disclosure:
    """Return the file's own answers, and the run's where the file has none."""
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


def statement(outcome: Outcome) -> str:
    """Return Markdown: the verdict on the run, then the disclosure statement of the pipeline as it was run."""
    from dpcli.disclosure.disclosed_facts import gather
    from dpcli.disclosure.documents import disclosure as disclosure_report
    from dpcli.disclosure.statement import disclosure
    from dpcli.document.formats import markdown as format_markdown

    plan = outcome.plan
    heading = "" if outcome.private else f"**NOT PRIVATE: {outcome.unprotected}.**\n\n"
    done = f"{heading}{_done(outcome)}\n\n"
    pipeline = plan.costs([(0, plan.steps), *outcome.repeated]) if outcome.repeated else plan.pipeline
    facts = gather(replace(pipeline, path=plan.path, disclosure=stated(outcome)), None, ())
    facts = replace(facts, rows=rows_words(plan))
    return done + format_markdown.render(disclosure_report.document(disclosure(facts)))


def _done(outcome: Outcome) -> str:
    plan = outcome.plan
    noises = ", then ".join(
        figures(noise, 7, ROUND_FLOOR) for noise in dict.fromkeys(stage.noise_multiplier for stage in plan.stages)
    )
    lines = [
        f"This run took {outcome.taken:,} steps with noise multiplier {noises} and clipping norm {plan.train.clipping.norm:g} "
        f"({plan.train.clipping.style}): epsilon <= {up(outcome.epsilon)} at delta = {plan.account.delta!r}.",
        f"Clipped sums: {outcome.method}. Noise: from {outcome.noise}.",
    ]
    if outcome.taken < plan.steps:
        lines.append(f"{plan.steps:,} steps were planned, and this epsilon is for all of them, whatever the reason to stop.")
    if plan.train.records_per_unit is not None:
        lines.append(
            f"At most {plan.train.records_per_unit} records of each {plan.pipeline.privacy.unit} were used; they are drawn together and "
            "clipped as one, and are one record in what follows."
        )
    if plan.train.seen_as is not None:
        lines.append(f"In each step the loss of a record was {plan.train.seen_as}; their mean gradient was clipped as one.")
    if outcome.repeated:
        lines.append(f"{outcome.repeated_steps:,} steps may have been done twice after a crash, and are counted twice.")
    own = "The model and the loss are" if plan.train.own_code else "The model is" if FUNCTION.holds(plan.train.model) else ""
    if own:
        lines.append(
            f"{own} the user's own code: that records are kept apart was checked on made-up records and on one record of a step, which "
            "does not prove it. Not checked: that the weights and buffers at the start, and whatever else the program reads besides a "
            "record (class weights, means that records are scaled by, attributes), come from public data alone; that each record was "
            "prepared by itself; what the functions of the data and the metric do."
        )
    if outcome.constants:
        lines.append(
            f"The program also reads {', '.join(outcome.constants)}: that nothing of these comes from private records is the author's word."
        )
    lines += outcome.unchecked
    if outcome.metrics:
        lines.append(f"On the data that the file declares public (not checked): {words(outcome.metrics)}.")
    return " ".join(lines)


def words(metrics: Mapping[str, float]) -> str:
    """Return metrics in a sentence."""
    return ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())
