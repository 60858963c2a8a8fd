"""The document of `dpcli calibrate`: the answer, the next cheaper value, and the noise of the classical formula if it applies.

calibrate.py found the answer: the *cheapest* value of the parameter (the smallest noise, or the largest number of steps) whose certified
upper bound meets the target. That the next cheaper value misses the target shows that the answer costs no more than it must. What the
target bounds, usually epsilon, is the `quantity` in keys of JSON and csv, and the `wording` in messages. The classical formula from
textbooks is there because users expect its number. It asks for more noise than small epsilons need, and proves nothing for epsilon >= 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from dpcli.analysis.adaptive_cap import UNCAPPED
from dpcli.analysis.calibrate import Calibration
from dpcli.analysis.calibrate_file import ClassicalNoise, classical_noise
from dpcli.base.rounding import up
from dpcli.document.document import Document, Sheet, Table, Value
from dpcli.file.toml.findings import Diagnostic
from dpcli.lint.documents.diagnostics import diagnostic_data, finding

EARLY = "the search ended before the last digit was certain, to save work; the printed value meets the target, and a cheaper one may too"
FORMULA = "classical formula: sqrt(2 ln(1.25/delta)) sensitivity / epsilon, proved only for epsilon < 1 (see dpcli explain sigma)"


def document(calibration: Calibration, diagnostics: tuple[Diagnostic, ...] = (), decimals: int = 4) -> Document:
    """Return the output of `dpcli calibrate`.

    diagnostics: findings about the file or the flags. With one of severity "error" the verdict is "fail" and the exit code 1.
    decimals: decimal places of the bound in the headline; the table shows three more.
    """
    unsound = any(diagnostic.severity == "error" for diagnostic in diagnostics)
    classical = classical_noise(calibration)
    values = calibration.values  # (mechanism, key, number) of each key that was solved for
    numbers = [number for _, _, number in values]
    # Several keys share one value or ratio.
    total = numbers[0] if len(numbers) == 1 else calibration.number(calibration.value)
    table = Table(
        f"calibration ({calibration.wording} rounded up)",
        ("", _key(calibration), calibration.quantity, f"target {calibration.target!r}"),
        tuple(_rows(calibration, classical, decimals + 3)),
        numeric=frozenset({1, 2}),
    )
    return Document(
        headline=_headline(calibration, decimals),
        data=_data(calibration, classical, diagnostics, int(unsound)),
        verdict="fail" if unsound else "pass",
        exit_code=int(unsound),
        findings=tuple(map(finding, diagnostics)),
        tables=(table,),
        notes=tuple(_notes(calibration, classical, diagnostics)),
        total=repr(total),
        sheet=_sheet(calibration, values),
    )


def _headline(calibration: Calibration, decimals: int) -> str:
    """Return the answer in one sentence, with the bound that it gives and all that this depends on."""
    privacy = calibration.pipeline.privacy
    names = ", ".join(name for name, _ in calibration.targets)
    at_delta = "" if calibration.delta is None else f" at delta = {calibration.delta!r}"
    return (
        f"{_key(calibration)} = {calibration.value:.10g} for {names}: "
        f"{calibration.wording} <= {up(calibration.upper, decimals)}{at_delta} "
        f"(target {calibration.target!r}; per {privacy.unit or 'record'}, {privacy.adjacency.value}; "
        f"accountant: {calibration.accountant})"
    )


def _data(
    calibration: Calibration, classical: ClassicalNoise | None, diagnostics: tuple[Diagnostic, ...], exit_code: int
) -> dict[str, Any]:
    """Return the JSON document of schema dpcli/calibrate/v1. It has the key "diagnostics" only if there are any."""
    privacy = calibration.pipeline.privacy
    data: dict[str, Any] = {
        "schema": "dpcli/calibrate/v1",
        "parameter": calibration.parameter,
        "mechanisms": [{"name": name, key: value} for name, key, value in calibration.values],
        f"target_{calibration.quantity}": calibration.target,
        "quantity": calibration.wording,
        "delta": calibration.delta,
        "statement": {"unit": privacy.unit, "adjacency": privacy.adjacency.value},
        "result": _result_data(calibration, classical, _key(calibration)),
    }
    if diagnostics:
        data["diagnostics"] = [diagnostic_data(diagnostic) for diagnostic in diagnostics]
    return {**data, "exit_code": exit_code}


def _notes(calibration: Calibration, classical: ClassicalNoise | None, diagnostics: tuple[Diagnostic, ...]) -> Iterator[str]:
    """Yield findings, the value of each key if they differ from the number in the headline, and explanations."""
    for diagnostic in diagnostics:
        yield f"{diagnostic.severity} {diagnostic.rule}: {diagnostic.key}: {diagnostic.message}"
    if len(calibration.values) > 1 or _key(calibration) == "noise_over_sensitivity":
        yield from (f"{name}: {key} = {value:.10g}" for name, key, value in calibration.values)
    if calibration.pipeline.privacy.adaptive and calibration.pipeline.budget is None:
        yield UNCAPPED
    if not calibration.adjacent:  # cheaper values were left untried
        yield EARLY
    if classical is not None:
        yield FORMULA


def _rows(calibration: Calibration, classical: ClassicalNoise | None, decimals: int) -> Iterator[tuple[str, str, str, str]]:
    """Yield rows (label, value, bound, verdict) of the answer, the next cheaper value and the classical formula, if there are such."""
    yield "answer", f"{calibration.value:.10g}", up(calibration.upper, decimals), "meets the target"
    if calibration.cheaper is not None and calibration.cheaper_upper is not None:
        label = "smaller noise" if calibration.parameter in ("noise", "scale") else "larger value"
        if calibration.adjacent:
            label = f"next {label}"
        verdict = "misses the target" if math.isfinite(calibration.cheaper_upper) else "no bound is certified"
        yield label, f"{calibration.cheaper:.10g}", up(calibration.cheaper_upper, decimals), verdict
    if classical is not None:
        if classical.upper > calibration.target:
            verdict = "misses the target"
        else:
            verdict = "meets the target" if classical.proved else "meets the target, outside its proof"
        yield "classical formula", f"{classical.value:.10g}", up(classical.upper, decimals), verdict


def _result_data(calibration: Calibration, classical: ClassicalNoise | None, key: str) -> dict[str, Any]:
    """Return the answer, the next cheaper value and the classical noise as JSON values. `key` names the number that was solved for."""
    bound = f"{calibration.quantity}_upper"
    result: dict[str, Any] = {
        key: calibration.number(calibration.value),
        bound: calibration.upper,
        "accountant": calibration.accountant,
        "next_cheaper": None,
    }
    if calibration.cheaper is not None:
        result["next_cheaper"] = {
            key: calibration.number(calibration.cheaper),
            bound: calibration.cheaper_upper,
            "adjacent": calibration.adjacent,
        }
    if classical is not None:
        result["classical"] = {key: classical.value, "epsilon_upper": classical.upper, "proved": classical.proved}
    return result


def _sheet(calibration: Calibration, values: list[tuple[str, str, float]]) -> Sheet:
    """Return a row for each solved key of a mechanism, and one for the next cheaper value if there is one."""
    privacy = calibration.pipeline.privacy
    setting = (calibration.target, calibration.delta, privacy.unit or "record", privacy.adjacency.value, calibration.accountant)
    rows: list[tuple[Value, ...]] = [("answer", name, key, value, calibration.upper, *setting) for name, key, value in values]
    if calibration.cheaper is not None:
        cheaper = (calibration.number(calibration.cheaper), calibration.cheaper_upper)
        rows.append(("next_cheaper", None, _key(calibration), *cheaper, *setting))
    bounds = (f"{calibration.quantity}_upper", f"target_{calibration.quantity}")
    columns = ("kind", "mechanism", "key", "value", *bounds, "delta", "unit", "adjacency", "accountant")
    return Sheet(columns, tuple(rows))


def _key(calibration: Calibration) -> str:
    """Return the name of the number that was solved for, usually the key of the file.

    Noise is reported as noise_over_sensitivity if several entries share it, or if the entry states an epsilon in place of its noise.
    """
    if calibration.parameter == "noise":
        (_, key), *others = calibration.targets
        return "noise_over_sensitivity" if others or key == "epsilon" else key
    return "batch_size" if calibration.parameter == "batch-size" else calibration.parameter
