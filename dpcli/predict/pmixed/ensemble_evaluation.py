"""The perplexities that `dpcli pmixed evaluate` compares, on a text declared public.

The *perplexity* is e to the mean loss per token: smaller is better (token_losses.py). PMixED fits one model on each *shard* of the private
texts. To draw a token, it samples some of the fitted models and projects each towards a *public model*. (The *public side* is this model
with its vocabulary.) A *mode* says how (model_ensemble.py): `Sound` keeps a model within a *radius*, which limits epsilon; `Paper` is the
published protocol, which has no guarantee. Both modes are compared with the public model, with one model without privacy and, where dpcli
can train it, with one differentially private model (private_baseline.py). An *ablation* measures the ensemble at other values of one
parameter, its *axis*, and solves for the radius at each.

All perplexities but the public model's depend on the private texts, and none is charged. They are for the operator, not for release.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from dpcli.analysis.calibrate import calibrate
from dpcli.base.errors import CannotCertify, InputError
from dpcli.mechanisms.prediction.ensemble import MAX_SHARDS
from dpcli.numerics.arrays import Array, np
from dpcli.predict.models.model_answers import LanguageModel, on_private
from dpcli.predict.models.ngram import NGram
from dpcli.predict.models.texts import OwnedTexts, public_texts
from dpcli.predict.pmixed.ensemble_fit import as_fitted
from dpcli.predict.pmixed.model_ensemble import PROJECTIONS, Ensemble, Paper, Sound
from dpcli.predict.pmixed.pmixed_plan import PmixedPlan
from dpcli.predict.pmixed.private_baseline import noise_multiplier, private_bigrams, train_privately, typical_norm
from dpcli.predict.pmixed.public_side import PublicSide, public_side
from dpcli.predict.pmixed.published_protocol import Published
from dpcli.predict.pmixed.shard_models import cut_records, fitted_models, private_texts, shard_texts, teach_shards, tuning_processes
from dpcli.predict.pmixed.token_losses import Perplexity, SampledMode, ensemble_losses, losses, perplexity
from dpcli.predict.prediction_session import Report
from dpcli.predict.shard_processes import ShardProcesses
from dpcli.random.streams import Stream, SystemStream

# In this order: the public model; the ensemble with the guarantee; the published protocol; one differentially private model; one model
# without privacy.
MethodKind = Literal["public", "sound", "paper", "dp", "all"]


@dataclass(frozen=True, slots=True)
class MeasuredMethod:
    """A method of using the private texts, with its perplexity.

    Attributes:
        epsilon: Epsilon of the guarantee; None if there is no guarantee.
        relative: Ratio of its perplexity to the public model's. Its interval compares both on the same resamples of records. It is NaN if
            both models give some token of the text probability 0.
    """

    name: str
    kind: MethodKind
    epsilon: float | None
    perplexity: Perplexity
    relative: Perplexity


@dataclass(frozen=True, slots=True)
class AblationPoint:
    """The ensemble with another value of one parameter.

    Its radius is solved for, so that the ensemble meets the plan's epsilon, or the epsilon `value` if epsilon is the parameter.

    Attributes:
        sound: Perplexity of the sound ensemble.
        paper: Perplexity of the published protocol; None if the protocol has no radius at this value.
    """

    value: float
    radius: float
    sound: Perplexity
    paper: Perplexity | None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The perplexities of all methods.

    Attributes:
        epsilon, delta: Guarantee of the file.
        tokens: Number of tokens of the test text on which losses are measured.
        axis: Parameter of the ablation; None if there is no ablation.
        points: Points of the ablation, in the order of its values.
    """

    plan: PmixedPlan
    epsilon: float
    delta: float
    tokens: int
    methods: tuple[MeasuredMethod, ...]
    axis: str | None = None
    points: tuple[AblationPoint, ...] = ()

    def method(self, kind: MethodKind) -> MeasuredMethod:
        """Return the first method of a kind that every evaluation has: "public", "sound" or "all"."""
        return next(method for method in self.methods if method.kind == kind)


def evaluate(
    plan: PmixedPlan,
    models: Ensemble | None = None,
    axis: str | None = None,
    values: Sequence[float] = (),
    tokens: int = 2_000,
    stream: Stream | None = None,
    report: Report = lambda done, total: None,
) -> Evaluation:
    """Measure the perplexity of every method on the plan's test text, and of an ablation if `axis` is given.

    All perplexities except the public model's depend on the private texts, are not charged, and must stay private.

    Args:
        models: Fitted models; they are fitted here if None.
        axis, values: Parameter of an ablation ("epsilon", "steps", "shards" or "rate"), and its values.
        tokens: Largest number of tokens of the test text to use.

    Raises:
        InputError: If the file has no test text or uses the published protocol, or a value is invalid for the axis.
        CannotCertify: If no radius meets the file's epsilon, or delta is 0 and the public model is an n-gram model with contexts, whose
            private counts need a delta above 0.
    """
    plan = as_fitted(plan)  # If models were fitted, the evaluation reads the rows on which they were fitted.
    if plan.account is None:  # Only a file in the mode "paper" has no account, because its protocol certifies no epsilon.
        raise InputError(f'{plan.path}: pmixed: expected mode = "sound" (the comparison includes "paper"), found paper')
    if plan.pmixed.test is None:
        raise InputError(f"{plan.path}: pmixed: set test to a text declared public")
    epsilon, delta = plan.account.upper, plan.account.delta
    assert delta is not None
    side = public_side(plan.pmixed, plan.path) if models is None else models.side
    with tuning_processes(plan, side) as processes:
        fitted = _fit_models(plan, side, processes) if models is None else models.members
        records = _test_records(plan, side, tokens)
        public_losses = losses(side.model, records, plan.pmixed.temperature)
        measurer = Measurer(plan, side, processes, records, public_losses, stream or SystemStream(), epsilon, delta, report)
        return measurer.measure_all(fitted, axis, values)


def _fit_models(plan: PmixedPlan, side: PublicSide, processes: ShardProcesses) -> tuple[LanguageModel, ...]:
    """Fit the models of the plan's shards, and return them."""
    records = cut_records(processes, shard_texts(plan, private_texts(plan)))
    learnt_by_shard = dict(teach_shards(processes, enumerate(records)))
    return fitted_models(plan, side, [learnt_by_shard[shard] for shard in range(len(records))])


def _test_records(plan: PmixedPlan, side: PublicSide, tokens: int) -> tuple[tuple[int, ...], ...]:
    """Return the records of the test text, up to `tokens` tokens. The first token of a record is not counted, because it has no loss."""
    assert plan.pmixed.test is not None
    records = side.public_records(public_texts(plan.pmixed.test, plan.path, "pmixed.test", plan.pmixed.record))
    tested: list[tuple[int, ...]] = []
    remaining = tokens
    for record in records:
        if len(record) > 1 and remaining > 0:
            tested.append(tuple(record[: remaining + 1]))
            remaining -= len(tested[-1]) - 1
    if not tested:
        raise InputError(f"{plan.path}: pmixed.test: expected a text of two tokens or more")
    return tuple(tested)


class EnsembleMethod(NamedTuple):
    """A method of drawing tokens from an ensemble. epsilon: epsilon of its guarantee; None if there is none."""

    name: str
    kind: MethodKind
    epsilon: float | None
    mode: SampledMode


class AblationCase(NamedTuple):
    """A point of an ablation before it is measured. published: None if the published protocol has no radius at this value."""

    plan: PmixedPlan
    value: float
    radius: float
    sound: SampledMode
    published: SampledMode | None

    @property
    def modes(self) -> list[SampledMode]:
        """Return the modes that are measured."""
        return [self.sound] if self.published is None else [self.sound, self.published]


@dataclass(frozen=True, slots=True)
class Measurer:
    """Measures the losses of models on the test text of one plan.

    The loss of a token is -log of its probability, and a record's first token has none.

    Attributes:
        processes: Processes in which models learn from private texts (shard_models.py).
        records: Records of the test text, as tokens.
        public_losses: Losses of the public model on these records.
        stream: Random numbers for the draws of models, the noisy counts and the intervals.
        epsilon, delta: Guarantee of the file, at which the methods are compared.
    """

    plan: PmixedPlan
    side: PublicSide
    processes: ShardProcesses
    records: tuple[tuple[int, ...], ...]
    public_losses: list[Array]
    stream: Stream
    epsilon: float
    delta: float
    report: Report

    def measure_all(self, fitted: Sequence[LanguageModel], axis: str | None, values: Sequence[float]) -> Evaluation:
        """Measure all methods, and the ablation.

        The fitted models are evaluated in one pass over the text, for all methods and points together. Only in an ablation over the number
        of shards does each point have its own models, and its own pass.
        """
        methods = self._ensemble_methods()
        cases = [] if axis is None else [self._ablation_case(axis, value) for value in values]
        each_case_has_models = axis == "shards"
        modes = [method.mode for method in methods]
        if not each_case_has_models:
            modes += [mode for case in cases for mode in case.modes]
        losses_by_mode = self._losses_by_mode(fitted, modes)
        ensembles = [self._measured_method(name, kind, epsilon, losses_by_mode[mode]) for name, kind, epsilon, mode in methods]
        points = []
        for case in cases:
            if each_case_has_models:
                losses_by_mode = self._losses_by_mode(_fit_models(case.plan, self.side, self.processes), case.modes)
            sound = perplexity(losses_by_mode[case.sound], self.stream)
            published = None if case.published is None else perplexity(losses_by_mode[case.published], self.stream)
            points.append(AblationPoint(case.value, case.radius, sound, published))
        tokens = sum(len(record) - 1 for record in self.records)
        all_methods = tuple(self._all_methods(ensembles))
        return Evaluation(self.plan, self.epsilon, self.delta, tokens=tokens, methods=all_methods, axis=axis, points=tuple(points))

    def _ensemble_methods(self) -> list[EnsembleMethod]:
        """Return the methods of drawing tokens from the ensemble of the file: its own projection first, the published protocol last."""
        own_first = sorted(PROJECTIONS, key=lambda name: name != self.plan.pmixed.projection)
        methods = [
            EnsembleMethod(f"PMixED, {name}", "sound", self.epsilon, _sound_mode(self.plan, self.plan.spec.radius, name))
            for name in own_first
        ]
        published = _published_mode(self.plan, self.epsilon, self.delta)
        if published is not None:
            methods.append(EnsembleMethod("published protocol (no guarantee)", "paper", epsilon=None, mode=published))
        return methods

    def _ablation_case(self, axis: str, value: float) -> AblationCase:
        """Return a point of the ablation, with the radius that meets its epsilon."""
        plan = _varied_plan(self.plan, axis, value)
        epsilon = value if axis == "epsilon" else self.epsilon
        radius = calibrate(plan.pipeline, epsilon, self.delta, "radius", targets=((plan.entry.name, "radius"),)).value
        sound = _sound_mode(plan, radius, plan.pmixed.projection)
        return AblationCase(plan, value, radius, sound, _published_mode(plan, epsilon, self.delta))

    def _losses_by_mode(self, fitted: Sequence[LanguageModel], modes: Sequence[SampledMode]) -> dict[SampledMode, list[Array]]:
        """Return the losses of each mode on each record, in one pass over the text. Equal modes are measured once."""
        distinct_modes, temperature = list(dict.fromkeys(modes)), self.plan.pmixed.temperature
        by_mode = ensemble_losses(self.side.model, fitted, distinct_modes, self.records, temperature, self.stream, self.report)
        return dict(zip(distinct_modes, by_mode, strict=True))

    def _measured_method(
        self, name: str, kind: MethodKind, epsilon: float | None, losses_by_record: Sequence[Array]
    ) -> MeasuredMethod:
        """Return a method with its perplexity, from its losses on each record."""
        # If both models give a token probability 0, both losses are infinite, and their difference is NaN.
        with np.errstate(invalid="ignore"):
            # e to the mean difference of two losses is the ratio of the two perplexities.
            relative = [own - public for own, public in zip(losses_by_record, self.public_losses, strict=True)]
            perplexities = perplexity(losses_by_record, self.stream), perplexity(relative, self.stream)
        return MeasuredMethod(name, kind, epsilon, *perplexities)

    def _all_methods(self, ensembles: Sequence[MeasuredMethod]) -> Iterator[MeasuredMethod]:
        """Yield all methods, from the public model to the model without privacy."""
        texts = private_texts(self.plan)
        # The public model reads no private text, so its epsilon is 0.
        yield self._measured_method("public model", "public", epsilon=0.0, losses_by_record=self.public_losses)
        yield from ensembles
        private = self._private_model(texts)
        if private is not None:
            name = "one model, noisy counts" if isinstance(self.side.model, NGram) else "one model, DP-SGD"
            yield self._measured_method(name, "dp", self.epsilon, self._fitted_losses(private))
        all_records = cut_records(self.processes, [texts.texts])  # one shard, which has all texts
        ((_, learnt),) = teach_shards(self.processes, enumerate(all_records))
        (model,) = fitted_models(self.plan, self.side, [learnt])
        yield self._measured_method("one model, fine-tuned without privacy", "all", math.inf, self._fitted_losses(model))

    def _fitted_losses(self, model: LanguageModel) -> list[Array]:
        """Return the losses of a fitted model on each record. Raises InputError, without the original message, if the model fails."""
        by_record: list[Array] = on_private("a fitted model", losses, model, self.records, self.plan.pmixed.temperature)
        return by_record

    def _private_model(self, texts: OwnedTexts) -> LanguageModel | None:
        """Return one model that is trained on all texts under differential privacy.

        The result is None if dpcli has no private training for the model. It has one for n-gram models, by noisy counts of pairs of tokens,
        and for the adapter (`lora`) of a transformer, by DP-SGD with Gaussian noise, which needs a delta above 0.
        """
        plan, model, grouped = self.plan, self.side.model, texts.by_unit()
        texts_per_unit = len(texts.texts) / len(grouped)
        if isinstance(model, NGram) and model.order > 1:  # A model of order 1 uses no context, so no pairs of tokens.
            norm = typical_norm(self.records, model.vocabulary, texts_per_unit)
            units = [self.side.private_records(unit) for unit in grouped.values()]
            noise = noise_multiplier(self.epsilon, self.delta, plan.pipeline.privacy.adjacency)
            return model.with_counts((private_bigrams(units, model.vocabulary, norm, noise, self.stream),))
        if plan.pmixed.lora is None or self.delta <= 0.0:
            return None
        from dpcli.predict.models.transformer import Transformer

        if not isinstance(model, Transformer):
            return None
        # The mean number, rounded up. Further texts of a unit are not used.
        per_unit = math.ceil(texts_per_unit) if plan.pmixed.units is not None else 1
        learnt = train_privately(plan, len(texts.texts), per_unit, self.epsilon, self.delta)
        (private,) = fitted_models(plan, self.side, [learnt])
        return private


def _sound_mode(plan: PmixedPlan, radius: float, projection: str) -> SampledMode:
    """Return the sound mode of the plan with a radius and the projection of this name (a key of `PROJECTIONS`)."""
    return SampledMode(Sound(radius, PROJECTIONS[projection]), plan.spec.model_rate)


def _published_mode(plan: PmixedPlan, epsilon: float, delta: float) -> SampledMode | None:
    """Return the mode of the published protocol for this epsilon and delta.

    The result is None if the protocol has no radius: at delta = 0, or if the conversion from the plan's Renyi order to delta alone costs
    more than epsilon, so nothing is left to spend on queries. An evaluation then leaves the protocol out instead of failing.
    """
    if delta <= 0.0:
        return None
    published = Published(plan.pmixed.order, rate=plan.spec.model_rate, queries=plan.tokens, epsilon=epsilon, delta=delta)
    try:
        published.radius(drawn=1)  # The error does not depend on the number of drawn models.
    except CannotCertify:
        return None
    return SampledMode(Paper(published), plan.spec.model_rate)


def _varied_plan(plan: PmixedPlan, axis: str, value: float) -> PmixedPlan:
    """Return the plan with another value of a parameter.

    "steps" is the number of tokens that are drawn, "shards" the number of models, and "rate" the probability with which each is sampled.
    For "epsilon" the plan stays as it is: no entry states an epsilon, and the caller solves for the radius that meets it.
    """
    if axis == "epsilon":
        return plan
    expected, is_valid = {
        "steps": ("whole numbers >= 1", value >= 1 and value == int(value)),
        "shards": (f"whole numbers from 1 to {MAX_SHARDS}", 1 <= value <= MAX_SHARDS and value == int(value)),
        "rate": ("numbers in (0, 1]", 0 < value <= 1),
    }[axis]
    if not is_valid:
        raise InputError(f"--values: expected {expected} for {axis}, found {value:g}")
    if axis == "steps":
        return plan.with_entry(replace(plan.entry, steps=int(value)))
    spec = replace(plan.spec, shards=int(value)) if axis == "shards" else replace(plan.spec, model_rate=value)
    return plan.with_entry(replace(plan.entry, spec=spec))
