"""Calibration of a file, or of DP-SGD stated by four numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dpcli.analysis.calibrate import NOISE_KEYS, Calibration, Parameter, calibrate, none_has, parameter_key
from dpcli.analysis.calibrate_goal import calibrate_goal
from dpcli.analysis.goals import Goal, RhoGoal
from dpcli.analysis.rho import settled, total_rho
from dpcli.base.errors import InputError
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.read import examine, parse, targets
from dpcli.file.pipeline.resolve import resolve
from dpcli.file.pipeline.section import refuse_contradicted
from dpcli.file.toml.findings import InvalidFile
from dpcli.file.toml.limits import read_bytes
from dpcli.file.toml.shown import first_names


def calibrate_file(
    path: str,
    solve: str,
    target_epsilon: float | None,
    delta: float | None,
    mechanisms: Sequence[str],
    accountants: Sequence[str] | None,
    group_size: int,
    data: bytes | None = None,
    goal: Goal | None = None,
) -> Calibration:
    """Solve for one parameter of the file at `path`; every key that says "calibrate" where there are such. Sections that say what is done,
    as [federated] does, are held against the answer.

    Args:
        target_epsilon, goal: at most one of them; the file's budget where neither is given, with its cap on rho if it has one.
        data: in place of what the file holds.

    Raises InputError, CannotCertify as `calibrate` does; InputError where a section contradicts the answer.
    """
    text = read_bytes(path) if data is None else data
    asked = targets(text, path)
    parameter: Parameter = solve  # type: ignore[assignment]
    if asked and solve != "noise":
        raise InputError(f'{path}: expected numbers with --solve {solve}, found {asked[0][1]} = "calibrate" in "{asked[0][0]}"')
    for name, key in asked:
        if key not in NOISE_KEYS:
            known = ", ".join(NOISE_KEYS)
            raise InputError(f'{path}: expected "calibrate" for {known} only, found it for {key} in "{name}": {_stated(key)}')
    pipeline = _open(text, path) if asked else parse(text, path)
    chosen = tuple(pair for name in mechanisms for pair in _named(pipeline, name, parameter)) or asked or None
    if goal is not None:
        return calibrate_goal(pipeline, goal, parameter, chosen, group_size)
    if target_epsilon is not None:
        return calibrate(pipeline, target_epsilon, delta, parameter, chosen, accountants, group_size)
    budget = pipeline.budget
    if budget is None:
        raise InputError(f"{path}: expected --target-epsilon or a [budget] in the file, found neither")
    if budget.epsilon is not None:
        at = delta if delta is not None else budget.delta
        # Sections are held against the answer, and not against a number on the way to it.
        found = calibrate(replace(pipeline, sections=()), budget.epsilon, at, parameter, chosen, accountants, group_size)
        if budget.rho is None or settled(total_rho(resolve(found.pipeline, group_size)).value, budget.rho) <= budget.rho:
            return _held(found, pipeline)
    # Beside a cap on epsilon this is with more noise, so that epsilon holds too.
    assert budget.rho is not None  # a [budget] has one of the two
    return calibrate_goal(pipeline, RhoGoal(budget.rho), parameter, chosen, group_size)


def _held(found: Calibration, asked: Pipeline) -> Calibration:
    """The answer for a file with the sections that it has. Raises InputError where one contradicts it."""
    answer = replace(found.pipeline, sections=asked.sections)
    refuse_contradicted(answer)
    return replace(found, pipeline=answer)


def _open(text: bytes, path: str) -> Pipeline:
    """The pipeline, with some number for what is solved for."""
    pipeline, wrong = examine(text, path)
    if pipeline is None or wrong:
        raise InvalidFile(wrong)
    return pipeline


def _stated(key: str) -> str:
    """What to do for a key whose value is not solved for in place."""
    if key != "radius":
        return "state a number"
    return "state a number; from any, dpcli pmixed account FILE --solve radius finds the largest that the budget allows"


def solved(data: bytes, path: str) -> Pipeline:
    """The pipeline, with the noise that meets its budget in place of every "calibrate". Raises as `calibrate_file` does."""
    if not targets(data, path):
        return parse(data, path)
    return calibrate_file(path, "noise", None, None, (), None, 1, data).pipeline


def _named(pipeline: Pipeline, name: str, solve: Parameter) -> tuple[tuple[str, str], ...]:
    entry = next((entry for entry in pipeline.mechanisms if entry.name == name), None)
    if entry is None:
        raise InputError(f"--mechanism: expected one of {first_names(e.name for e in pipeline.mechanisms)}, found {name!r}")
    key = parameter_key(entry, solve)
    if key is None:
        raise InputError(f"--mechanism: {none_has((entry,), solve, name)}")
    return ((name, key),)


def calibrate_dp_sgd(
    target_epsilon: float | None,
    delta: float | None,
    flags: Mapping[str, Any],
    accountants: Sequence[str] | None,
    group_size: int,
    goal: Goal | None = None,
) -> Calibration:
    """The noise multiplier of a Poisson-sampled Gaussian. flags: of `Stated`, how often it runs and on samples of what.

    Raises InputError where they do not say it, CannotCertify as `calibrate` does.
    """
    from dpcli.file.pipeline.flags import Stated, pipeline_of_flags

    stated = Stated(1.0, **flags)
    for name, value in () if goal is not None else (("target-epsilon", target_epsilon), ("delta", delta)):
        if value is None:
            raise InputError(f"expected FILE, or --target-epsilon and --delta; found no --{name}")
    if stated.sampling_rate == 0.0:
        raise InputError("--sampling-rate: expected a number in (0, 1], found 0.0")
    tables = stated.tables(delta)
    if goal is not None:
        return calibrate_goal(pipeline_of_flags(tables), goal, "noise", None, group_size)
    assert target_epsilon is not None
    return calibrate(pipeline_of_flags(tables), target_epsilon, delta, "noise", None, accountants, group_size)
