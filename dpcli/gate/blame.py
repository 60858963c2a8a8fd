"""The explanation of a failed cap: the changes that cost most, their places in the file, and values with which the file would pass.

judge.py adds these texts to the messages of failed conditions, and no verdict depends on them. A *priced change* is a set of edits that are
only valid together, with their cost if they alone were made to the *base*, the earlier version of the file (dpcli/analysis/difference.py).
A *target* is the largest epsilon that one condition would accept. A *remedy* is the noise, or the number of steps or epochs, of one
mechanism with which every target would be met, computed by calibration. A *charge* (`BillLine`) is what entries run, and how often.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from dpcli.analysis.account import Account
from dpcli.analysis.difference import Priced
from dpcli.base.errors import CannotCertify, InputError
from dpcli.base.rounding import up
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.pipeline.resolve import BillLine
from dpcli.file.toml.findings import Path
from dpcli.file.toml.shown import shown
from dpcli.gate.verdicts import Target

if TYPE_CHECKING:
    from dpcli.analysis.solved_keys import Parameter

# Chosen by hand. They limit the length of messages, and the time, because each remedy needs several accounts.
MOST_NAMED = 3  # largest number of changes that a message names, and of mechanisms for which a remedy is computed
LONGEST_LIST = 8  # largest number of items of a list that a message shows in full


class SolvedKey(NamedTuple):
    """A key of a mechanism, such as noise_multiplier, and for each target the value of the key that just meets it."""

    key: str
    values: list[float]


def raising_changes(changes: Sequence[Priced]) -> list[Priced]:
    """Return the first `MOST_NAMED` changes that raise epsilon. The given changes must be sorted by effect, largest first."""
    return [change for change in changes if change.increase > 0.0][:MOST_NAMED]


def key_of_costliest(changes: Sequence[Priced], pipeline: Pipeline, otherwise: Path) -> Path:
    """Return the key of the costliest change in the current file. If no change raises epsilon, return `otherwise`."""
    costliest = raising_changes(changes)
    return path_of(costliest[0], pipeline) if costliest else otherwise


def costliest_changes(changes: Sequence[Priced]) -> str:
    """Return the costliest changes in words, for example `; train: steps 5000 -> 20000 costs +0.8123 alone`."""
    return "".join(f"; {edits_in_words(change)} costs +{up(change.increase)} alone" for change in raising_changes(changes))


def edits_in_words(change: Priced) -> str:
    """Return the edits of one change in words, for example `train: steps 5000 -> 20000`."""
    return " and ".join(f"{edit.label} {_value_in_words(edit.old)} -> {_value_in_words(edit.new)}" for edit in change.change.edits)


def _value_in_words(value: object) -> str:
    if isinstance(value, dict) and "scheme" in value:  # a sampling table is shown by the name of its scheme
        return shown(value["scheme"])
    if isinstance(value, list) and len(value) <= LONGEST_LIST and all(type(item) in (int, float) for item in value):
        from dpcli.file.toml.write import value_text

        return value_text(value)
    return "none" if value is None else shown(value)


def path_of(change: Priced, pipeline: Pipeline) -> Path:
    """Return the first key of a change that exists in the current file. If the change removes a mechanism, return its array of tables."""
    edit = next((edit for edit in change.change.edits if edit.new is not None), change.change.edits[0])
    if edit.section == "query":
        for position, entry in enumerate(pipeline.mechanisms):  # a query becomes mechanisms, which are named QUERY or QUERY.PART
            if f"{entry.name}.".startswith(f"{edit.name}."):
                return ("mechanism", position)
        return ("query",)
    if edit.section != "mechanism":
        return edit.path
    from dpcli.file.pipeline.series import by_name

    index = by_name({entry.name: index for index, entry in enumerate(pipeline.mechanisms)}).get(edit.name)
    return ("mechanism",) if index is None else ("mechanism", index, *edit.keys)


def remedy(result: Account, changes: Sequence[Priced], targets: Sequence[Target]) -> str:
    """Return values with which the file would pass, for example `; noise_multiplier = 1.1 in train, or steps = 4000, would pass`.

    Each value alone meets every target. Up to `MOST_NAMED` mechanisms are tried, until one has such a value: those with the costliest
    changes first, and then those that run most often. The result is "" if no value of them meets the targets.
    """
    from dpcli.file.pipeline.series import written_name

    first_edits = [change.change.edits[0] for change in raising_changes(changes)]
    changed = {edit.name for edit in first_edits if edit.section == "mechanism"}  # names of mechanisms
    # The mechanisms of queries, which come last in a pipeline, are left out: a query has no key for its noise.
    mechanisms = result.pipeline.mechanisms
    stated = mechanisms[: len(mechanisms) - len(result.pipeline.queries)]
    # A charge of several entries, which share a sample or run on disjoint parts of the data, has no single noise that could be changed.
    charges = [charge for charge in result.charges if len(charge.entries) == 1 and charge.entries[0] in stated]
    # An edit names the charge train[2] itself or, if the file states lists of values, the table train.
    charges.sort(key=lambda charge: (changed.isdisjoint({charge.name, written_name(charge.name)}), -charge.count))
    for charge in charges[:MOST_NAMED]:
        values = list(_remedies(result.pipeline, charge, _hardest(targets)))
        if len(values) == 1:
            return f"; {values[0]} would pass"
        if values:
            return f"; {', or '.join(values)}, would pass"
    return ""


def _hardest(targets: Sequence[Target]) -> list[Target]:
    """Return, for each delta and number of runs, the target with the smallest epsilon, which implies the others."""
    # In a dict, a target replaces an earlier one with the same delta and runs, so the smallest epsilon comes last.
    by_falling_epsilon = sorted(targets, key=lambda target: target.epsilon, reverse=True)
    return list({(target.delta, target.runs): target for target in by_falling_epsilon}.values())


def _remedies(pipeline: Pipeline, charge: BillLine, targets: Sequence[Target]) -> Iterable[str]:
    """Yield the smallest noise, and the largest number of steps or epochs, with which one mechanism meets every target.

    The number is tried only if the mechanism runs more than once. A solved noise has seven significant digits, all of which `.10g` shows.
    """
    entry = charge.entries[0]
    place = f" in {entry.name}"
    noise = _solved(pipeline, entry, "noise", targets)
    if noise is not None:
        yield f"{noise.key} = {max(noise.values):.10g}{place}"
        place = ""  # stated once
    if charge.count > 1:
        runs = _solved(pipeline, entry, "epochs" if entry.epochs is not None else "steps", targets)
        if runs is not None:
            yield f"{runs.key} = {min(runs.values):.10g}{place}"


def _solved(pipeline: Pipeline, entry: Entry, parameter: Parameter, targets: Sequence[Target]) -> SolvedKey | None:
    """Return the values that meet the targets; None if the entry has no key for this parameter, or if a target cannot be met."""
    from dpcli.analysis.calibrate import calibrate  # imported only if a file fails
    from dpcli.analysis.solved_keys import parameter_key

    key = parameter_key(entry, parameter)
    if key is None:
        return None
    with suppress(InputError, CannotCertify):
        chosen = ((entry.name, key),)
        solutions = [calibrate(pipeline, target.epsilon, target.delta, parameter, chosen, runs=target.runs) for target in targets]
        return SolvedKey(key, [solution.value for solution in solutions])
    return None
