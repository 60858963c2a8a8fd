"""A calibration as a document, next to the classical formula where that applies."""

from __future__ import annotations

from dpcli.analysis.calibrate import Calibration
from dpcli.analysis.calibrate_file import ClassicalNoise, classical_noise
from dpcli.analysis.promised import UNCAPPED
from dpcli.base.rounding import up
from dpcli.document.document import Document, Sheet, Table, Value
from dpcli.file.toml.findings import Diagnostic
from dpcli.lint.documents.diagnostics import diagnostic_data, finding

STEP = {"noise": "next smaller noise", "scale": "next smaller noise"}
FURTHER = {"noise": "less noise", "scale": "less noise"}
EARLY = "each attempt takes much work here: the search ended before the last digit, on the safe side"
FORMULA = "classical formula: sqrt(2 ln(1.25/delta)) sensitivity / epsilon, proved for epsilon < 1 only (see dpcli explain sigma)"
NAMES = {"batch-size": "batch_size"}


def document(calibration: Calibration, diagnostics: tuple[Diagnostic, ...] = (), decimals: int = 4) -> Document:
    """Everything that `dpcli calibrate` says. diagnostics: what rules say of what was stated."""
    unsound = any(d.severity == "error" for d in diagnostics)
    key = _key(calibration)
    where = ", ".join(name for name, _ in calibration.targets)
    setting = f"per {calibration.pipeline.privacy.unit or 'record'}, {calibration.pipeline.privacy.adjacency.value}"
    rows = [("answer", f"{calibration.value:.10g}", up(calibration.upper, decimals + 3), "meets the target")]
    if calibration.cheaper is not None and calibration.cheaper_upper is not None:
        rows.append(
            (
                STEP.get(calibration.parameter, "one step further")
                if calibration.adjacent
                else FURTHER.get(calibration.parameter, "further"),
                f"{calibration.cheaper:.10g}",
                up(calibration.cheaper_upper, decimals + 3),
                "misses the target" if calibration.cheaper_upper < float("inf") else "none is certified",
            )
        )
    quantity, at = calibration.quantity, "" if calibration.delta is None else f" at delta = {calibration.delta!r}"
    classical = classical_noise(calibration)
    rows += _classical_row(classical, calibration.target, decimals)
    result = {
        key: calibration.number(calibration.value),
        f"{quantity}_upper": calibration.upper,
        "accountant": calibration.accountant,
        "next_cheaper": None
        if calibration.cheaper is None
        else {
            key: calibration.number(calibration.cheaper),
            f"{quantity}_upper": calibration.cheaper_upper,
            "adjacent": calibration.adjacent,
        },
    } | _classical_data(classical, key)
    values = calibration.values
    return Document(
        headline=f"{key} = {calibration.value:.10g} for {where}: "
        f"{calibration.wording} <= {up(calibration.upper, decimals)}{at} "
        f"(target {calibration.target!r}; {setting}; accountant: {calibration.accountant})",
        data={
            "schema": "dpcli/calibrate/v1",
            "parameter": calibration.parameter,
            "mechanisms": [{"name": name, key: value} for name, key, value in values],
            f"target_{quantity}": calibration.target,
            "quantity": calibration.wording,
            "delta": calibration.delta,
            "statement": {"unit": calibration.pipeline.privacy.unit, "adjacency": calibration.pipeline.privacy.adjacency.value},
            "result": result,
            **({"diagnostics": [diagnostic_data(d) for d in diagnostics]} if diagnostics else {}),
            "exit_code": int(unsound),
        },
        verdict="fail" if unsound else "pass",
        exit_code=int(unsound),
        findings=tuple(map(finding, diagnostics)),
        tables=(
            Table(
                f"calibration ({calibration.wording} rounded up)",
                ("", key, quantity, f"target {calibration.target!r}"),
                tuple(rows),
                frozenset({1, 2}),
            ),
        ),
        notes=(
            *(f"{d.severity} {d.rule}: {d.key}: {d.message}" for d in diagnostics),
            *((f"{name}: {key} = {value:.10g}" for name, key, value in values) if len(values) > 1 else ()),
            *((UNCAPPED,) if calibration.pipeline.privacy.adaptive and calibration.pipeline.budget is None else ()),
            *(() if calibration.adjacent else (EARLY,)),
            *(() if classical is None else (FORMULA,)),
        ),
        total=repr(calibration.number(calibration.value)),
        sheet=_sheet(calibration, values),
    )


def _classical_row(classical_noise: ClassicalNoise | None, target: float, decimals: int) -> list[tuple[str, str, str, str]]:
    """The textbook's noise in the table; nothing where that is not about this."""
    if classical_noise is None:
        return []
    meets = "meets the target" if classical_noise.proved else "meets the target, outside its proof"
    verdict = meets if classical_noise.upper <= target else "misses the target"
    return [("classical formula", f"{classical_noise.value:.10g}", up(classical_noise.upper, decimals + 3), verdict)]


def _classical_data(classical_noise: ClassicalNoise | None, key: str) -> dict[str, dict[str, float | bool]]:
    return (
        {}
        if classical_noise is None
        else {"classical": {key: classical_noise.value, "epsilon_upper": classical_noise.upper, "proved": classical_noise.proved}}
    )


def _sheet(calibration: Calibration, values: list[tuple[str, str, float]]) -> Sheet:
    """The answer for each mechanism, and what it is compared with."""
    privacy = calibration.pipeline.privacy
    setting = (calibration.target, calibration.delta, privacy.unit or "record", privacy.adjacency.value, calibration.accountant)
    rows: list[tuple[Value, ...]] = [("answer", name, key, value, calibration.upper, *setting) for name, key, value in values]
    if calibration.cheaper is not None:
        rows.append(
            (
                "next_cheaper",
                None,
                _key(calibration),
                calibration.number(calibration.cheaper),
                calibration.cheaper_upper,
                *setting,
            )
        )
    bounds = (f"{calibration.quantity}_upper", f"target_{calibration.quantity}")
    columns = ("kind", "mechanism", "key", "value", *bounds, "delta", "unit", "adjacency", "accountant")
    return Sheet(columns, tuple(rows))


def _key(calibration: Calibration) -> str:
    """Return the name of the answer: the key itself, or the ratio that several noises share."""
    if calibration.parameter == "noise":
        return "noise_over_sensitivity" if len(calibration.targets) > 1 else calibration.targets[0][1]
    return NAMES.get(calibration.parameter, calibration.parameter)
