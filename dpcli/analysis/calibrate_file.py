"""Calibration of a file or of flags, the text of the file with the answer, and a comparison with the classical formula.

`dpcli calibrate` and `dpcli calibrate-sigma` call this module. It decides what is solved for, and calibrate.py searches. The *targets* are
pairs (mechanism, key): the keys with the value "calibrate", or the parameter that a flag names. If there are several, *weights* in the file
say how they share the cost. The *goal* is an epsilon, another quantity (goals.py), or every cap of the file's budget. `solved_text` writes
the answer into the file and keeps its comments. It must not change a number that another entry, a [[mechanism]] table, reads too.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dpcli.analysis.budget_verdict import total_rho, without_rounding
from dpcli.analysis.calibrate import BoundByValue, Calibration, ValuedBound, calibrate, calibration_of
from dpcli.analysis.goals import Goal, RhoGoal
from dpcli.analysis.solved_keys import SOLVED_KEYS, Parameter, Target, missing_parameter, noise_divisors, parameter_key, solvable
from dpcli.base.errors import InputError, NotRepresentable
from dpcli.base.values import dataclass
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.read import examine, parse, targets, weights
from dpcli.file.pipeline.resolve import resolve
from dpcli.file.pipeline.section import refuse_contradicted
from dpcli.file.pipeline.series import plain_entries, written_paths
from dpcli.file.toml.findings import InvalidFile, Path
from dpcli.file.toml.limits import read_bytes
from dpcli.file.toml.shown import first_names, quoted
from dpcli.file.toml.syntax import tables_of, text_of
from dpcli.file.toml.write import edited
from dpcli.numerics.closed.normal import PROVED_BELOW, classical_sigma, gaussian_epsilon_upper
from dpcli.numerics.work import SEARCH, limited_to


@limited_to(SEARCH)
def calibrate_goal(
    pipeline: Pipeline,
    goal: Goal,
    solve: Parameter = "noise",
    targets: Sequence[Target] | None = None,
    group_size: int = 1,
    weights: Mapping[str, float] | None = None,
) -> Calibration:
    """Return the cheapest value whose upper bound on the goal's quantity meets the goal.

    The arguments other than `goal` are those of `calibrate`.

    Raises InputError if there is no candidate to solve for, or there are several, and CannotCertify if no value meets the goal.
    """

    def measure(candidate: Pipeline, _: float) -> ValuedBound:
        result = goal.measure(candidate, group_size)
        return ValuedBound(result.upper, result.accountant)

    solved_targets = solvable(pipeline, targets, solve)
    # Weights are shares of epsilon at delta 0 (`pure`), and otherwise of rho. No goal has delta 0.
    bounds = BoundByValue(measure, pipeline, solved_targets, noise_divisors(solved_targets, weights, pure=False))
    return calibration_of(bounds, goal.target, solve, group_size, quantity=goal.quantity, wording=goal.wording)


def calibrate_file(
    path: str,
    solve: str = "noise",
    target_epsilon: float | None = None,
    delta: float | None = None,
    mechanisms: Sequence[str] = (),
    accountants: Sequence[str] | None = None,
    group_size: int = 1,
    data: bytes | None = None,
    goal: Goal | None = None,
) -> Calibration:
    """Solve for one parameter of the file at `path`, or for every noise key with the value "calibrate".

    goal: the target. With a goal, target_epsilon, delta and accountants have no effect.
    target_epsilon: the target without a goal. If neither is given, all caps of the file's budget are met.
    solve, delta, accountants, group_size: as for `calibrate`.
    mechanisms: names of the mechanisms to solve for; if empty, those with the value "calibrate", else the only candidate.
    data: content of the file; if None, it is read from `path`.

    Raises:
        InputError, CannotCertify: as for `calibrate`.
        InvalidFile: the file has problems.
    """
    text = read_bytes(path) if data is None else data
    marked = targets(text, path)  # the keys with the value "calibrate"
    pipeline = _pipeline_to_solve(text, path, marked, solve) if marked else parse(text, path)
    parameter: Parameter = solve  # type: ignore[assignment]  # other words are refused
    chosen = _chosen_targets(pipeline, parameter, marked, mechanisms)
    weight_of = weights(text, path) if marked else {}
    if goal is not None:
        return calibrate_goal(pipeline, goal, parameter, chosen, group_size, weight_of)
    if target_epsilon is not None:
        return calibrate(pipeline, target_epsilon, delta, parameter, chosen, accountants, group_size, weights=weight_of)
    return _calibrate_to_budget(pipeline, delta, parameter, chosen, accountants, group_size, weight_of)


def _pipeline_to_solve(text: bytes, path: str, marked: Sequence[Target], solve: str) -> Pipeline:
    """Return the pipeline of a file with "calibrate", in which placeholders replace this word. Raises InputError if it cannot be solved."""
    _require_noise_keys(path, marked, solve)
    pipeline, diagnostics = examine(text, path)
    if pipeline is None or diagnostics:
        raise InvalidFile(diagnostics)
    _require_falling_cost(pipeline, marked)
    return pipeline


def _chosen_targets(
    pipeline: Pipeline, solve: Parameter, marked: tuple[Target, ...], mechanisms: Sequence[str]
) -> tuple[Target, ...] | None:
    """Return the targets in the named mechanisms; without names, those with "calibrate", or None if there are none.

    Raises InputError if a mechanism cannot be solved for, or if another one has the value "calibrate".
    """
    if not mechanisms:
        return marked or None
    key_of = dict(marked)
    chosen = tuple((name, key_of[name]) if name in key_of else _target_in(pipeline, name, solve) for name in mechanisms)
    unsolved = [name for name, _ in marked if name not in mechanisms]
    if unsolved:
        raise InputError(f'--mechanism: expected numbers in the other mechanisms, found "calibrate" in {first_names(unsolved)}')
    return chosen


def _calibrate_to_budget(
    pipeline: Pipeline,
    delta: float | None,
    solve: Parameter,
    targets: Sequence[Target] | None,
    accountants: Sequence[str] | None,
    group_size: int,
    weights: Mapping[str, float],
) -> Calibration:
    """Return the cheapest value that meets the whole budget: the answer for epsilon if its rho is allowed, else the answer for rho."""
    budget = pipeline.budget
    if budget is None:
        raise InputError(f"{pipeline.path}: expected --target-epsilon or a [budget] in the file, found neither")
    if budget.epsilon is not None:
        cap_delta = budget.delta if delta is None else delta
        # A section such as [federated] must agree with the final answer only, so the sections are left out at first.
        without_sections = replace(pipeline, sections=())
        result = calibrate(without_sections, budget.epsilon, cap_delta, solve, targets, accountants, group_size, weights=weights)
        if budget.rho is None or without_rounding(total_rho(resolve(result.pipeline, group_size)).value, budget.rho) <= budget.rho:
            solved = replace(result.pipeline, sections=pipeline.sections)
            refuse_contradicted(solved)
            return replace(result, pipeline=solved)
    assert budget.rho is not None  # a [budget] has a cap on epsilon or on rho
    return calibrate_goal(pipeline, RhoGoal(budget.rho), solve, targets, group_size, weights)


def _require_noise_keys(path: str, marked: Sequence[Target], solve: str) -> None:
    """Raise InputError if a key other than a noise has the value "calibrate", or if another parameter is solved for."""
    if solve != "noise":
        name, key = marked[0]
        raise InputError(f'{path}: expected numbers with --solve {solve}, found {key} = "calibrate" in "{name}"')
    for name, key in marked:
        if key not in SOLVED_KEYS:
            advice = "state a number"
            if key == "radius":
                advice += "; dpcli pmixed account FILE --solve radius then finds the largest radius that the budget allows"
            known = ", ".join(SOLVED_KEYS)
            raise InputError(f'{path}: expected "calibrate" for {known} only, found it for {key} in "{name}": {advice}')


def _require_falling_cost(pipeline: Pipeline, marked: Sequence[Target]) -> None:
    """Raise InputError if a mechanism has two keys to solve for, or if its cost may rise with more noise (`Spec.fixed_threshold`)."""
    specs = {entry.name: entry.spec for entry in pipeline.mechanisms}
    for name, key in marked:
        keys = [other_key for other_name, other_key in marked if other_name == name]
        if len(keys) > 1:
            raise InputError(f'expected one key to solve for in "{name}", found {first_names(keys)}')
        if specs[name].fixed_threshold:
            raise InputError(
                f'{key} = "calibrate" in "{name}": more noise may cost more here, since more values may cross the threshold: state a number'
            )


def solved_pipeline(data: bytes, path: str) -> Pipeline:
    """Return the pipeline of a file in which every "calibrate" is replaced by noise that meets the budget.

    Raises the errors of `calibrate_file`.
    """
    if not targets(data, path):
        return parse(data, path)
    return calibrate_file(path, data=data).pipeline


def _target_in(pipeline: Pipeline, name: str, solve: Parameter) -> Target:
    """Return the name of a mechanism and its key for the parameter. Raises InputError if there is no such mechanism or key."""
    entry = next((entry for entry in pipeline.mechanisms if entry.name == name), None)
    if entry is None:
        raise InputError(f"--mechanism: expected one of {first_names(e.name for e in pipeline.mechanisms)}, found {name!r}")
    key = parameter_key(entry, solve)
    if key is None:
        raise InputError(f"--mechanism: {missing_parameter((entry,), solve, name)}")
    return name, key


def calibrate_dp_sgd(
    target_epsilon: float | None,
    delta: float | None,
    flags: Mapping[str, Any],
    accountants: Sequence[str] | None,
    group_size: int,
    goal: Goal | None = None,
) -> Calibration:
    """Return the calibrated noise multiplier of a Gaussian mechanism on Poisson samples or on all records, as flags describe it.

    flags: the fields of `Stated` about steps and sampling. The other arguments are those of `calibrate_file`.

    Raises InputError if a flag is missing or the sampling rate is 0, and CannotCertify as `calibrate` does.
    """
    from dpcli.file.pipeline.flags import Stated, pipeline_of_flags

    stated = Stated(noise_multiplier=1.0, **flags)  # any number, which the answer replaces
    if goal is None:
        for name, value in (("target-epsilon", target_epsilon), ("delta", delta)):
            if value is None:
                raise InputError(f"expected FILE, or --target-epsilon and --delta; found no --{name}")
    if stated.sampling_rate == 0.0:
        raise InputError("--sampling-rate: expected a number in (0, 1], found 0.0")
    tables = stated.tables(delta)
    if goal is not None:
        return calibrate_goal(pipeline_of_flags(tables), goal, group_size=group_size)
    assert target_epsilon is not None
    return calibrate(pipeline_of_flags(tables), target_epsilon, delta, accountants=accountants, group_size=group_size)


def solved_text(data: bytes, calibration: Calibration) -> str:
    """Return the text of the file with the solved values. Comments are preserved.

    Raises InputError if the file does not state the key: steps may follow from epochs, and the noise of a query from its epsilon. Raises
    InputError if other entries read the stated key too, since their values must not change.
    """
    text = text_of(data)
    written = tables_of(text)
    # The plain entries have no lists and contain their defaults. A key of one of them may be written in a list or in [defaults].
    entries = plain_entries(written).get("mechanism", [])
    values = {_path_of(entries, name, key): value for name, key, value in calibration.values}
    written_values = dict(zip(written_paths(written, values), values.values(), strict=True))
    result = edited(text, written_values)
    edited_entries = plain_entries(tables_of(result))["mechanism"]
    for entry, expected in zip(edited_entries, _with_values(entries, values), strict=True):
        if entry != expected:
            raise InputError(
                f"--write: expected a key that only the target reads, found one that {quoted(entry['name'])} reads too "
                "([defaults], or a key shared by a list): state the value in a table of its own"
            )
    return result


def _with_values(entries: list[dict[str, Any]], values: Mapping[Path, Any]) -> list[dict[str, Any]]:
    """Return a copy of the entries in which the keys at these paths, ("mechanism", index, key, ...), have these values."""
    result = copy.deepcopy(entries)
    for (_, index, *keys), value in values.items():
        table: Any = result[int(index)]
        for key in keys[:-1]:
            table = table[key]
        table[keys[-1]] = value
    return result


def _path_of(entries: list[dict[str, Any]], name: str, key: str) -> Path:
    """Return the path of a key of the named mechanism: in its sampling table if that has the key. Raises InputError for an unknown name."""
    for index, entry in enumerate(entries):
        if entry["name"] == name:
            sampling = entry.get("sampling")
            in_sampling = type(sampling) is dict and key in sampling
            return ("mechanism", index, "sampling", key) if in_sampling else ("mechanism", index, key)
    raise InputError(f"--write: the file has no [[mechanism]] named {quoted(name)} to write the answer to")


@dataclass(frozen=True, slots=True)
class ClassicalNoise:
    """The noise of the classical formula, for comparison.

    value: the noise in the units of the key that was solved for.
    upper: upper bound on the true epsilon with this noise.
    proved: whether the theorem behind the formula covers the target.
    """

    value: float
    upper: float
    proved: bool


def classical_noise(calibration: Calibration) -> ClassicalNoise | None:
    """Return the noise of the classical formula for the same target; None unless the pipeline is one Gaussian release of all records.

    The formula is sigma = sqrt(2 log(1.25 / delta)) / epsilon for a sensitivity of 1.
    """
    entries, delta = calibration.pipeline.mechanisms, calibration.delta
    if delta is None or not 0.0 < delta < 1.0:
        return None
    is_single = calibration.parameter == "noise" and calibration.runs == len(entries) == 1
    charges = resolve(calibration.pipeline, calibration.group_size) if is_single else ()
    if len(charges) != 1 or charges[0].count != 1:
        return None
    try:
        mu = charges[0].mechanism.gdp()  # sensitivity / noise of a Gaussian on all records
    except NotRepresentable:
        return None
    if not 0.0 < mu < math.inf:
        return None
    sigma = classical_sigma(calibration.target, delta)
    sensitivity = mu * calibration.value  # in the units of the key that was solved for
    return ClassicalNoise(sigma * sensitivity, gaussian_epsilon_upper(1.0 / sigma, delta), calibration.target < PROVED_BELOW)
