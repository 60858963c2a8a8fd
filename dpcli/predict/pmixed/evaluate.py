"""Perplexity on text declared public: the public model, the ensemble in each way, differential privacy without one, and none at all."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dpcli.analysis.calibrate import calibrate
from dpcli.errors import CannotCertify, InputError
from dpcli.pipeline.model import Entry, Pipeline
from dpcli.predict.models.ngram import NGram
from dpcli.predict.models.port import LanguageModel
from dpcli.predict.models.texts import OwnedTexts, public_texts
from dpcli.predict.pmixed.answer import Ensemble
from dpcli.predict.pmixed.measure import Perplexity, Report, ensemble_losses, losses, perplexity
from dpcli.predict.pmixed.modes import PROJECTIONS, Mode, Paper, Sound
from dpcli.predict.pmixed.paper_radius import Published
from dpcli.predict.pmixed.plan import PmixedPlan
from dpcli.predict.pmixed.private_counts import by_unit, noise_multiplier, private_bigrams, typical_norm
from dpcli.predict.pmixed.shared import PublicSide, private_texts, public_side, sharded
from dpcli.train.noise.randomness import Stream, SystemStream

AXES = ("epsilon", "steps", "shards", "rate")
TOKENS = 2_000


@dataclass(frozen=True, slots=True)
class Way:
    """One way of using the private texts. kind: public, sound, paper, dp or all. epsilon: of it; None where there is no guarantee."""

    name: str
    kind: str
    epsilon: float | None
    perplexity: Perplexity


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
class Setup:
    """What all ways share. members: one model for each shard. units: the records of each unit."""

    plan: PmixedPlan
    side: PublicSide
    members: tuple[LanguageModel, ...]
    records: tuple[tuple[int, ...], ...]
    stream: Stream


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
    if plan.account is None or plan.settings.test is None:
        expected = 'mode = "sound", which is compared with "paper"' if plan.account is None else "test, a text declared public"
        raise InputError(f"{plan.path}: pmixed: expected {expected}, found {'paper' if plan.account is None else 'none'}")
    if axis is not None and axis not in AXES:
        raise InputError(f"--over: expected one of {', '.join(AXES)}, found {axis!r}")
    side = public_side(plan) if models is None else models.side
    members = tuple(_tuned(plan, side)) if models is None else models.members
    setup = Setup(plan, side, members, _test(plan, side, tokens), stream or SystemStream())
    delta = plan.account.delta
    assert delta is not None
    ways = tuple(_ways(setup, plan.account.upper, delta, report))
    points = () if axis is None else tuple(_ablation(setup, axis, values, delta, report))
    return Evaluation(plan, plan.account.upper, delta, sum(len(record) - 1 for record in setup.records), ways, axis, points)


def _tuned(plan: PmixedPlan, side: PublicSide) -> Iterator[LanguageModel]:
    for texts in sharded(plan, private_texts(plan)):
        yield side.model.tuned(side.model.tune(side.records(texts)))


def _test(plan: PmixedPlan, side: PublicSide, tokens: int) -> tuple[tuple[int, ...], ...]:
    assert plan.settings.test is not None
    texts = public_texts(plan.settings.test, plan.path, "pmixed.test", plan.settings.record)
    found: list[tuple[int, ...]] = []
    for record in side.records(texts):
        if len(record) > 1 and sum(map(len, found)) < tokens:
            found.append(tuple(record))
    if not found:
        raise InputError(f"{plan.path}: pmixed.test: expected text of two tokens or more, found none")
    return tuple(found)


def _ways(setup: Setup, epsilon: float, delta: float, report: Report) -> Iterator[Way]:
    plan, side, heat = setup.plan, setup.side, setup.plan.settings.temperature
    spec = plan.spec

    def of(model: LanguageModel) -> Perplexity:
        return perplexity(losses(model, setup.records, heat), setup.stream)

    yield Way("public model", "public", 0.0, of(side.model))
    sound = [(f"PMixED, {name}", "sound", epsilon, Sound(spec.radius, PROJECTIONS[name])) for name in _projections(plan)]
    modes: list[tuple[str, str, float | None, Mode]] = [*sound]
    published = _published(plan, epsilon, delta)
    if published is not None:
        modes.append(("published protocol (no guarantee)", "paper", None, published))
    found = ensemble_losses(
        side.model, setup.members, [(mode, spec.model_rate) for *_, mode in modes], setup.records, heat, setup.stream, report
    )
    for (name, kind, spent, _), per_record in zip(modes, found, strict=True):
        yield Way(name, kind, spent, perplexity(per_record, setup.stream))
    texts = private_texts(plan)
    private = _alone(setup, texts, epsilon, delta)
    if private is not None:
        yield Way("one model, noisy counts" if isinstance(side.model, NGram) else "one model, DP-SGD", "dp", epsilon, of(private))
    everything = side.model.tuned(side.model.tune(side.records(texts.texts)))
    yield Way("one model, fine-tuned without privacy", "all", math.inf, of(everything))


def _alone(setup: Setup, texts: OwnedTexts, epsilon: float, delta: float) -> LanguageModel | None:
    """One model under differential privacy, on all texts; None where nobody knows how: of a model of the user's own."""
    plan, side, grouped = setup.plan, setup.side, by_unit(texts.texts, texts.units)
    each = len(texts.texts) / len(grouped)
    if isinstance(side.model, NGram) and side.model.order > 1:
        norm = typical_norm(setup.records, side.model.vocabulary, each)
        units = [side.records(own) for own in grouped.values()]
        noise = noise_multiplier(epsilon, delta, plan.pipeline.privacy.adjacency)
        return side.model.with_counts((private_bigrams(units, side.model.vocabulary, norm, noise, setup.stream),))
    if plan.settings.lora is None or delta <= 0.0:
        return None
    from dpcli.predict.models.transformer import Transformer
    from dpcli.predict.pmixed.private_steps import privately_trained

    if not isinstance(side.model, Transformer):
        return None
    per_unit = math.ceil(each) if plan.settings.units is not None else 1
    return side.model.tuned(privately_trained(plan, side.model, len(texts.texts), per_unit, epsilon, delta))


def _projections(plan: PmixedPlan) -> list[str]:
    """The file's own first."""
    return sorted(PROJECTIONS, key=lambda name: name != plan.settings.projection)


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


def _ablation(setup: Setup, axis: str, values: Sequence[float], delta: float, report: Report) -> Iterator[AblationPoint]:
    assert setup.plan.account is not None
    for value in values:
        plan, epsilon = _varied(setup.plan, axis, value, setup.plan.account.upper)
        found = calibrate(plan.pipeline, epsilon, delta, "radius", ((plan.entry.name, "radius"),), ["rdp", "pld"])
        members = setup.members if axis != "shards" else tuple(_tuned(plan, setup.side))
        modes: list[tuple[Mode, float]] = [(Sound(found.value, PROJECTIONS[plan.settings.projection]), plan.spec.model_rate)]
        published = _published(plan, epsilon, delta)
        if published is not None:
            modes.append((published, plan.spec.model_rate))
        heat = plan.settings.temperature
        per_mode = ensemble_losses(setup.side.model, members, modes, setup.records, heat, setup.stream, report)
        measured = [perplexity(per_record, setup.stream) for per_record in per_mode]
        yield AblationPoint(value, found.value, measured[0], measured[1] if published is not None else None)


def _varied(plan: PmixedPlan, axis: str, value: float, epsilon: float) -> tuple[PmixedPlan, float]:
    """The plan with another value, and the epsilon to meet."""
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
