"""A calibration as a document: the value, its epsilon, and the next cheaper value that fails."""

from __future__ import annotations

from dpcli.calibration import Calibration
from dpcli.report.document import Document, Table
from dpcli.report.rounding import up

NAMES = {"noise": "noise_multiplier", "batch-size": "batch_size"}


def document(found: Calibration, decimals: int = 4) -> Document:
    """Everything that `dpcli calibrate` says."""
    key = found.targets[0][1] if found.parameter == "noise" else NAMES.get(found.parameter, found.parameter)
    where = ", ".join(name for name, _ in found.targets)
    setting = f"per {found.pipeline.privacy.unit or 'record'}, {found.pipeline.privacy.adjacency.value}"
    rows = [("answer", f"{found.value:.10g}", up(found.upper, decimals + 3), "meets the target")]
    if found.cheaper is not None and found.cheaper_upper is not None:
        rows.append(("next cheaper", f"{found.cheaper:.10g}", up(found.cheaper_upper, decimals + 3), "does not"))
    result = {
        key: found.value,
        "epsilon_upper": found.upper,
        "accountant": found.accountant,
        "next_cheaper": None if found.cheaper is None else {key: found.cheaper, "epsilon_upper": found.cheaper_upper},
    }
    return Document(
        headline=f"{key} = {found.value:.10g} for {where}: epsilon <= {up(found.upper, decimals)} at delta = {found.delta:g} "
        f"(target {found.target:g}; {setting}; accountant: {found.accountant})",
        data={
            "schema": "dpcli/calibrate/v1",
            "parameter": found.parameter,
            "mechanisms": [name for name, _ in found.targets],
            "target_epsilon": found.target,
            "delta": found.delta,
            "statement": {"unit": found.pipeline.privacy.unit, "adjacency": found.pipeline.privacy.adjacency.value},
            "result": result,
            "exit_code": 0,
        },
        verdict="pass",
        tables=(
            Table(
                "calibration (epsilon rounded up)", ("", key, "epsilon", f"target {found.target:g}"), tuple(rows), frozenset({1, 2})
            ),
        ),
        total=repr(found.value),
    )
