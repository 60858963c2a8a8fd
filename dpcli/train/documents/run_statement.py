"""The privacy statement of a run (statement.md in its folder), for the users of its model.

run/results.py calls `statement` when the run ends. The statement begins with what the run did (`_performed_sentences`) and what was not
checked (`_unchecked_sentences`). The disclosure statement of the training file follows (dpcli/disclosure). The table [disclosure] of the
file answers questions about the release, and the run adds the answers that the file leaves open (`disclosed`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import ROUND_FLOOR
from typing import TYPE_CHECKING, Any

from dpcli import __version__
from dpcli.base.rounding import figures
from dpcli.file.pipeline.model import Disclosure
from dpcli.mechanisms.noise.correlated import CorrelatedSpec
from dpcli.mechanisms.noise.last_iterate import LastIterateSpec
from dpcli.mechanisms.sampling.schemes import Poisson
from dpcli.sessions.documents.dry_run import rows_words
from dpcli.train.plan.sources import FUNCTION

if TYPE_CHECKING:
    from dpcli.train.plan.stages import Stage
    from dpcli.train.run.outcome import Outcome


FLOATING_POINT = (
    "the precision of the weights, but at least single, in the sum of each micro-batch, and double precision in the sum of the "
    "micro-batches; the noise is enlarged by a bound on the rounding; it is drawn and added in double precision, and the noisy sum is "
    "rounded to a grid of 2^-32 standard deviations, so that no bit of the sum is left without noise (Mironov 2012)"
)
VERIFICATION = "before the first step, per-record gradients of a few records were compared with gradients computed one at a time"


def disclosed(outcome: Outcome) -> Disclosure:
    """Return the file's [disclosure] table, with missing answers completed from the run."""
    stated = outcome.plan.pipeline.disclosure
    samplers = dict.fromkeys(_sampler(stage) for stage in outcome.plan.stages)
    answers: dict[str, Any] = {
        "implementation": f"dpcli {__version__} on torch; clipped sums by {outcome.method}",
        "randomness": _randomness(outcome),
        "floating_point": FLOATING_POINT,
        "clipping": _clipping(outcome),
        "sampler": f"{'; '.join(samplers)}, as the accountant assumes",
        "privacy_model": "central",
        "query_model": "one-release",
        "utility": f"{metrics_words(outcome.metrics)} on the data declared public" if outcome.metrics else None,
        "verification": VERIFICATION,
    }
    missing = {name: value for name, value in answers.items() if value is not None and getattr(stated, name) is None}
    return replace(stated, **missing)


def _randomness(outcome: Outcome) -> str:
    """Return the sources of the random numbers in words."""
    if not outcome.private:
        return f"NOT PRIVATE: {outcome.unprotected}"
    return (
        f"the noise is drawn from {outcome.noise}; batches are drawn from the operating system's random numbers; no seed exists and "
        "nothing is saved"
    )


def _clipping(outcome: Outcome) -> str:
    """Return the clipping in words. With augmentation, the loss of a record is a mean over *views*, changed copies of it."""
    train, clipping = outcome.plan.train, outcome.plan.train.clipping
    clipped_unit = "record"
    if train.records_per_unit is not None:
        clipped_unit = f"unit (the mean loss over at most {train.records_per_unit} of its records)"
    views = "" if train.loss_over_views is None else f", of each record {train.loss_over_views},"
    sentence = f"the gradient of each {clipped_unit}{views} to L2 norm {clipping.norm:g} ({clipping.style})"
    if clipping.split is not None:
        sentence += f", each part separately: {clipping.split}"
    if clipping.count_noise is not None:
        sentence += (
            f" at the start; the norm then follows a quantile, by a count with noise {clipping.count_noise:g}; the noise multiplier "
            "covers the count as well, so the noise of the gradients is larger than it states"
        )
    most = outcome.plan.pipeline.privacy.max_contributions or 1
    return sentence + (f"; of each unit at most {most} records were used" if most > 1 else "")


def _sampler(stage: Stage) -> str:
    """Return the sampling of a stage in words."""
    if isinstance(stage.spec, CorrelatedSpec):
        is_sampled = isinstance(stage.entry.sampling, Poisson)
        batches = f"Poisson samples of {stage.spec.min_separation} groups in turn" if is_sampled else "batches in an order"
        return f"{stage.entry.name}: {batches}, drawn for each run"
    if isinstance(stage.spec, LastIterateSpec) and (stage.spec.batches > 1 or stage.spec.drawn is not None):
        # `drawn`: the scheme by which each step draws its batch; None for fixed batches.
        batches = stage.spec.drawn or f"{stage.spec.batches} batches in turn, in which each record has a place for the whole run"
        return f"{stage.entry.name}: {batches}, drawn by dpcli itself"
    scheme = "every step uses every record" if stage.entry.sampling is None else stage.entry.sampling.scheme
    return f"{stage.entry.name}: {scheme}, drawn by dpcli itself"


def statement(outcome: Outcome) -> str:
    """Return the statement in Markdown."""
    from dpcli.disclosure.disclosed_facts import gather
    from dpcli.disclosure.documents import disclosure as disclosure_report
    from dpcli.disclosure.statement import disclosure
    from dpcli.document.formats import markdown as format_markdown

    plan = outcome.plan
    heading = "" if outcome.private else f"**NOT PRIVATE: {outcome.unprotected}.**\n\n"
    # Steps that may have been taken twice count twice.
    pipeline = plan.costs([(0, plan.steps), *outcome.repeated]) if outcome.repeated else plan.pipeline
    facts = gather(replace(pipeline, path=plan.path, disclosure=disclosed(outcome)))  # the account of the file, and its meaning
    facts = replace(facts, rows=rows_words(plan))
    report = format_markdown.render(disclosure_report.document(disclosure(facts)))
    sentences = " ".join([*_performed_sentences(outcome), *_unchecked_sentences(outcome)])
    return f"{heading}{sentences}\n\n{report}"


def _performed_sentences(outcome: Outcome) -> list[str]:
    """Return sentences about the steps of the run and their guarantee."""
    plan = outcome.plan
    noise_multipliers = dict.fromkeys(stage.noise_multiplier for stage in plan.stages)
    # Rounded down, so that the statement claims no more noise than there was.
    noise = ", then ".join(figures(noise_multiplier, 7, ROUND_FLOOR) for noise_multiplier in noise_multipliers)
    lines = [
        f"This run took {outcome.taken:,} steps with noise multiplier {noise} and "
        f"clipping norm {plan.train.clipping.norm:g} ({plan.train.clipping.style}): {outcome.guarantee}.",
        f"Clipped sums: {outcome.method}. Noise: from {outcome.noise}.",
    ]
    if outcome.taken < plan.steps:
        lines.append(f"{plan.steps:,} steps were planned. This epsilon covers all of them, whatever the reason to stop.")
    if plan.final_only:  # the mechanism last-iterate
        lines.append(
            "The epsilon is that of the last model alone. No other model was measured or shown. The state for --resume held one, and was "
            "removed at the end of the run: whoever has a copy of it has seen more than this epsilon covers."
        )
    if plan.train.records_per_unit is not None:
        lines.append(
            f"At most {plan.train.records_per_unit} records of each {plan.pipeline.privacy.unit} were used. They are drawn together and "
            "clipped as one. The text below calls them one record."
        )
    if plan.train.loss_over_views is not None:
        lines.append(
            f"In each step, the loss of a record was {plan.train.loss_over_views}. The mean gradient of the views was clipped."
        )
    if outcome.repeated:
        lines.append(f"{outcome.repeated_steps:,} steps may have been taken twice after a crash, and are counted twice.")
    return lines


def _unchecked_sentences(outcome: Outcome) -> list[str]:
    """Return sentences on assumptions of the guarantee that were not checked, and on the metrics."""
    train, lines = outcome.plan.train, []
    own_code = ""
    if train.own_code:
        own_code = "The model and the loss are"
    elif FUNCTION.holds(train.model):  # module:function
        own_code = "The model is"
    if own_code:
        lines.append(
            f"{own_code} the user's own code. The code must not combine records. This was checked on synthetic records and on one record "
            "of each step, which is no proof. Three assumptions were not checked: (1) the initial weights and buffers come from public "
            "data alone, and so does everything else that the program reads besides a record, such as class weights, attributes, or means "
            "by which records are scaled; (2) each record was prepared independently of the others; (3) the functions that return the data "
            "and the metric reveal nothing about the records."
        )
    if outcome.constants:
        lines.append(
            f"The program also reads {', '.join(outcome.constants)}. Its author vouches that none of these comes from private records."
        )
    lines += outcome.unchecked
    if outcome.metrics:
        lines.append(f"On the data that the file declares public (not checked): {metrics_words(outcome.metrics)}.")
    return lines


def metrics_words(metrics: Mapping[str, float]) -> str:
    """Return metrics in words, separated by commas."""
    return ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())
