"""Calibration of a file, or of DP-SGD stated by four numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpcli.analysis.calibrate import NOISE_KEYS, Calibration, Parameter, calibrate, none_has, parameter_key
from dpcli.errors import InputError
from dpcli.pipeline.model import Pipeline
from dpcli.pipeline.read import parse, targets
from dpcli.toml.limits import read_bytes


def calibrate_file(
    path: str,
    solve: str,
    target_epsilon: float | None,
    delta: float | None,
    mechanisms: Sequence[str],
    accountants: Sequence[str] | None,
    group_size: int,
    data: bytes | None = None,
) -> Calibration:
    """Solve for one parameter of the file at `path`; every key that says "calibrate" where there are such.

    Args:
        data: in place of what the file holds.

    Raises InputError, CannotCertify as `calibrate` does.
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
    pipeline = parse(text, path, substitute=1.0 if asked else None)
    if target_epsilon is None:
        if pipeline.budget is None:
            raise InputError(f"{path}: expected --target-epsilon or a [budget] in the file, found neither")
        target_epsilon, delta = pipeline.budget.epsilon, delta if delta is not None else pipeline.budget.delta
    chosen = tuple(pair for name in mechanisms for pair in _named(pipeline, name, parameter)) or asked or None
    return calibrate(pipeline, target_epsilon, delta, parameter, chosen, accountants, group_size)


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
        raise InputError(f"--mechanism: expected one of {', '.join(e.name for e in pipeline.mechanisms)}, found {name!r}")
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
) -> Calibration:
    """The noise multiplier of a Poisson-sampled Gaussian. flags: of `Stated`, how often it runs and on samples of what.

    Raises InputError where they do not say it, CannotCertify as `calibrate` does.
    """
    from dpcli.pipeline.flags import Stated, pipeline_of_flags

    stated = Stated(1.0, **flags)
    count = stated.epochs if stated.steps is None else stated.steps
    for name, value in (("target-epsilon", target_epsilon), ("delta", delta), ("steps", count)):
        if value is None:
            raise InputError(f"expected FILE, or --target-epsilon, --delta and --steps or --epochs; found no --{name}")
    assert target_epsilon is not None
    if stated.sampling_rate == 0.0:
        raise InputError("--sampling-rate: expected a number in (0, 1], found 0.0")
    tables = stated.tables(delta)
    tables["mechanism"][0]["name"] = "dp-sgd"
    return calibrate(pipeline_of_flags(tables), target_epsilon, delta, "noise", None, accountants, group_size)
