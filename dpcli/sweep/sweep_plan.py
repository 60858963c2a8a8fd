"""The plan of `dpcli sweep`, which is made before the first run, and the results of a sweep.

`plan_sweep` reads the [sweep] table of a pipeline file. A *setting* is one choice of the varied keys (setting.py); a *variant* is a setting
at one epsilon, with the text of its own pipeline file. Documents call a variant a point. In a file, "calibrate" stands for noise that is
solved for, here from the variant's epsilon (file/pipeline/placeholders.py). A variant's certified epsilon is an upper bound, and is at most
the epsilon that [sweep] states.

The plan of a run (train/plan/plan.py) has an `account` of its privacy cost, and its training in *stages*: steps in a row that one
[[mechanism]] entry accounts for. With public tuning, epsilon covers one run and not the search. A *private search* draws a random number of
trials and releases only the best; its theorem needs that the variants and the distribution of trials are fixed in advance, so no plan may
depend on a result.

A finished run is reused only if its fingerprint, which covers everything that it depends on, is the same. A *window* restricts the runs to
some blocks (such as days) of a dataset in a ledger, which charges each block separately; its *rows* are the data in these
blocks (sessions/window.py calls `on_blocks` and `on_rows`).
"""

from __future__ import annotations

import json
import math
import os
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from dpcli.base.errors import CannotCertify, InputError
from dpcli.file.pipeline.placeholders import find_calibrate
from dpcli.file.pipeline.read import refuse
from dpcli.file.toml.findings import Findings
from dpcli.file.toml.limits import read_bytes
from dpcli.file.toml.shown import shown
from dpcli.file.toml.write import toml_text
from dpcli.sessions.priced import fingerprint
from dpcli.sweep.setting import Setting, settings_of, with_value
from dpcli.sweep.sweep_settings import REPEATS, Sweep, read_sweep
from dpcli.train.plan.plan import TrainingPlan, plan_of, require_last_iterate
from dpcli.train.plan.settings import read_train

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline
    from dpcli.ledger.blocks.rows import RowWindow
    from dpcli.mechanisms.choice.trial_numbers import Trials
    from dpcli.train.plan.settings import Train


Better = Literal["higher", "lower"]

# The tables that are copied from the file of the sweep to the file of a run.
RUN_TABLES = ("format", "name", "privacy", "budget", "mechanism", "train", "disclosure")


def better_of(sweep: Sweep, train: Train, findings: Findings) -> Better | None:
    """Return which values of the metric are better. Add a finding if `sweep.better` is missing or wrong; the file is then refused."""
    # The task says what it measures, and which values are better. A custom task leaves both to the user.
    metric, better = train.measures or ("", sweep.better)
    if better is None:
        expected = '"higher" or "lower" with task = "custom", for the better values of its metric'
        findings.add("DP005", ("sweep", "better"), expected, "nothing")
    elif sweep.better not in (None, better):
        findings.add("DP005", ("sweep", "better"), f'"{better}", because the task measures {metric}', shown(sweep.better))
        return None
    return better


def rank(better: Better, value: float) -> float:
    """Return a number that is larger for better values of the metric. NaN is the worst value."""
    if math.isnan(value):
        return -math.inf
    return -value if better == "lower" else value


@dataclass(frozen=True, slots=True)
class Variant:
    """A setting of the sweep at one epsilon.

    Attributes:
        text: Text of the variant's pipeline file, with calibrated noise.
        plan: Plan of that file, as dpcli train reads it.
        fingerprint: SHA-256 of everything that the run depends on.
        window: Blocks that the run reads, if the text does not state them.
    """

    epsilon: float
    setting: Setting
    text: str
    plan: TrainingPlan
    fingerprint: str
    window: tuple[str, ...] = ()

    @property
    def noise_multipliers(self) -> tuple[float, ...]:
        """Return the different noise multipliers of the entries that training performs."""
        return tuple(dict.fromkeys(stage.noise_multiplier for stage in self.plan.stages))

    def on_blocks(self, window: tuple[str, ...]) -> Variant:
        """Return the variant restricted to blocks of the dataset that its file does not name."""
        return replace(self, plan=self.plan.on_blocks(window), fingerprint=fingerprint([self.fingerprint, *window]), window=window)

    def on_rows(self, rows: RowWindow | None) -> Variant:
        """Return the variant on some rows of its private data; all rows if `rows` is None. Finished runs on other rows are not reused."""
        if rows is None:
            return self
        return replace(self, plan=self.plan.on_rows(rows), fingerprint=fingerprint([self.fingerprint, rows.content()]))


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """The runs of a sweep.

    Attributes:
        folder: Absolute path of the folder of the runs.
        variants: Runs, ordered by epsilon and then by setting.
        trials: Distribution of the number of runs of a private search; None if tuning is public.
        better: Whether higher or lower values of the metric are better.
    """

    path: str
    sweep: Sweep
    folder: str
    variants: tuple[Variant, ...]
    trials: Trials | None
    better: Better

    @property
    def first(self) -> TrainingPlan:
        """Return the plan of the first variant, for what all variants share: the data, the unit, the adjacency and delta."""
        return self.variants[0].plan

    @property
    def pipeline(self) -> Pipeline:
        return self.first.pipeline

    def on_blocks(self, window: tuple[str, ...]) -> SweepPlan:
        """Return the plan on some blocks of the dataset. Finished runs on other blocks are not reused."""
        return replace(self, variants=tuple(variant.on_blocks(window) for variant in self.variants))

    @property
    def rows(self) -> RowWindow | None:
        """Return the rows of the private data that are read; None if all rows are."""
        return self.first.rows

    @property
    def private_file(self) -> str | None:
        """Return the file of private data that all runs read as a table; None if there is no single such file."""
        files = {variant.plan.private_file for variant in self.variants}
        return files.pop() if len(files) == 1 else None

    @property
    def bounded(self) -> tuple[str, str] | None:
        """Return the key that names the column of owners, and that column, if the runs bound an owner's records; None otherwise."""
        return self.first.bounded

    def on_rows(self, rows: RowWindow | None) -> SweepPlan:
        """Return the plan restricted to rows of the private data."""
        return replace(self, variants=tuple(variant.on_rows(rows) for variant in self.variants))

    @property
    def repeats(self) -> int:
        return self.sweep.repeats or REPEATS

    @property
    def name(self) -> str:
        return name_of(self.first)


def plan_sweep(path: str) -> SweepPlan:
    """Return the plan of a file.

    Raises:
        InputError: The file is invalid, or cannot be used for a sweep.
        CannotCertify: No noise meets one of the epsilons.
    """
    from dpcli.sweep.sweep_trials import trials_of

    data = read_bytes(path)
    train = read_train(data, path)
    sweep, tables, text = read_sweep(data, path)
    findings = Findings()
    settings, better = settings_of(sweep, tables, findings), better_of(sweep, train, findings)
    refuse(findings, tables, text, path)
    assert better is not None
    if train.public is None:
        raise InputError(f"{path}: train.public: name data declared public, on which the runs of a sweep are compared")
    calibration = _Calibration(path, _base_tables(tables, path), {})
    variants: list[Variant] = []
    for epsilon in sweep.epsilon:
        variants += [calibration.variant(epsilon, setting) for setting in settings if setting.is_for(epsilon)]
    trials = trials_of(path, sweep.tuning == "repeat-and-select", [variant.plan for variant in variants])
    folder = sweep.output or os.path.join("runs", f"{name_of(variants[0].plan)}-sweep")
    return SweepPlan(path, sweep, os.path.abspath(folder), tuple(variants), trials, better)


def name_of(plan: TrainingPlan) -> str:
    """Return the name of the pipeline, or the name of its file if the pipeline has none."""
    stem = os.path.splitext(os.path.basename(plan.path))[0]
    return plan.pipeline.name or ("stdin" if plan.path == "-" else stem)


class _SolvedTables(NamedTuple):
    """Tables with numbers in place of "calibrate", and their plan."""

    tables: Mapping[str, Any]
    plan: TrainingPlan


@dataclass(frozen=True, slots=True)
class _Calibration:
    """The calibration of settings. Settings that differ only in [train] are calibrated once.

    `base` are the tables that all runs share. `results` are kept by the tables on which the noise depends, as JSON text.
    """

    path: str
    base: Mapping[str, Any]
    results: dict[str, _SolvedTables]

    def variant(self, epsilon: float, setting: Setting) -> Variant:
        """Return the variant of a setting at epsilon. Raises CannotCertify if no noise meets epsilon."""
        tables = {**setting.applied(self.base), "budget": {"epsilon": epsilon}}
        key = json.dumps([tables[name] for name in ("budget", "privacy", "mechanism")], sort_keys=True)
        if key not in self.results:
            self.results[key] = self.solve(tables, epsilon, setting)
        solved = self.results[key]
        tables = {**tables, "mechanism": solved.tables["mechanism"]}
        text = toml_text({name: tables[name] for name in RUN_TABLES if name in tables})
        plan = replace(solved.plan, train=read_train(text.encode(), self.path))
        # The cost of some entries holds only if no model but the last is seen. `plan_of` checked that for the [train] of the setting that
        # was solved first; here it may be another.
        require_last_iterate([stage.entry for stage in plan.first_stages], plan.train, plan.pipeline, self.path)
        return Variant(epsilon, setting, text, plan, fingerprint([text, plan.parts()]))  # parts: digests of the run's code and data

    def solve(self, tables: Mapping[str, Any], epsilon: float, setting: Setting) -> _SolvedTables:
        """Return the tables with noise that meets epsilon. Raises CannotCertify if there is none."""
        try:
            plan = plan_of(self.path, toml_text(tables).encode())  # replaces each "calibrate" by a number
        except CannotCertify as problem:
            raise CannotCertify(f"epsilon {epsilon!r}, {setting.label}: {problem}") from None
        for index, key in find_calibrate(tables):
            entry = plan.pipeline.mechanisms[index]
            tables = with_value(tables, ("mechanism", index, *key.split(".")), getattr(entry.spec, key))
        if not plan.account.upper <= epsilon:  # a check of the solver, whose result must be on the safe side
            raise CannotCertify(
                f"{self.path}: epsilon {epsilon!r}: found a certified epsilon of {plan.account.upper!r} after calibration"
            )
        return _SolvedTables(tables, plan)


def _base_tables(tables: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    """Return the tables that all runs share, with "calibrate" in place of the noise.

    If the file says nowhere "calibrate", the noise of the only entry that training performs is calibrated. With several such entries, the
    file has to say which ones are.
    """
    delta = tables.get("budget", {}).get("delta")
    if delta is not None and delta != tables["privacy"].get("delta"):
        raise InputError(
            f"{path}: budget.delta: expected the value of privacy.delta, at which a sweep computes every epsilon, found {delta!r}"
        )
    base = {name: tables[name] for name in RUN_TABLES if name in tables and name != "budget"}
    base["train"] = {key: value for key, value in tables["train"].items() if key != "output"}  # each run gets its own folder
    if find_calibrate(base):
        return base
    names = {stage.entry.name for stage in plan_of(path, toml_text(base).encode()).stages}
    if len(names) != 1:
        raise InputError(f'{path}: set noise_multiplier = "calibrate" in the entries whose noise the sweep must calibrate')
    (index,) = (i for i, entry in enumerate(base["mechanism"]) if entry["name"] in names)
    base_with_placeholder: Mapping[str, Any] = with_value(base, ("mechanism", index, "noise_multiplier"), "calibrate")
    return base_with_placeholder


@dataclass(frozen=True, slots=True)
class MeasuredVariant:
    """The finished runs of one variant. They are one row in the table of results.

    Attributes:
        values: Values of the metric, one for each run that succeeded.
        failures: Messages of the failed runs.
    """

    variant: Variant
    values: tuple[float, ...]
    failures: tuple[str, ...] = ()

    @property
    def median(self) -> float:
        return self._statistic(statistics.median)

    @property
    def lowest(self) -> float:
        return self._statistic(min)

    @property
    def highest(self) -> float:
        return self._statistic(max)

    def _statistic(self, function: Callable[[tuple[float, ...]], float]) -> float:
        """Return the function of the values; NaN if there are none or one is NaN, whose place in an order is arbitrary."""
        return function(self.values) if self.values and not any(map(math.isnan, self.values)) else math.nan

    @property
    def runs(self) -> int:
        return len(self.values) + len(self.failures)


@dataclass(frozen=True, slots=True)
class MeasuredSweep:
    """The result of a sweep.

    Attributes:
        metric: Name of the metric; "" if no run has ended, as in the JSON document.
        measured: Runs of each variant, in the order of the plan's variants.
    """

    plan: SweepPlan
    metric: str
    measured: tuple[MeasuredVariant, ...]

    @property
    def best(self) -> tuple[MeasuredVariant, ...]:
        """Return the variant with the best median for each epsilon with a completed run. Among equal variants, the first is returned."""
        best = []
        for epsilon in self.plan.sweep.epsilon:
            ended = [measured for measured in self.measured if measured.variant.epsilon == epsilon and measured.values]
            if ended:
                best.append(max(ended, key=lambda measured: rank(self.plan.better, measured.median)))
        return tuple(best)

    @property
    def failures(self) -> tuple[tuple[Variant, str], ...]:
        return tuple((measured.variant, failure) for measured in self.measured for failure in measured.failures)


@dataclass(frozen=True, slots=True)
class PrivateSelection:
    """The result of a private search.

    Attributes:
        metric, value, variant: Metric of the best trial, its value, and the trial's variant. All are None if a trial failed, or if the
            number of trials was drawn as 0.
        folder: Folder of the best trial, or else of the search.
        failures: Messages of failed trials.
    """

    plan: SweepPlan
    metric: str | None
    value: float | None
    variant: Variant | None
    folder: str
    failures: tuple[str, ...] = ()
