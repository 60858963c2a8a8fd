"""Scores of an attack, and membership tests whose error rates allow for the choice of the threshold.

A *score* is a number that an attack gives to a canary (a record or gradient that a coin put into a run or left out) or to a run; a higher
one means "member": in the run, or a run with the record. A test says "member" beyond a threshold, and its *counts* give bounds on its error
rates (bounds.py). one_run.py guesses about canaries by `guess`; two_runs.py tests runs by a threshold.

A threshold that is chosen by the scores that test it would look better than it is: so it comes from other scores (`by_split`), pays for
every threshold that was possible (`by_bonferroni`), or was stated beforehand. Ties are broken by a fixed shuffle, since a favourable order
could be searched for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dpcli.audit.bounds import Counts, ErrorRates, binomial_tail, error_rates
from dpcli.base.errors import InputError
from dpcli.numerics.arrays import Array, np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The shares and numbers here were chosen by hand. They set what an audit can detect, and its time: every test has the stated significance.
CHOOSING_SHARE = 0.25  # share of the scores that choose the threshold; the others test it
GUESS_SHARES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)  # shares of the canaries that an audit guesses about if no number is set
LEAST_SCORES = 20  # number of scores of members, and of others, that a split needs
SPREAD_THRESHOLDS, END_THRESHOLDS = 96, 16  # number of thresholds that are tried over the whole range, and at each end of it
SHUFFLE_SEED = 20230515  # fixed, so that nobody can try several shuffles
UNFAIR_PROBABILITY = 1e-9  # coins are refused if their outcome is less probable than this; fair coins are refused no more often
HIGHEST = float(np.finfo(np.float64).max)  # replaces infinity and NaN, so that all scores can be compared
# A function from the counts of a test and a significance to the merit of the test. A larger merit means a stronger proof.
Merit = Callable[[Counts, float], float]


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
        """Return a random CHOOSING_SHARE of the members and of the others, which choose a threshold, and the rest, which test it."""
        mixed = self.shuffled()
        # Rank of each score among the members or among the others, so that both groups are divided in the same proportion.
        ranks = np.where(mixed.members, np.cumsum(mixed.members), np.cumsum(~mixed.members))
        sizes = np.where(mixed.members, len(self.inside), len(self.outside))
        chooses = ranks <= CHOOSING_SHARE * sizes
        return Scores(mixed.members[chooses], mixed.values[chooses]), Scores(mixed.members[~chooses], mixed.values[~chooses])


@dataclass(frozen=True, slots=True)
class Threshold:
    """A test that says "member" for scores above `at`, or below `at` if `above` is False."""

    at: float
    above: bool = True

    def counts(self, scores: Scores) -> Counts:
        """Return the counts of the test. A score equal to `at` counts as "other"."""
        is_positive = scores.values > self.at if self.above else scores.values < self.at
        true_positives = int((is_positive & scores.members).sum())
        members = int(scores.members.sum())
        return Counts(members, len(scores) - members, true_positives, int(is_positive.sum()) - true_positives)


@dataclass(frozen=True, slots=True)
class MembershipTest:
    """A test with its counts, bounds on its error rates that hold jointly, and a description of the choice of its threshold.

    The threshold is None if the counts were stated, and not computed from scores.
    """

    threshold: Threshold | None
    counts: Counts
    rates: ErrorRates
    chosen: str


def by_split(scores: Scores, merit: Merit, significance: float) -> MembershipTest:
    """Choose the threshold and its side on CHOOSING_SHARE of the scores, and test it on the others. The test needs no correction.

    The merit of a threshold assumes that the other scores have the same error rates. It is computed for their number, because a test of a
    rare leak proves nothing with the few scores that choose.

    Raises InputError for fewer than LEAST_SCORES members or others.
    """
    if min(len(scores.inside), len(scores.outside)) < LEAST_SCORES:
        raise InputError(
            f"expected at least {LEAST_SCORES} members and {LEAST_SCORES} others for the choice of a threshold, "
            f"found {len(scores.inside)} and {len(scores.outside)}; set a threshold, or collect more scores"
        )
    choosing, testing = scores.split()
    members, others = len(testing.inside), len(testing.outside)

    def expected_merit(threshold: Threshold) -> float:
        return merit(threshold.counts(choosing).scaled(members, others), significance)

    midpoints = _midpoints(choosing)
    candidates = [Threshold(at, above=True) for at in midpoints] + [Threshold(at, above=False) for at in midpoints]
    best = max(candidates, key=expected_merit)
    counts = best.counts(testing)
    chosen = f"threshold chosen on {len(choosing):,} scores, tested on the others"
    return MembershipTest(best, counts, error_rates(counts, significance), chosen)


def by_bonferroni(scores: Scores, merit: Merit, significance: float) -> MembershipTest:
    """Choose the best of the thresholds at all scores, each tested at the significance divided by the number of scores.

    A threshold at a score is independent of all other scores. The score itself counts as an error: a miss for a member, and a false alarm
    otherwise. Each test is therefore exact. The correction counts one test for each score, even if fewer are tried.
    """
    per_test = significance / len(scores)

    def merit_of(test: tuple[Threshold, Counts]) -> float:
        _, counts = test
        return merit(counts, per_test)

    threshold, counts = max(_tests_at_scores(scores), key=merit_of)
    chosen = f"best of {len(scores):,} thresholds, each at {100.0 * per_test:.2g} %"
    return MembershipTest(threshold, counts, error_rates(counts, per_test), chosen)


def _tests_at_scores(scores: Scores) -> Iterator[tuple[Threshold, Counts]]:
    """Yield thresholds at scores, with counts in which the score at the threshold is an error."""
    for at in _spread_values(np.unique(scores.inside)).tolist():
        threshold = Threshold(at)
        yield threshold, threshold.counts(scores)  # the member at the threshold counts as missed already
    for at in _spread_values(np.unique(scores.outside)).tolist():
        threshold = Threshold(at)
        counts = threshold.counts(scores)
        yield threshold, replace(counts, false_positives=min(counts.false_positives + 1, counts.others))


def by_stated(scores: Scores, at: float, significance: float) -> MembershipTest:
    """Test a threshold that was fixed before the scores were known."""
    counts = Threshold(at).counts(scores)
    return MembershipTest(Threshold(at), counts, error_rates(counts, significance), "threshold fixed beforehand")


def _spread_values(ordered: Array) -> Array:
    """Return up to SPREAD_THRESHOLDS of the values, evenly by rank, and END_THRESHOLDS at each end, which matter for small error rates."""
    count = len(ordered)
    spread = np.linspace(0, count - 1, min(count, SPREAD_THRESHOLDS)).astype(int)
    first = np.arange(min(count, END_THRESHOLDS))
    ranks = np.unique(np.concatenate([spread, first, count - 1 - first]))
    return np.asarray(ordered[ranks])


def _midpoints(scores: Scores) -> list[float]:
    """Return thresholds halfway between neighbouring scores."""
    levels = np.unique(scores.values)
    if len(levels) > 1:  # a single level has no midpoint, and is the threshold itself
        levels = _spread_values(0.5 * levels[1:] + 0.5 * levels[:-1])
    midpoints: list[float] = levels.tolist()
    return midpoints


@dataclass(frozen=True, slots=True)
class Guessed:
    """The outcome of guesses about canaries.

    Attributes:
        guesses: Number of canaries that were guessed about.
        correct: Number of right guesses.
        sides: Description of the canaries that were guessed about.
    """

    canaries: int
    guesses: int
    correct: int
    sides: str = ""


def guess(scores: Scores, guesses: int, one_sided: bool) -> Guessed:
    """Return the outcome of guesses about the highest scores, and about as many of the lowest scores unless `one_sided`.

    If the number of guesses is odd, one more guess is about the highest scores. A fixed shuffle breaks ties.

    Raises InputError if the number of guesses is 0 or exceeds the number of scores.
    """
    if not 1 <= guesses <= len(scores):
        raise InputError(f"expected from 1 to {len(scores)} guesses, at most one for each canary, found {guesses}")
    mixed = scores.shuffled()
    order = np.argsort(mixed.values, kind="stable")
    low = 0 if one_sided else guesses // 2
    high = guesses - low
    right_high = mixed.members[order[len(order) - high :]].sum()
    right_low = (~mixed.members[order[:low]]).sum()
    sides = f"the {high:,} highest and {low:,} lowest scores" if low else f"the {high:,} highest scores"
    return Guessed(len(scores), guesses, int(right_high + right_low), sides)


def guess_counts(canaries: int) -> tuple[int, ...]:
    """Return the numbers of guesses that are tried if the settings have none. They are fixed shares of the canaries."""
    return tuple(sorted({max(1, round(share * canaries)) for share in GUESS_SHARES}))


def require_fair(scores: Scores) -> None:
    """Raise InputError if the number of members is too far from half of the scores for fair coins (UNFAIR_PROBABILITY)."""
    count, members = len(scores), len(scores.inside)
    larger = max(members, count - members)
    if 2.0 * float(binomial_tail(count, 0.5, np.array([float(larger)]))[0]) < UNFAIR_PROBABILITY:
        raise InputError(
            f"expected canaries that fair coins put into the run, found {members} of {count} in it: "
            "the bound for one run holds only for fair coins"
        )
