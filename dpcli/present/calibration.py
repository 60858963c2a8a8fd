"""A calibration as a document: the value, its epsilon, and the next cheaper value that fails."""

from __future__ import annotations

from dpcli.analysis.calibrate import Calibration
from dpcli.document.document import Document, Sheet, Table, Value
from dpcli.rounding import up

STEP = {"noise": "one step less noise", "scale": "one step less noise"}
FURTHER = {"noise": "less noise", "scale": "less noise"}
EARLY = "each attempt takes much work here: the search ended before the last digit, on the safe side"
NAMES = {"batch-size": "batch_size"}


def document(found: Calibration, decimals: int = 4) -> Document:
    """Everything that `dpcli calibrate` says."""
    key = _key(found)
    where = ", ".join(name for name, _ in found.targets)
    setting = f"per {found.pipeline.privacy.unit or 'record'}, {found.pipeline.privacy.adjacency.value}"
    rows = [("answer", f"{found.value:.10g}", up(found.upper, decimals + 3), "meets the target")]
    if found.cheaper is not None and found.cheaper_upper is not None:
        rows.append(
            (
                STEP.get(found.parameter, "one step further") if found.adjacent else FURTHER.get(found.parameter, "further"),
                f"{found.cheaper:.10g}",
                up(found.cheaper_upper, decimals + 3),
                "misses the target",
            )
        )
    result = {
        key: found.value,
        "epsilon_upper": found.upper,
        "accountant": found.accountant,
        "next_cheaper": None
        if found.cheaper is None
        else {key: found.cheaper, "epsilon_upper": found.cheaper_upper, "adjacent": found.adjacent},
    }
    values = _values(found)
    return Document(
        headline=f"{key} = {found.value:.10g} for {where}: epsilon <= {up(found.upper, decimals)} at delta = {found.delta!r} "
        f"(target {found.target!r}; {setting}; accountant: {found.accountant})",
        data={
            "schema": "dpcli/calibrate/v1",
            "parameter": found.parameter,
            "mechanisms": [{"name": name, key: value} for name, key, value in values],
            "target_epsilon": found.target,
            "delta": found.delta,
            "statement": {"unit": found.pipeline.privacy.unit, "adjacency": found.pipeline.privacy.adjacency.value},
            "result": result,
            "exit_code": 0,
        },
        verdict="pass",
        tables=(
            Table(
                "calibration (epsilon rounded up)", ("", key, "epsilon", f"target {found.target!r}"), tuple(rows), frozenset({1, 2})
            ),
        ),
        notes=(
            *((f"{name}: {key} = {value:.10g}" for name, key, value in values) if len(values) > 1 else ()),
            *(() if found.adjacent else (EARLY,)),
        ),
        total=repr(found.value),
        sheet=_sheet(found, values),
    )


def _sheet(found: Calibration, values: list[tuple[str, str, float]]) -> Sheet:
    """The answer for each mechanism, and what it is compared with."""
    privacy = found.pipeline.privacy
    setting = (found.target, found.delta, privacy.unit or "record", privacy.adjacency.value, found.accountant)
    rows: list[tuple[Value, ...]] = [("answer", name, key, value, found.upper, *setting) for name, key, value in values]
    if found.cheaper is not None:
        rows.append(("next_cheaper", None, _key(found), found.cheaper, found.cheaper_upper, *setting))
    columns = ("kind", "mechanism", "key", "value", "epsilon_upper", "target_epsilon", "delta", "unit", "adjacency", "accountant")
    return Sheet(columns, tuple(rows))


def _key(found: Calibration) -> str:
    """What the number is: the key itself, or the ratio that several noises share."""
    if found.parameter == "noise":
        return "noise_over_sensitivity" if len(found.targets) > 1 else found.targets[0][1]
    return NAMES.get(found.parameter, found.parameter)


def _values(found: Calibration) -> list[tuple[str, str, float]]:
    """(mechanism, key, value) as it goes into the file."""
    entries = {entry.name: entry for entry in found.pipeline.mechanisms}
    return [(name, key, float(getattr(entries[name].spec, key, found.value) or found.value)) for name, key in found.targets]
