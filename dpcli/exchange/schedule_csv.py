"""Import of a csv with the noise of each step or stage. It becomes one entry, in which a list replaces each column that varies.

`dpcli import schedule` calls `file_of_schedule`, which returns the text of a pipeline file. A *stage* is a number of steps with the same
noise and sampling; an *entry* is a [[mechanism]] table. Columns may have the names of other tools (COLUMN_SYNONYMS), and the new file says
which were renamed; an unknown column is refused unless --ignore names it. One entry with lists means successive stages of one run, as the
rows do; several entries would mean several samples. opacus/phases.py makes entries of a history with the same functions.
"""

from __future__ import annotations

import csv
import io
import math
import re
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from dpcli.base.errors import InputError
from dpcli.base.fields import COUNT, POSITIVE, RATE_OR_ZERO, Constraint
from dpcli.exchange.foreign import EVERY_STEP, Asserted, file_of, name_in_words
from dpcli.file.pipeline.series import MAX_ENTRIES
from dpcli.file.toml.shown import escaped

Number = int | float
Row = tuple[Number, ...]  # the values of the known columns, in the order of the header
Stage = Mapping[str, Number]  # the values of a stage, by the keys of an entry

# Largest size of a csv, to bound memory. It exceeds that of a pipeline file, because equal rows become one stage.
MOST_BYTES = 64 * 1024 * 1024
LONGEST_CELL, LONGEST_HEADER = 40, 200  # messages show at most so many characters of a cell and of a header; arbitrary
WIDTH = 120  # lines with lists in the new file are wrapped at this width
NO_BREAK_SPACE = "\xa0"  # a space at which `textwrap` does not break a line
LIST_KEYS = ("noise_multiplier = ", "steps = ", "sampling = ")  # beginnings of lines that may hold long lists of numbers
COLUMN_SYNONYMS = {  # names in Opacus, the PRV accountant and TensorFlow Privacy
    "sigma": "noise_multiplier",
    "noise": "noise_multiplier",
    "q": "sampling_rate",
    "sample_rate": "sampling_rate",
    "sampling_probability": "sampling_rate",
    "num_steps": "steps",
}
SAMPLING = {"sampling_rate": "rate", "batch_size": "batch_size"}  # keys of the sampling table by column


def merged_stages(rows: Iterable[Stage]) -> list[dict[str, Number]]:
    """Merge consecutive rows that differ only in their steps. The steps are added up."""
    stages: list[dict[str, Number]] = []
    for row in rows:
        if stages and {**stages[-1], "steps": 0} == {**row, "steps": 0}:
            stages[-1]["steps"] += row["steps"]
        else:
            stages.append(dict(row))
    return stages


def staged_entry(name: str, stages: Sequence[Stage], scheme: str) -> dict[str, Any]:
    """Return an entry of Gaussian noise that has all stages in their order. A value that all stages share is a number, not a list.

    The stages must be merged; all have noise_multiplier, steps, and the same keys of sampling. Raises InputError if there are no stages, or
    more than `MAX_ENTRIES`.
    """
    if not 0 < len(stages) <= MAX_ENTRIES:
        raise InputError(f"expected 1 to {MAX_ENTRIES:,} stages after equal consecutive ones were merged, found {len(stages):,}")
    columns = {key: _joint_value([stage[key] for stage in stages]) for key in stages[0]}
    noise, steps = columns.pop("noise_multiplier"), columns.pop("steps")
    entry: dict[str, Any] = {"name": name, "type": "gaussian"}
    if len(stages) > 1:
        entry["sample"] = "own"  # each stage draws samples that no other stage reads
    return entry | {"noise_multiplier": noise, "steps": steps, "sampling": {"scheme": scheme, **columns}}


def _joint_value(values: Sequence[Number]) -> Number | list[Number]:
    """Return the common value of all stages; the list of values if they differ."""
    return values[0] if len(set(values)) == 1 else list(values)


def wrapped(line: str) -> list[str]:
    """Split a line at the commas of a long list of numbers. Other lines are returned unchanged."""
    if not line.startswith(LIST_KEYS) or len(line) <= WIDTH:
        return [line]
    # Spaces outside of the brackets are replaced while the line is wrapped, so that it is broken only between numbers.
    unbreakable = re.sub(r"(?:^|\])[^\[]*", lambda outside: outside.group().replace(" ", NO_BREAK_SPACE), line)
    parts = textwrap.wrap(unbreakable, WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return [part.replace(NO_BREAK_SPACE, " ") for part in parts]


@dataclass(frozen=True, slots=True)
class ScheduleColumn:
    """The type of the cells of a column, and the constraint on their values."""

    number_type: Callable[[str], Number]
    rule: Constraint

    def value(self, text: str) -> Number:
        """Return the number in a cell. Raises InputError for another text."""
        try:
            number = self.number_type(text)
            if math.isfinite(number) and self.rule.holds(number):
                return number
        except (ValueError, OverflowError):
            pass
        raise InputError(f"expected {self.rule.text}, found {escaped(text[:LONGEST_CELL]) or 'nothing'}")


COLUMNS = {
    "noise_multiplier": ScheduleColumn(float, POSITIVE),
    "sampling_rate": ScheduleColumn(float, RATE_OR_ZERO),
    "batch_size": ScheduleColumn(int, COUNT),
    "steps": ScheduleColumn(int, COUNT),
}


def file_of_schedule(data: bytes, asserted: Asserted, ignored: Collection[str], place: str) -> str:
    """Return the text of the pipeline file for a csv. Equal consecutive rows become one stage.

    `asserted` has the keys of [privacy] that the user states, `ignored` the columns that --ignore names, and `place` names the record in
    messages.

    Every batch must be a Poisson sample. With shuffled batches, a stage may begin within a pass, and a record may then be in two of its
    batches. Unknown columns that are not ignored are refused, as one might state how often a row counts.
    """
    if asserted.adjacency is None:
        raise InputError(f"{place}: a schedule does not state its adjacency: give --adjacency add-remove, or another")
    schedule = _read(data, ignored, place)
    keys = [SAMPLING.get(name, name) for name in schedule.columns]
    stages = merged_stages({"steps": 1, **dict(zip(keys, row, strict=True))} for row in schedule.rows)
    entry = staged_entry("schedule", stages, "poisson")
    steps = sum(int(stage["steps"]) for stage in stages)
    privacy = {**asserted.table, **EVERY_STEP}  # the cost covers the model after every step
    renamings = (f"Column {old} is read as {new}." for old, new in schedule.renamed.items())
    heading = (f"From {escaped(place)}: {steps:,} steps.", *renamings)
    return file_of({"format": 1, "privacy": privacy, "mechanism": [entry]}, heading, {}, place, wrapped)


class NoiseSchedule(NamedTuple):
    """The known columns of a csv, their values in each row, and the columns that were renamed: the name in the file, and the new name."""

    columns: list[str]
    rows: Iterator[Row]
    renamed: dict[str, str]


def _read(data: bytes, ignored: Collection[str], place: str) -> NoiseSchedule:
    """Return the schedule in a csv. Its rows are read later, one by one. Raises InputError for another header row."""
    try:
        lines = csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True)
        head = [name.strip() for name in next(lines, [])]
    except (UnicodeDecodeError, csv.Error):
        raise InputError(f"{place}: not a csv in UTF-8") from None
    renamed = {name: COLUMN_SYNONYMS[name] for name in head if name in COLUMN_SYNONYMS and name not in ignored}
    head = [renamed.get(name, name) for name in head]
    known = [name for name in head if name in COLUMNS]
    unknown_columns = [name for name in head if name not in COLUMNS and name not in ignored]
    if "noise_multiplier" not in known or not SAMPLING.keys() & set(known) or len(set(known)) < len(known):
        header = ", ".join(map(escaped, head))[:LONGEST_HEADER] or "an empty row"
        raise InputError(
            f"{place}:1: expected a header row with noise_multiplier, sampling_rate or batch_size, and steps if a row stands for several, "
            f"each once; found {header}"
        )
    if unknown_columns:
        raise InputError(
            f"{place}:1: expected the columns {', '.join(COLUMNS)}, found {name_in_words(unknown_columns[0])} too: rename it, "
            "or use --ignore if it does not concern noise, samples or steps"
        )
    return NoiseSchedule(known, _rows(lines, head, known, place), renamed)


def _rows(lines: Any, head: Sequence[str], known: Sequence[str], place: str) -> Iterator[Row]:
    """Yield the values of the known columns in each row. Raises InputError with the line of an invalid row."""
    columns = [(COLUMNS[name], head.index(name)) for name in known]
    try:
        for cells in lines:
            if not cells:
                continue
            if len(cells) != len(head):
                raise InputError(f"expected {len(head)} values, as the header row has, found {len(cells)}")
            yield tuple(column.value(cells[index].strip()) for column, index in columns)
    except csv.Error:
        raise InputError(f"{place}:{lines.line_num}: not csv") from None
    except InputError as error:
        raise InputError(f"{place}:{lines.line_num}: {error}") from None
