"""Perplexity on text declared public: the public model, the ensemble in each way, differential privacy without one, and none at all."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dpcli.analysis.calibrate import calibrate
from dpcli.base.errors import CannotCertify, InputError
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.numerics.arrays import Array
from dpcli.predict.apart import Apart
from dpcli.predict.models.ngram import NGram
from dpcli.predict.models.port import LanguageModel
from dpcli.predict.models.texts import OwnedTexts, public_texts
from dpcli.predict.places import on_private
from dpcli.predict.pmixed.answer import Ensemble
from dpcli.predict.pmixed.fit import as_fitted
from dpcli.predict.pmixed.measure import Perplexity, Report, ensemble_losses, losses, perplexity
from dpcli.predict.pmixed.members import members
from dpcli.predict.pmixed.modes import PROJECTIONS, Mode, Paper, Sound
from dpcli.predict.pmixed.paper_radius import Published
from dpcli.predict.pmixed.plan import PmixedPlan
from dpcli.predict.pmixed.private_counts import by_unit, noise_multiplier, private_bigrams, typical_norm
from dpcli.predict.pmixed.shared import PublicSide, private_texts, public_side, sharded
from dpcli.predict.pmixed.tuning import cut, taught, tuning
from dpcli.random.streams import Stream, SystemStream

if TYPE_CHECKING:
    from dpcli.analysis.account import Account

AXES = ("epsilon", "steps", "shards", "rate")
TOKENS = 2_000


@dataclass(frozen=True, slots=True)
class Way:
    """One way of using the private texts.

    kind: public, sound, paper, dp or all. epsilon: of it; None where there is no guarantee. relative: its perplexity over the public
    model's, of the same resamples.
    """

    name: str
    kind: str
    epsilon: float | None
    perplexity: Perplexity
    relative: Perplexity


@dataclass(frozen=True, slots=True)
class AblationPoint:
    """The ensemble with another value of one parameter, its radius solved for so that epsilon stays; paper: the published protocol."""

    value: float
    radius: float
    sound: Perplexity
    paper: Perplexity | None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """tokens: of the test text. epsilon, delta: of the file."""

    plan: PmixedPlan
    epsilon: float
    delta: float
    tokens: int
    ways: tuple[Way, ...]
    axis: str | None = None
    points: tuple[AblationPoint, ...] = ()

    def way(self, kind: str) -> Way | None:
        return next((way for way in self.ways if way.kind == kind), None)


@dataclass(frozen=True, slots=True)
class EvaluationSetup:
    """What all ways share. records: of the test text. known: the public model's losses on them."""

    plan: PmixedPlan
    side: PublicSide
    apart: Apart
    records: tuple[tuple[int, ...], ...]
    known: list[Array]
    stream: Stream

    def measured(self, per_record: Sequence[Array]) -> tuple[Perplexity, Perplexity]:
        """The perplexity, and that over the public model's."""
        pairs = zip(per_record, self.known, strict=True)
        return perplexity(per_record, self.stream), perplexity([own - public for own, public in pairs], self.stream)


def evaluate(
    plan: PmixedPlan,
    models: Ensemble | None = None,
    axis: str | None = None,
    values: Sequence[float] = (),
    tokens: int = TOKENS,
    stream: Stream | None = None,
    report: Report = lambda done, of: None,
) -> Evaluation:
    """Measure. Everything but the public model's figure is made from private models without noise: it is private.

    Args:
        models: that were fitted; made anew where None. axis, values: an ablation: one of AXES, and what it takes.
        tokens: of the test text at most.

    Raises:
        InputError: no test text, the published protocol, an unknown axis. CannotCertify: no radius meets the file's epsilon.
    """
    plan = as_fitted(plan)
    if plan.account is None or plan.settings.test is None:
        expected = 'mode = "sound", which is compared with "paper"' if plan.account is None else "test, a text declared public"
        raise InputError(f"{plan.path}: pmixed: expected {expected}, found {'paper' if plan.account is None else 'none'}")
    if axis is not None and axis not in AXES:
        raise InputError(f"--over: expected one of {', '.join(AXES)}, found {axis!r}")
    side = public_side(plan.settings, plan.path) if models is None else models.side
    with tuning(plan, side) as apart:
        return _evaluated(plan, plan.account, side, apart, models, axis, values, tokens, stream or SystemStream(), report)


def _evaluated(
    plan: PmixedPlan,
    account: Account,
    side: PublicSide,
    apart: Apart,
    models: Ensemble | None,
    axis: str | None,
    values: Sequence[float],
    tokens: int,
    stream: Stream,
    report: Report,
) -> Evaluation:
    fitted = _members(plan, side, apart) if models is None else models.members
    records = _test(plan, side, tokens)
    setup = EvaluationSetup(plan, side, apart, records, losses(side.model, records, plan.settings.temperature), stream)
    delta = account.delta
    assert delta is not None
    claims, variants = _claims(plan, account.upper, delta), _variants(plan, axis, values, delta)
    shared = [] if axis == "shards" else variants
    modes = [*((mode, plan.spec.model_rate) for *_, mode in claims), *(mode for variant in shared for mode in variant.modes)]
    measured = iter(_measured(setup, fitted, modes, report))
    ensembles = [Way(name, kind, spent, *next(measured)) for name, kind, spent, _ in claims]
    points = tuple(_point(setup, variant, measured if shared else None, report) for variant in variants)
    ways = tuple(_ways(setup, ensembles, account.upper, delta))
    return Evaluation(plan, account.upper, delta, sum(len(record) - 1 for record in setup.records), ways, axis, points)


def _members(plan: PmixedPlan, side: PublicSide, apart: Apart) -> tuple[LanguageModel, ...]:
    found = dict(taught(apart, enumerate(cut(apart, sharded(plan, private_texts(plan))))))
    return members(plan, side, [found[shard] for shard in range(len(found))])


def _test(plan: PmixedPlan, side: PublicSide, tokens: int) -> tuple[tuple[int, ...], ...]:
    assert plan.settings.test is not None
    texts = public_texts(plan.settings.test, plan.path, "pmixed.test", plan.settings.record)
    found: list[tuple[int, ...]] = []
    whole = side.records(texts)
    side.require_known(whole)
    for record in whole:
        left = tokens - sum(len(one) - 1 for one in found)  # the first token of a record is not measured
        if len(record) > 1 and left > 0:
            found.append(tuple(record[: left + 1]))
    if not found:
        raise InputError(f"{plan.path}: pmixed.test: expected text of two tokens or more, found none")
    return tuple(found)


def _claims(plan: PmixedPlan, epsilon: float, delta: float) -> list[tuple[str, str, float | None, Mode]]:
    """The ways of an ensemble: name, kind, epsilon and mode; the file's own first."""
    names = sorted(PROJECTIONS, key=lambda name: name != plan.settings.projection)
    found: list[tuple[str, str, float | None, Mode]] = [
        (f"PMixED, {name}", "sound", epsilon, Sound(plan.spec.radius, PROJECTIONS[name])) for name in names
    ]
    published = _published(plan, epsilon, delta)
    return found if published is None else [*found, ("published protocol (no guarantee)", "paper", None, published)]


def _measured(
    setup: EvaluationSetup, fitted: Sequence[LanguageModel], modes: Sequence[tuple[Mode, float]], report: Report
) -> list[tuple[Perplexity, Perplexity]]:
    """Of each mode at its rate; all in one pass over the text."""
    heat = setup.plan.settings.temperature
    found = ensemble_losses(setup.side.model, fitted, modes, setup.records, heat, setup.stream, report)
    return [setup.measured(per_record) for per_record in found]


def _ways(setup: EvaluationSetup, ensembles: Sequence[Way], epsilon: float, delta: float) -> Iterator[Way]:
    """All ways, from the public model to no privacy."""
    side, texts = setup.side, private_texts(setup.plan)

    def of(model: LanguageModel) -> tuple[Perplexity, Perplexity]:
        return setup.measured(on_private("a fitted model", losses, model, setup.records, setup.plan.settings.temperature))

    yield Way("public model", "public", 0.0, *setup.measured(setup.known))
    yield from ensembles
    private = _alone(setup, texts, epsilon, delta)
    if private is not None:
        name = "one model, noisy counts" if isinstance(side.model, NGram) else "one model, DP-SGD"
        yield Way(name, "dp", epsilon, *of(private))
    ((_, everything),) = taught(setup.apart, enumerate(cut(setup.apart, [texts.texts])))
    (model,) = members(setup.plan, side, [everything])
    yield Way("one model, fine-tuned without privacy", "all", math.inf, *of(model))


def _alone(setup: EvaluationSetup, texts: OwnedTexts, epsilon: float, delta: float) -> LanguageModel | None:
    """One model under differential privacy, on all texts; None where nobody knows how: of a model of the user's own."""
    plan, side, grouped = setup.plan, setup.side, by_unit(texts.texts, texts.units)
    each = len(texts.texts) / len(grouped)
    if isinstance(side.model, NGram) and side.model.order > 1:
        norm = typical_norm(setup.records, side.model.vocabulary, each)
        units = [side.private_records(own) for own in grouped.values()]
        noise = noise_multiplier(epsilon, delta, plan.pipeline.privacy.adjacency)
        return side.model.with_counts((private_bigrams(units, side.model.vocabulary, norm, noise, setup.stream),))
    if plan.settings.lora is None or delta <= 0.0:
        return None
    from dpcli.predict.models.transformer import Transformer
    from dpcli.predict.pmixed.private_steps import privately_trained

    if not isinstance(side.model, Transformer):
        return None
    per_unit = math.ceil(each) if plan.settings.units is not None else 1
    (model,) = members(plan, side, [privately_trained(plan, side.model, len(texts.texts), per_unit, epsilon, delta)])
    return model


def _published(plan: PmixedPlan, epsilon: float, delta: float) -> Mode | None:
    """The published protocol for the same claim; None where it has nothing left at its order, or needs delta > 0."""
    if delta <= 0.0:
        return None
    published = Published(plan.settings.order, plan.spec.model_rate, plan.tokens, epsilon, delta)
    try:
        published.radius(1)
    except CannotCertify:
        return None
    return Paper(published)


@dataclass(frozen=True, slots=True)
class AblationCase:
    """One point of an ablation before it is measured. modes: the sound one, and the published one where it claims anything."""

    plan: PmixedPlan
    value: float
    radius: float
    modes: tuple[tuple[Mode, float], ...]


def _variants(plan: PmixedPlan, axis: str | None, values: Sequence[float], delta: float) -> list[AblationCase]:
    """The radius that meets the epsilon at each value."""
    return [] if axis is None else [_variant(*_varied(plan, axis, value), value, delta) for value in values]


def _variant(plan: PmixedPlan, epsilon: float, value: float, delta: float) -> AblationCase:
    found = calibrate(plan.pipeline, epsilon, delta, "radius", ((plan.entry.name, "radius"),), ["rdp", "pld"])
    modes: list[Mode] = [Sound(found.value, PROJECTIONS[plan.settings.projection])]
    published = _published(plan, epsilon, delta)
    if published is not None:
        modes.append(published)
    return AblationCase(plan, value, found.value, tuple((mode, plan.spec.model_rate) for mode in modes))


def _point(
    setup: EvaluationSetup, variant: AblationCase, measured: Iterator[tuple[Perplexity, Perplexity]] | None, report: Report
) -> AblationPoint:
    """measured: the perplexities of all variants' modes in order; None where the variant has models of its own."""
    if measured is None:
        measured = iter(_measured(setup, _members(variant.plan, setup.side, setup.apart), variant.modes, report))
    found = [next(measured)[0] for _ in variant.modes]
    return AblationPoint(variant.value, variant.radius, found[0], found[1] if len(found) > 1 else None)


def _varied(plan: PmixedPlan, axis: str, value: float) -> tuple[PmixedPlan, float]:
    """The plan with another value, and the epsilon to meet."""
    assert plan.account is not None
    epsilon = plan.account.upper
    if axis == "epsilon":
        return plan, value
    whole = axis in ("steps", "shards")
    if value <= 0 or (whole and value != int(value)) or (axis == "rate" and value > 1):
        raise InputError(f"--values: expected {'whole numbers' if whole else 'rates'} that {axis} may take, found {value:g}")
    if axis == "steps":
        entry = replace(plan.entry, steps=int(value))
    elif axis == "shards":
        entry = replace(plan.entry, spec=replace(plan.spec, shards=int(value)))
    else:
        entry = replace(plan.entry, spec=replace(plan.spec, model_rate=value))
    return replace(plan, entry=entry, pipeline=_with(plan.pipeline, plan.entry.name, entry)), epsilon


def _with(pipeline: Pipeline, name: str, entry: Entry) -> Pipeline:
    return replace(pipeline, mechanisms=tuple(entry if one.name == name else one for one in pipeline.mechanisms))
