"""The [audit] table of a pipeline file, which sets how the program behind the file is audited.

Whatever decides the verdict is stated here, before the first score is known: a setting chosen after a look at the scores would prove
nothing. Of the three kinds of audit (audit_run.py), one-run guesses which canaries, inserted by coins, were in a run; two-run compares runs
with and without one record; replay repeats steps on both datasets. If a file states its kind, keys that only other kinds read are refused.

A `Key` annotates a key with its help text, the `Constraint` on its value and the `NeededSetting` without which it has no effect
(base/fields.py). A `Premise` is a condition of the verdict; it names who ensures it and a test that violates it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

from dpcli.base.errors import InputError
from dpcli.base.fields import COUNT, POSITIVE, Constraint, Key, NeededSetting
from dpcli.base.premise import Premise, Premises
from dpcli.file.keys.annotations import members_of
from dpcli.file.pipeline.read import section
from dpcli.file.toml.findings import Problem
from dpcli.file.toml.shown import quoted
from dpcli.mechanisms.neighbours import Adjacency

CONFIDENCE = Constraint("a number in (0.5, 1)", lambda x: 0.5 < x < 1, (("exclusiveMinimum", 0.5), ("exclusiveMaximum", 1)))
TRIALS = Constraint("a whole number from 1 to 10^8", lambda x: 1 <= x <= 10**8, (("minimum", 1), ("maximum", 10**8)))


def read_by(*kinds: str) -> NeededSetting:
    """Return the setting that a key of the given kinds of audit needs. A file without a kind may have the keys of all kinds."""
    return NeededSetting(" or ".join(f'kind = "{kind}"' for kind in kinds), lambda audit: audit.kind in (None, *kinds))


ONE_RUN = read_by("one-run")
TWO_RUN = read_by("two-run")
REPLAY = read_by("replay")
SCORED = read_by("one-run", "two-run")
REPEATED = read_by("two-run", "replay")


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """The [audit] table. Guesses, threshold and trials, which decide an audit, are fixed before the first score is known."""

    premises: ClassVar[Premises] = (
        Premise(
            "A separate fair coin decided for each canary whether it is in the data.",
            "audit, where it inserts them; elsewhere the author of the scores",
            "tests/audit/test_laws.py::test_unfair_coins_are_refused",
        ),
        Premise(
            "The guesses, the threshold or the test were fixed before the scores that evaluate them were known.",
            "audit",
            "tests/audit/test_laws.py::test_split_judges_other_scores_than_it_chose_on",
        ),
        Premise(
            "A program that is replayed reports all of its noise.",
            "audit, which runs it twice",
            "tests/audit/test_replay.py::test_noise_that_is_not_reported_fails",
        ),
    )

    kind: Annotated[
        Literal["one-run", "two-run", "replay"] | None,
        Key("one-run (canaries in one run), two-run (many runs with and without one record), replay (two runs, same randomness)"),
    ] = None
    confidence: Annotated[float, Key("1 minus the probability of failing a program whose claim is true", CONFIDENCE)] = 0.95
    scores: Annotated[
        str | None,
        Key("file of scores (csv, json), or folder of a finished run; with function, a file that stores its trials", needs=SCORED),
    ] = None
    canaries: Annotated[int | None, Key("number of canaries; a fair coin decides for each whether it is inserted", COUNT)] = None
    canary: Annotated[
        Literal["record", "gradient"],
        Key("record (made-up records) or gradient (gradients of norm C in the clipped sums; the run is then NOT PRIVATE)"),
    ] = "record"
    guesses: Annotated[
        int | None,
        Key("number of canaries that the audit guesses about; absent: several numbers, with a correction", COUNT, needs=ONE_RUN),
    ] = None
    one_sided: Annotated[
        bool, Key("guess about the highest scores only, for attacks whose low scores reveal little", needs=ONE_RUN)
    ] = False
    threshold: Annotated[
        float | None, Key("score above which a run is classified as one with the record, fixed beforehand", needs=TWO_RUN)
    ] = None
    choose: Annotated[
        Literal["split", "bonferroni"],
        Key(
            "choice of a threshold that is not stated: split (on a quarter of the scores) or bonferroni (on all, with a correction)",
            needs=TWO_RUN,
        ),
    ] = "split"
    function: Annotated[
        str | None, Key("module:function to audit: (dataset, rng) -> score, or for replay (dataset, rng) -> steps")
    ] = None
    data: Annotated[
        str | None,
        Key("module:function that makes a pair of neighbouring datasets: (rng) -> (with the record, without it)", needs=REPEATED),
    ] = None
    trials: Annotated[int | None, Key("runs on each of the two datasets; for replay, pairs of runs", TRIALS, needs=REPEATED)] = None
    seed: Annotated[
        int | None, Key("seed of the audit's random numbers; absent: drawn by the operating system", COUNT, needs=REPEATED)
    ] = None
    neighbours: Annotated[Adjacency | None, Key("how the two datasets of the audit differ; absent: as the file's adjacency")] = None
    sensitivity: Annotated[
        float | None, Key("replay: bound C on one record's contribution to the sum of a step (L2)", POSITIVE, needs=REPLAY)
    ] = None
    noise: Annotated[
        float | None,
        Key("replay: standard deviation of a step's noise; absent: noise_multiplier times sensitivity", POSITIVE, needs=REPLAY),
    ] = None

    def problems(self) -> Iterator[Problem]:
        """Yield (path of the key, expected value, value found) for keys that contradict each other or have a wrong form."""
        if self.guesses is not None and self.canaries is not None and self.guesses > self.canaries:
            yield ("guesses",), f"at most the number of canaries, {self.canaries}", str(self.guesses)
        for key in ("function", "data"):
            name = getattr(self, key)
            if name is not None and not all(part.isidentifier() for part in name.replace(":", ".").split(".")):
                yield (key,), "module:function", quoted(name)
        if self.kind == "one-run" and self.function is not None:
            yield ("function",), "scores for an audit of one run", "a function"


def read_settings(data: bytes, path: str) -> AuditSettings:
    """Return the [audit] table of a file, or the default settings if the file has none.

    Raises InvalidFile if the file has problems, each reported at its place.
    """
    table = section(data, path, "audit")
    return table if isinstance(table, AuditSettings) else AuditSettings()


def with_flags(settings: AuditSettings, flags: Mapping[str, Any]) -> AuditSettings:
    """Return the settings after flags have replaced keys.

    Raises InputError if a value is out of range, or contradicts another value.
    """
    members = members_of(AuditSettings)  # each key with its annotations; `rule` is its Constraint
    changes = {name: value for name, value in flags.items() if value is not None}
    for name, value in changes.items():
        flag, rule = f"--{name.replace('_', '-')}", members[name].rule
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"{flag}: expected a finite number, found {value!r}")
        if rule is not None and not rule.holds(value):
            raise InputError(f"{flag}: expected {rule.text}, found {value!r}")
    merged = replace(settings, **changes)
    for (key,), expected, actual in merged.problems():  # the first problem is enough for a message
        raise InputError(f"--{key}: expected {expected}, found {actual}")
    return merged
