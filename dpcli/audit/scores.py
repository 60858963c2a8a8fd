"""Attack scores of members and others, and how a test is chosen from them without deciding by what it is then judged on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dpcli.audit.binomial import tail
from dpcli.audit.two_run import Counts, ErrorRates, error_rates
from dpcli.base.errors import InputError
from dpcli.numerics.arrays import Array, np

if TYPE_CHECKING:
    from numpy.typing import NDArray

CHOOSING = 0.25  # share of the scores that choose the threshold; the others judge it
SHARES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)  # of the canaries, guessed about where no number of guesses was stated
SHUFFLE = 20230515  # fixed, so that nobody can try several shuffles; independent of who was a member
UNFAIR = 1e-9  # chance below which the coins of the canaries were not fair
HIGHEST = float(np.finfo(np.float64).max)
LEAST = 20  # scores of each kind that a split needs
MOST, END = 96, 16  # thresholds that are tried: over the whole range, and at either end of it


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """One score for each canary or run; higher means likelier a member.

    A score that is no number counts as the highest, beyond every threshold that is another score: where it comes up on one side alone, that
    tells who is a member as well as any number does.
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
        """Scores of members."""
        return self.values[self.members]

    @property
    def outside(self) -> Array:
        """Scores of the others."""
        return self.values[~self.members]

    def shuffled(self) -> Scores:
        """In an order that says nothing of who is a member, so that ties are broken without knowing that."""
        order = np.random.default_rng(SHUFFLE).permutation(len(self))
        return Scores(self.members[order], self.values[order])

    def halves(self) -> tuple[Scores, Scores]:
        """CHOOSING of the members and of the others, at random; and the rest."""
        mixed = self.shuffled()
        ranks = np.where(mixed.members, np.cumsum(mixed.members), np.cumsum(~mixed.members))
        sizes = np.where(mixed.members, len(self.inside), len(self.outside))
        first = ranks <= CHOOSING * sizes
        return Scores(mixed.members[first], mixed.values[first]), Scores(mixed.members[~first], mixed.values[~first])


@dataclass(frozen=True, slots=True)
class Threshold:
    """The test that says "member" above `at`, or below it where that told more in the scores that chose it."""

    at: float
    above: bool = True

    def counts(self, scores: Scores) -> Counts:
        """What the test does; a score equal to `at` is called "other"."""
        sign = 1.0 if self.above else -1.0
        inside, outside = sign * scores.inside > sign * self.at, sign * scores.outside > sign * self.at
        return Counts(len(inside), len(outside), int(inside.sum()), int(outside.sum()))


@dataclass(frozen=True, slots=True)
class Tested:
    """A test with its counts and the bounds on its error rates, which hold together; how it was chosen, in words."""

    threshold: Threshold | None
    counts: Counts
    rates: ErrorRates
    chosen: str


Merit = Callable[[Counts, float], float]  # how much a test proves at a significance


def by_split(scores: Scores, merit: Merit, significance: float) -> Tested:
    """Choose the threshold and its side on a quarter of the scores, judge it on the rest: no correction is needed.

    Chosen is what would prove most if the rest were like the quarter, of as many scores as will judge: at the quarter's own size no test of
    a rare leak proves anything.

    Raises InputError for fewer than LEAST members or others.
    """
    if min(len(scores.inside), len(scores.outside)) < LEAST:
        raise InputError(
            f"expected at least {LEAST} members and {LEAST} others to choose a threshold from, "
            f"found {len(scores.inside)} and {len(scores.outside)}; state a threshold, or collect more"
        )
    first, rest = scores.halves()
    sides = [Threshold(at, above) for above in (True, False) for at in _between(first)]
    best = max(sides, key=lambda one: merit(one.counts(first).of_so_many(len(rest.inside), len(rest.outside)), significance))
    counts = best.counts(rest)
    return Tested(
        best, counts, error_rates(counts, significance), f"threshold chosen on {len(first):,} scores, judged on the others"
    )


def by_bonferroni(scores: Scores, merit: Merit, significance: float) -> Tested:
    """The best of the thresholds at all scores, each at significance / scores.

    A threshold that is itself a score is no fixed test; but given that score all others are independent of it. It is counted against us:
    a member as missed, as it is not above itself, another as a false alarm. So there are as many tests as scores, however many of them
    are looked at, and each is exact.
    """
    each = significance / len(scores)
    best = max(_at_scores(scores), key=lambda one: merit(one[1], each))
    words = f"best of {len(scores):,} thresholds, each at {100.0 * each:.2g} %"
    return Tested(best[0], best[1], error_rates(best[1], each), words)


def _at_scores(scores: Scores) -> Iterator[tuple[Threshold, Counts]]:
    """Thresholds at scores, with counts in which that score itself is an error."""
    for at in _spaced(np.unique(scores.inside)).tolist():
        yield Threshold(at), Threshold(at).counts(scores)
    for at in _spaced(np.unique(scores.outside)).tolist():
        counts = Threshold(at).counts(scores)
        yield Threshold(at), replace(counts, false_positives=min(counts.false_positives + 1, counts.others))


def by_stated(scores: Scores, at: float, significance: float) -> Tested:
    """A threshold that was fixed before the scores were seen."""
    counts = Threshold(at).counts(scores)
    return Tested(Threshold(at), counts, error_rates(counts, significance), "threshold stated beforehand")


def _spaced(ordered: Array) -> Array:
    """At most MOST of increasing values, evenly by rank, and all of the END at either end, where small error rates are decided."""
    ranks = {*np.linspace(0, len(ordered) - 1, min(len(ordered), MOST)).astype(int).tolist()}
    ranks |= {i for i in range(len(ordered)) if i < END or i >= len(ordered) - END}
    return ordered[sorted(ranks)]


def _between(scores: Scores) -> list[float]:
    """Thresholds half way between neighbouring scores."""
    levels = np.unique(scores.values)
    found: list[float] = _spaced(0.5 * levels[1:] + 0.5 * levels[:-1]).tolist() if len(levels) > 1 else levels.tolist()
    return found


@dataclass(frozen=True, slots=True)
class Guessed:
    """Guesses about canaries, and how many of them were right; sides: which canaries were guessed about, in words."""

    canaries: int
    guesses: int
    correct: int
    sides: str = ""


def guess(scores: Scores, guesses: int, one_sided: bool) -> Guessed:
    """So many guesses, half of them at each end, or all at the high one. Ties are broken by a fixed shuffle."""
    if not 1 <= guesses <= len(scores):
        raise InputError(f"expected from 1 to {len(scores)} guesses, one for each canary at most, found {guesses}")
    mixed = scores.shuffled()
    order = np.argsort(mixed.values, kind="stable")
    low = 0 if one_sided else guesses // 2
    high = guesses - low
    right = mixed.members[order[len(order) - high :]].sum() + (~mixed.members[order[:low]]).sum()
    sides = f"the {high:,} highest" + (f" and {low:,} lowest" if low else "") + " scores"
    return Guessed(len(scores), guesses, int(right), sides)


def guess_counts(canaries: int) -> tuple[int, ...]:
    """The numbers of guesses that are tried where none was stated: fixed shares of the canaries."""
    return tuple(sorted({max(1, round(share * canaries)) for share in SHARES}))


def check_fair(scores: Scores) -> None:
    """Raise InputError where the canaries cannot have been put in by fair coins."""
    count, members = len(scores), len(scores.inside)
    further = max(members, count - members)
    if 2.0 * float(tail(count, 0.5, np.array([float(further)]))[0]) < UNFAIR:
        raise InputError(
            f"expected canaries that are in the run by the toss of a fair coin each, found {members} of {count}: "
            "the bound for one run does not hold for these"
        )
