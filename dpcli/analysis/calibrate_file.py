"""Calibration of a file or of flags, for an epsilon or another goal; the file with its answer, and the classical noise to compare."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dpcli.analysis.calibrate import (
    NOISE_KEYS,
    Calibration,
    Parameter,
    calibrate,
    none_has,
    parameter_key,
    refused_by_keys,
    searched,
    solvable,
    substitute,
)
from dpcli.analysis.goals import Goal, RhoGoal
from dpcli.analysis.rho import settled, total_rho
from dpcli.base.errors import InputError, NotRepresentable
from dpcli.base.values import dataclass
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.read import examine, parse, targets
from dpcli.file.pipeline.resolve import resolve
from dpcli.file.pipeline.section import refuse_contradicted
from dpcli.file.pipeline.series import plain_entries, written
from dpcli.file.toml.findings import InvalidFile, Path
from dpcli.file.toml.limits import read_bytes
from dpcli.file.toml.shown import first_names, quoted
from dpcli.file.toml.syntax import tables_of, text_of
from dpcli.file.toml.write import edited
from dpcli.numerics.closed.normal import PROVED_BELOW, classical_sigma, gaussian_epsilon_upper
from dpcli.numerics.work import limited


@limited
def calibrate_goal(
    pipeline: Pipeline,
    goal: Goal,
    solve: Parameter = "noise",
    targets: Sequence[tuple[str, str]] | None = None,
    group_size: int = 1,
) -> Calibration:
    """`calibrate` for a goal: the upper bound of its quantity is at most the target at the value, and not at the cheaper one.

    Raises InputError as `calibrate` does; CannotCertify where no value meets the goal, or none could.
    """
    chosen = solvable(pipeline, targets, solve)
    measured: dict[float, tuple[float, str]] = {}

    def upper(value: float) -> float:
        if value not in measured:
            candidate = substitute(pipeline, chosen, value)
            measured[value] = (math.inf, "") if refused_by_keys(candidate) else goal.measure(candidate, group_size)
        return measured[value][0]

    value, cheaper, adjacent = searched(upper, goal.target, pipeline, chosen, solve, goal.wording)
    answer = substitute(pipeline, chosen, value)
    refuse_contradicted(answer)
    return Calibration(
        solve,
        chosen,
        goal.target,
        None,
        value,
        *measured[value],
        cheaper,
        None if cheaper is None else upper(cheaper),
        adjacent,
        answer,
        group_size,
        quantity=goal.quantity,
        wording=goal.wording,
    )


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
    marked = targets(text, path)
    parameter: Parameter = solve  # type: ignore[assignment]
    if marked and solve != "noise":
        raise InputError(f'{path}: expected numbers with --solve {solve}, found {marked[0][1]} = "calibrate" in "{marked[0][0]}"')
    for name, key in marked:
        if key not in NOISE_KEYS:
            known = ", ".join(NOISE_KEYS)
            raise InputError(f'{path}: expected "calibrate" for {known} only, found it for {key} in "{name}": {_stated(key)}')
    pipeline = _open(text, path) if marked else parse(text, path)
    chosen = tuple(pair for name in mechanisms for pair in _named(pipeline, name, parameter)) or marked or None
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
        result = calibrate(replace(pipeline, sections=()), budget.epsilon, at, parameter, chosen, accountants, group_size)
        if budget.rho is None or settled(total_rho(resolve(result.pipeline, group_size)).value, budget.rho) <= budget.rho:
            return _checked_by_sections(result, pipeline)
    # Beside a cap on epsilon this is with more noise, so that epsilon holds too.
    assert budget.rho is not None  # a [budget] has one of the two
    return calibrate_goal(pipeline, RhoGoal(budget.rho), parameter, chosen, group_size)


def _checked_by_sections(calibration: Calibration, pipeline: Pipeline) -> Calibration:
    """The answer for a file with the sections that it has. Raises InputError where one contradicts it."""
    answer = replace(calibration.pipeline, sections=pipeline.sections)
    refuse_contradicted(answer)
    return replace(calibration, pipeline=answer)


def _open(text: bytes, path: str) -> Pipeline:
    """The pipeline, with some number for what is solved for."""
    pipeline, wrong = examine(text, path)
    if pipeline is None or wrong:
        raise InvalidFile(wrong)
    return pipeline


def _stated(key: str) -> str:
    """Advise on a key whose value is not solved for in place."""
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


def solved_text(data: bytes, calibration: Calibration) -> str:
    """The text of the file, its comments kept, with every value that was solved for.

    Raises InputError where the file does not state such a key, as one that only follows from others (steps from epochs, a query's noise),
    or states it where entries read it that are to keep theirs.
    """
    text = text_of(data)
    stated = tables_of(text)
    entries = plain_entries(stated).get("mechanism", [])
    values = {_path(entries, name, key): value for name, key, value in calibration.values}
    result = edited(text, dict(zip(written(stated, values), values.values(), strict=True)))
    for entry, meant in zip(plain_entries(tables_of(result))["mechanism"], _solved(entries, values), strict=True):
        if entry != meant:
            raise InputError(
                f"--write: expected a place for the answer alone, found one that {quoted(entry['name'])} reads too ([defaults], or beside "
                "a list): state the value in its own table"
            )
    return result


def _solved(entries: list[dict[str, Any]], values: Mapping[Path, Any]) -> list[dict[str, Any]]:
    """The entries with each of these values at its place, and nowhere else."""
    result = copy.deepcopy(entries)
    for (_, at, *keys), value in values.items():
        table: Any = result[int(at)]
        for key in keys[:-1]:
            table = table[key]
        table[keys[-1]] = value
    return result


def _path(entries: list[dict[str, Any]], name: str, key: str) -> Path:
    at = next((position for position, entry in enumerate(entries) if entry["name"] == name), None)
    if at is None:
        raise InputError(f"--write: the file has no [[mechanism]] named {quoted(name)} to write the answer to")
    sampling = entries[at].get("sampling")
    return ("mechanism", at, "sampling", key) if type(sampling) is dict and key in sampling else ("mechanism", at, key)


@dataclass(frozen=True, slots=True)
class ClassicalNoise:
    """value: under the key that was solved for. upper: the epsilon that it has in truth, from above. proved: whether its theorem holds."""

    value: float
    upper: float
    proved: bool


def classical_noise(calibration: Calibration) -> ClassicalNoise | None:
    """Return the noise of the classical formula for the same target; None unless the pipeline is one Gaussian release of all data."""
    solved, delta = calibration.pipeline.mechanisms, calibration.delta
    if delta is None or not 0.0 < delta < 1.0:
        return None
    alone = calibration.parameter == "noise" and calibration.runs == len(solved) == 1
    charges = resolve(calibration.pipeline, calibration.group_size) if alone else ()
    if len(charges) != 1 or charges[0].count != 1:
        return None
    try:
        mu = charges[0].mechanism.gdp()
    except NotRepresentable:
        return None
    if not 0.0 < mu < math.inf:
        return None
    sigma = classical_sigma(calibration.target, delta)
    sensitivity = mu * calibration.value  # in the units of the key
    return ClassicalNoise(sigma * sensitivity, gaussian_epsilon_upper(1.0 / sigma, delta), calibration.target < PROVED_BELOW)
