"""Scores of an attack, which are read from a file, and membership tests that are chosen independently of the scores that evaluate them.

A finished run leaves `audit.json` in its folder. The audit reads no other file of the run:

    {"schema": "dpcli/canaries/v1", "neighbours": "add-remove",
     "canaries": [{"member": true, "score": 3.1}, {"member": false, "score": -0.4}, ...]}

with "gradients": [{"steps": 20, "rate": 0.1, "noise": 1.0}, ...] if the canaries were gradients.

`member` states whether a fair coin put the canary into the run. A higher `score` means that the canary is more likely a member. A file
without the schema contains only the list of canaries (json or csv), or counts. Counts have the keys {"canaries", "guesses", "correct"} or
{"members", "others", "true_positives", "false_positives"}.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dpcli.audit.bounds import Counts, ErrorRates, binomial_tail, error_rates, require_consistent_guesses
from dpcli.audit.gradient_scores import SampledSteps
from dpcli.base.errors import InputError
from dpcli.file.toml.limits import escaped_path
from dpcli.file.toml.shown import first_names
from dpcli.numerics.arrays import Array, np

if TYPE_CHECKING:
    from numpy.typing import NDArray

CHOOSING_SHARE = 0.25  # share of the scores that choose the threshold; the others test it
GUESS_SHARES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)  # shares of the canaries that an audit guesses about if no number is set
SHUFFLE_SEED = 20230515  # fixed, so that nobody can try several shuffles
UNFAIR_PROBABILITY = 1e-9  # coins are considered unfair if their outcome is less probable than this
HIGHEST = float(np.finfo(np.float64).max)
LEAST_SCORES = 20  # number of scores of members, and of others, that a split needs
SPREAD_THRESHOLDS, END_THRESHOLDS = 96, 16  # number of thresholds that are tried over the whole range, and at each end of it
# A function from the counts of a test and a significance to the merit of the test. A larger merit means a stronger proof.
Merit = Callable[[Counts, float], float]
RUN_FILE = "audit.json"
SCHEMA = "dpcli/canaries/v1"
MAX_BYTES = 256 * 1024 * 1024
FLAGS = {"1": True, "0": False, "true": True, "false": False, "in": True, "out": False}


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """The scores of canaries or runs. A higher score means that a canary or run is more likely a member.

    A score that is NaN counts as the highest score. If it occurs only for members, it reveals membership as well as any number.

    Attributes:
        members: Whether each canary or run is a member.
        values: The scores.
    """

    members: NDArray[np.bool_]
    values: Array

    def __post_init__(self) -> None:
        if self.members.shape != self.values.shape or self.members.ndim != 1 or not len(self.values):
            raise InputError(f"expected one member flag for each score, found {self.members.shape} and {self.values.shape}")
        object.__setattr__(self, "values", np.nan_to_num(self.values, nan=HIGHEST, posinf=HIGHEST, neginf=-HIGHEST))

    def __len__(self) -> int:
        return len(self.values)

    @property
    def inside(self) -> Array:
        """Return the scores of members."""
        return self.values[self.members]

    @property
    def outside(self) -> Array:
        """Return the scores of the others."""
        return self.values[~self.members]

    def shuffled(self) -> Scores:
        """Return the scores in a fixed random order, so that ties are broken independently of membership."""
        order = np.random.default_rng(SHUFFLE_SEED).permutation(len(self))
        return Scores(self.members[order], self.values[order])

    def split(self) -> tuple[Scores, Scores]:
        """Return a random share CHOOSING_SHARE of the members and of the others, and the remaining scores."""
        mixed = self.shuffled()
        ranks = np.where(mixed.members, np.cumsum(mixed.members), np.cumsum(~mixed.members))
        sizes = np.where(mixed.members, len(self.inside), len(self.outside))
        first = ranks <= CHOOSING_SHARE * sizes
        return Scores(mixed.members[first], mixed.values[first]), Scores(mixed.members[~first], mixed.values[~first])


@dataclass(frozen=True, slots=True)
class Threshold:
    """A test that says "member" for scores above `at`, or below `at` if `above` is False."""

    at: float
    above: bool = True

    def counts(self, scores: Scores) -> Counts:
        """Return the counts of the test. A score equal to `at` counts as "other"."""
        sign = 1.0 if self.above else -1.0
        inside, outside = sign * scores.inside > sign * self.at, sign * scores.outside > sign * self.at
        return Counts(len(inside), len(outside), int(inside.sum()), int(outside.sum()))


@dataclass(frozen=True, slots=True)
class JudgedTest:
    """A test with its counts, bounds on its error rates that hold jointly, and a description of the choice of its threshold."""

    threshold: Threshold | None
    counts: Counts
    rates: ErrorRates
    chosen: str


def by_split(scores: Scores, merit: Merit, significance: float) -> JudgedTest:
    """Choose the threshold and its side on a quarter of the scores, and test it on the rest. The test needs no correction.

    The chosen threshold would prove the most if the remaining scores had the same error rates. Its merit is computed for the number of
    remaining scores, because a test of a rare leak proves nothing with only a quarter of the scores.

    Raises:
        InputError: For fewer than LEAST_SCORES members or others.
    """
    if min(len(scores.inside), len(scores.outside)) < LEAST_SCORES:
        raise InputError(
            f"expected at least {LEAST_SCORES} members and {LEAST_SCORES} others for the choice of a threshold, "
            f"found {len(scores.inside)} and {len(scores.outside)}; set a threshold, or collect more scores"
        )
    first, rest = scores.split()
    sides = [Threshold(at, above) for above in (True, False) for at in _midpoints(first)]
    best = max(
        sides, key=lambda threshold: merit(threshold.counts(first).scaled(len(rest.inside), len(rest.outside)), significance)
    )
    counts = best.counts(rest)
    return JudgedTest(
        best, counts, error_rates(counts, significance), f"threshold chosen on {len(first):,} scores, tested on the others"
    )


def by_bonferroni(scores: Scores, merit: Merit, significance: float) -> JudgedTest:
    """Choose the best of the thresholds at all scores, each tested at the significance divided by the number of scores.

    A threshold that is itself a score is not a fixed test, but all other scores are independent of it. The score at the threshold counts as
    an error, which is a miss for a member and a false alarm otherwise. Each test is therefore exact. The correction is for as many tests as
    there are scores, even if fewer are tried.
    """
    per_test = significance / len(scores)
    threshold, counts = max(_tests_at_scores(scores), key=lambda test: merit(test[1], per_test))
    words = f"best of {len(scores):,} thresholds, each at {100.0 * per_test:.2g} %"
    return JudgedTest(threshold, counts, error_rates(counts, per_test), words)


def _tests_at_scores(scores: Scores) -> Iterator[tuple[Threshold, Counts]]:
    """Yield thresholds at scores, with counts in which the score at the threshold is an error."""
    for at in _spread_values(np.unique(scores.inside)).tolist():
        yield Threshold(at), Threshold(at).counts(scores)
    for at in _spread_values(np.unique(scores.outside)).tolist():
        counts = Threshold(at).counts(scores)
        yield Threshold(at), replace(counts, false_positives=min(counts.false_positives + 1, counts.others))


def by_stated(scores: Scores, at: float, significance: float) -> JudgedTest:
    """Test a threshold that was fixed before the scores were known."""
    counts = Threshold(at).counts(scores)
    return JudgedTest(Threshold(at), counts, error_rates(counts, significance), "threshold fixed beforehand")


def _spread_values(ordered: Array) -> Array:
    """Return up to SPREAD_THRESHOLDS of the values, evenly by rank, and END_THRESHOLDS at each end, which matter for small error rates."""
    ranks = {*np.linspace(0, len(ordered) - 1, min(len(ordered), SPREAD_THRESHOLDS)).astype(int).tolist()}
    ranks |= {i for i in range(len(ordered)) if i < END_THRESHOLDS or i >= len(ordered) - END_THRESHOLDS}
    return ordered[sorted(ranks)]


def _midpoints(scores: Scores) -> list[float]:
    """Return thresholds halfway between neighbouring scores."""
    levels = np.unique(scores.values)
    midpoints: list[float] = _spread_values(0.5 * levels[1:] + 0.5 * levels[:-1]).tolist() if len(levels) > 1 else levels.tolist()
    return midpoints


@dataclass(frozen=True, slots=True)
class Guessed:
    """The outcome of guesses about canaries.

    Attributes:
        canaries: Number of canaries.
        guesses: Number of canaries that were guessed about.
        correct: Number of right guesses.
        sides: Description of the canaries that were guessed about.
    """

    canaries: int
    guesses: int
    correct: int
    sides: str = ""


def guess(scores: Scores, guesses: int, one_sided: bool) -> Guessed:
    """Guess about the highest scores, and about as many of the lowest scores unless `one_sided`. A fixed shuffle breaks ties."""
    if not 1 <= guesses <= len(scores):
        raise InputError(f"expected from 1 to {len(scores)} guesses, at most one for each canary, found {guesses}")
    mixed = scores.shuffled()
    order = np.argsort(mixed.values, kind="stable")
    low = 0 if one_sided else guesses // 2
    high = guesses - low
    right = mixed.members[order[len(order) - high :]].sum() + (~mixed.members[order[:low]]).sum()
    sides = f"the {high:,} highest" + (f" and {low:,} lowest" if low else "") + " scores"
    return Guessed(len(scores), guesses, int(right), sides)


def guess_counts(canaries: int) -> tuple[int, ...]:
    """Return the numbers of guesses that are tried if the settings have none. They are fixed shares of the canaries."""
    return tuple(sorted({max(1, round(share * canaries)) for share in GUESS_SHARES}))


def check_fair(scores: Scores) -> None:
    """Check that the number of members is plausible for fair coins. Raises InputError if not."""
    count, members = len(scores), len(scores.inside)
    larger = max(members, count - members)
    if 2.0 * float(binomial_tail(count, 0.5, np.array([float(larger)]))[0]) < UNFAIR_PROBABILITY:
        raise InputError(
            f"expected canaries that fair coins put into the run, found {members} of {count} in it: "
            "the bound for one run holds only for fair coins"
        )


@dataclass(frozen=True, slots=True)
class Evidence:
    """The outcome of an attack, which consists of scores, of guesses about canaries, or of the counts of one test.

    Attributes:
        path: Path of the file, for messages.
        scores, guessed, counts: The outcome. Two of the three are None.
        neighbours: How the two datasets differ, if the file states it.
        gradients: None if the canaries are not gradients. Otherwise the steps that sampled them; empty if they are not drawn step by step.
    """

    path: str
    scores: Scores | None = None
    guessed: Guessed | None = None
    counts: Counts | None = None
    neighbours: str | None = None
    gradients: tuple[SampledSteps, ...] | None = None


def read_evidence(path: str) -> Evidence:
    """Return the scores, guesses or counts in a file, or in the file RUN_FILE of a folder.

    Raises:
        InputError: The file cannot be read or contains something else. The message names the row.
    """
    name = os.path.join(path, RUN_FILE) if os.path.isdir(path) else path
    shown, text = escaped_path(name), _read_text(name)
    if name.lower().endswith(".csv"):
        return _of_rows(shown, list(csv.DictReader(io.StringIO(text))))
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(f"{shown}: this is not json, and its name does not end in .csv") from None
    return _of_json(shown, document)


def _read_text(name: str) -> str:
    """Return the text of a regular file. Raises InputError if the file cannot be read or is too large."""
    try:
        if not stat.S_ISREG(os.stat(name).st_mode):
            raise InputError(f"{escaped_path(name)}: this is not a regular file")
        with open(name, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{escaped_path(name)}: {(error.strerror or 'an unreadable file').lower()}") from None
    if len(data) > MAX_BYTES:
        raise InputError(f"{escaped_path(name)}: expected at most {MAX_BYTES:,} bytes of scores")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{escaped_path(name)}: this is not UTF-8 text") from None


def _of_json(path: str, document: Any) -> Evidence:
    """Return the evidence in a JSON document, which is a list of rows, a table with canaries, or a table of counts."""
    if type(document) is list:
        return _of_rows(path, document)
    if type(document) is not dict:
        raise InputError(f"{path}: expected a table or a list, found {type(document).__name__}")
    if document.get("schema", SCHEMA) != SCHEMA:
        raise InputError(f"{path}: expected schema {SCHEMA!r}, found {document['schema']!r}")
    if type(document.get("canaries")) is list:
        evidence = _of_rows(path, document["canaries"])
        return Evidence(path, evidence.scores, evidence.guessed, None, document.get("neighbours"), _gradients(path, document))
    for keys, make in COUNTED.items():
        if set(keys) <= set(document):
            return make(path, [_count(path, key, document[key]) for key in keys])
    wanted = " or ".join("{" + ", ".join(keys) + "}" for keys in COUNTED)
    raise InputError(f"{path}: expected canaries, or counts {wanted}, found {first_names(sorted(document), 'nothing')}")


def _gradients(path: str, document: Mapping[str, Any]) -> tuple[SampledSteps, ...] | None:
    """Return the steps that sampled gradient canaries; None if the file has no such steps."""
    if "gradients" not in document:
        return None
    try:
        steps = tuple(SampledSteps(int(one["steps"]), float(one["rate"]), float(one["noise"])) for one in document["gradients"])
    except (TypeError, KeyError, ValueError, OverflowError):
        steps = (SampledSteps(0, 0.0, 0.0),)
    if not all(0 < step.steps <= 10**7 and 0.0 < step.rate <= 1.0 and 0.0 < step.noise < math.inf for step in steps):
        raise InputError(
            f"{path}: gradients: expected steps, rate and noise of each part of the run, found {str(document['gradients'])[:60]}"
        )
    return steps


def _guessed_counts(path: str, counts: list[int]) -> Evidence:
    canaries, guesses, correct = counts
    require_consistent_guesses(canaries, guesses, correct)
    return Evidence(path, guessed=Guessed(canaries, guesses, correct))


COUNTED: Mapping[tuple[str, ...], Callable[[str, list[int]], Evidence]] = {
    ("canaries", "guesses", "correct"): _guessed_counts,
    ("members", "others", "true_positives", "false_positives"): lambda path, counts: Evidence(path, counts=Counts(*counts)),
}


def _count(path: str, key: str, value: Any) -> int:
    if type(value) is not int or not 0 <= value <= 10**9:
        raise InputError(f"{path}: {key}: expected a whole number from 0 to 10^9, found {value!r}")
    return int(value)


def _of_rows(path: str, rows: Sequence[Any]) -> Evidence:
    """Return the evidence in rows with member and score, or with member and guess. An empty guess means that there was none."""
    if not rows or not all(type(row) is dict for row in rows):
        raise InputError(
            f"{path}: expected rows with member and score, or member and guess, found "
            f"{first_names(sorted({type(row).__name__ for row in rows}), 'no rows')}"
        )
    names = {str(name).strip().lower() for row in rows for name in row}
    if "member" not in names or len(names & {"score", "guess"}) != 1:
        raise InputError(f"{path}: expected columns member and score, or member and guess, found {first_names(sorted(names))}")
    plain = [{str(name).strip().lower(): value for name, value in row.items()} for row in rows]
    members = [_flag(path, i, "member", row.get("member")) for i, row in enumerate(plain, 1)]
    if "score" in names:
        values = [_number(path, i, row.get("score")) for i, row in enumerate(plain, 1)]
        return Evidence(path, Scores(np.array(members, dtype=bool), np.array(values, dtype=float)))
    guesses = [None if row.get("guess") in (None, "") else _flag(path, i, "guess", row["guess"]) for i, row in enumerate(plain, 1)]
    right = sum(answer is not None and answer == member for answer, member in zip(guesses, members, strict=True))
    return Evidence(path, guessed=Guessed(len(rows), len(guesses) - guesses.count(None), right))


def _flag(path: str, row: int, name: str, value: Any) -> bool:
    flag = FLAGS.get(str(value).strip().lower())
    if flag is None:
        raise InputError(f"{path}: row {row}: {name}: expected 0 or 1, found {value!r}")
    return flag


def _number(path: str, row: int, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InputError(f"{path}: row {row}: score: expected a number, found {value!r}") from None
