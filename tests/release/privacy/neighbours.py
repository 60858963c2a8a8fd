"""A check of sensitivities: how far the exact numbers behind a query's noise move between two neighbouring tables.

`seen_of` answers a query without noise, and records every exact number to which noise would be added. `too_far` compares these records for
two neighbouring tables with the sensitivities for which the query's mechanisms are priced.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any
from unittest import mock

from dpcli.mechanisms.neighbours import Adjacency
from dpcli.release.aggregate import Totals
from dpcli.release.noise.laws import DiscreteGaussianLaw, DiscreteLaplaceLaw, NoiseLaw
from dpcli.release.noise.selection import SparseVectorLaws
from dpcli.release.query import QueryMechanism
from dpcli.release.query_entries import PricedQuery
from dpcli.release.stability.propose_test import StabilityTest, StableAnswer
from dpcli.release.stability.stable_statistics import CountedNumbers, released_mean

Step = tuple[str, Any, Any]  # kind of draw, exact numbers, noise


@dataclass
class Seen:
    """A record of every exact number to which noise would be added, in order. Its methods replace those that draw noise."""

    steps: list[Step] = field(default_factory=list)

    def noisy(self, values: Sequence[int], law: NoiseLaw) -> list[int]:
        self.steps.append(("vector", tuple(values), law))
        return list(values)

    def noised(self, exact: Mapping[Any, int], release: QueryMechanism) -> dict[Any, int]:
        self.steps.append(("keyed", dict(exact), release.law))
        return dict(exact)

    def draw(self, scale: float) -> int:
        self.steps.append(("draw", None, scale))
        return 0

    def top_k(self, scores: Sequence[int], k: int, score_range: int, epsilon: float) -> list[int]:
        self.steps.append(("bounded-range", tuple(scores), (k, score_range, epsilon)))
        return list(range(k))

    def choose(self, scores: Sequence[int], score_range: int, epsilon: float) -> int:
        self.steps.append(("bounded-range", tuple(scores), (1, score_range, epsilon)))
        return 0

    def flip(self, scores: Sequence[int], score_range: int, epsilon: float) -> int:
        self.steps.append(("permute-and-flip", tuple(scores), (1, score_range, epsilon)))
        return 0

    def above(self, counts: Sequence[int], threshold: int, laws: SparseVectorLaws) -> list[bool]:
        self.steps.append(("sparse-vector", tuple(counts), laws))
        return [False] * len(counts)

    def clustered(
        self, numbers: CountedNumbers, width: int, test: StabilityTest, sigma: float, draw: Any, gaussian: Any, count: int | None
    ) -> float | None:
        self.steps.append(("numbers", (numbers, width), count))
        return released_mean(numbers, width, test, sigma, draw, gaussian, count)

    def released(self, test: StabilityTest, found: StableAnswer[Any], draw: Any) -> Any:
        self.steps.append(("test", found, (test.epsilon, test.delta)))
        return found.answer


@contextmanager
def watched() -> Iterator[Seen]:
    """Replace all draws of noise within this context, and return the record."""
    seen = Seen()
    places = {
        "noisy_answers.add_noise": seen.noised,
        "measures.counting.add_noise": seen.noised,
        "measures.averages.add_noise": seen.noised,
        "measures.weighted_counts.noisy": seen.noisy,
        "noise.selection.top_k": seen.top_k,
        "noise.selection.exponential": seen.choose,
        "noise.selection.permute_and_flip": seen.flip,
        "noise.selection.above_threshold": seen.above,
        "noisy_answers.laplace_draw": seen.draw,
        "measures.stable.released_mean": seen.clustered,
        "measures.stable.laplace_draw": seen.draw,
        "measures.stable.gaussian_draw": seen.draw,
    }
    with ExitStack() as stack:
        for place, watch in places.items():
            stack.enter_context(mock.patch(f"dpcli.release.{place}", watch))
        stack.enter_context(mock.patch.object(StabilityTest, "released", lambda *arguments: seen.released(*arguments)))
        yield seen


def seen_of(one: PricedQuery, totals: Totals) -> list[Step]:
    """Return the record of an answer to these totals."""
    with watched() as seen:
        one.query.answer(one.setting, totals)
    return seen.steps


def too_far(one: PricedQuery, old: Sequence[Step], new: Sequence[Step]) -> list[str]:
    """Return, in words, each number that moved further than its mechanism is priced for, and each noise that is not the priced one."""
    found: list[str] = []
    changed = 0  # choices whose scores move apart
    releases = list(one.mechanisms)
    for kind, _, scale in (*old, *new):
        if kind == "draw" and scale != releases[-1].keys.get("scale", releases[-1].keys.get("sigma")):
            found.append(f"noise of {scale}, priced as {dict(releases[-1].keys)}")
    for (kind, before, law), (same, after, again) in zip(
        *([each for each in side if each[0] != "draw"] for side in (old, new)), strict=True
    ):
        if (kind, law) != (same, again):
            return [f"{kind} with {law}, {same} with {again}"]
        release = releases[0]
        if kind in ("vector", "keyed"):
            found += _vector(one, release, before, after, law)
            releases.pop(0)
        elif kind in ("bounded-range", "permute-and-flip"):
            choices, reach, epsilon = law
            moves = [b - a for a, b in zip(before, after, strict=True)]
            expected = "exponential" if kind == "bounded-range" else "permute-and-flip"
            if (release.type, release.keys["epsilon"]) != (expected, epsilon):
                found.append(f"{kind} at {epsilon} is priced as {release.type} with {dict(release.keys)}")
            changed += choices if max(moves) > min(moves) else 0
            if max(moves) - min(moves) > reach:
                found.append(f"scores move apart by {max(moves) - min(moves)}, said: {reach}")
        elif kind == "sparse-vector":
            most = max(abs(b - a) for a, b in zip(before, after, strict=True))
            stated = (law.epsilon, law.answers)
            if stated != (release.keys["epsilon"], release.keys["answers"]) or most > law.sensitivity:
                found.append(f"counts move by {most}, said: {law}, priced as {dict(release.keys)}")
        elif kind == "numbers":
            found += _clustered(one, before, after, count=law)
        elif kind == "test":
            found += _test(one, before, after, law)
    if kind in ("bounded-range", "permute-and-flip"):
        made, priced = sum(each[2][0] for each in old), one.mechanisms[0].runs
        if changed > priced or made < priced or (made > priced and not one.query.by):
            found.append(f"{made} choices, {changed} of which see the change, priced: {priced}")
    return found


def _vector(one: PricedQuery, release: QueryMechanism, before: Any, after: Any, law: NoiseLaw) -> Iterator[str]:
    """Yield the faults of one vector of counts or sums.

    If keys are not declared, a key that one table lacks counts as 0 there, as sums are released only for keys that the histogram has shown.
    """
    keys = release.keys
    if isinstance(before, dict):
        everywhere = before.keys() | after.keys()
        moves = [abs(before.get(key, 0) - after.get(key, 0)) for key in everywhere]
    else:
        everywhere, moves = set(), [abs(b - a) for a, b in zip(before, after, strict=True)]
    l1, squared = sum(moves), sum(each * each for each in moves)
    if release.type == "stability-histogram":
        own = [[key for key in one if key not in other] for one, other in ((before, after), (after, before))]
        if any(len(each) > keys["max_groups"] for each in own):
            yield f"{own} keys of its own"
        if any(whole[key] > keys["max_rows"] for each, whole in zip(own, (before, after), strict=True) for key in each):
            yield f"a key of its own with more than {keys['max_rows']} rows"
        if max(moves, default=0) > keys["max_rows"]:
            yield f"a key moves by {max(moves)}"
        both = 2 if one.setting.adjacency is Adjacency.REPLACE_ONE else 1
        if sum(1 for each in moves if each) > both * keys["max_groups"]:
            yield f"{moves}: more than {keys['max_groups']} keys of each version move"
        if law.spread != keys.get("scale", keys.get("sigma")):
            yield f"{law}, priced as {dict(keys)}"
        return
    if isinstance(before, dict) and before.keys() != after.keys() and not one.query.shows_keys:
        yield f"keys {before.keys() ^ after.keys()} are in one of them alone"
    if release.type == "discrete-laplace":
        if not isinstance(law, DiscreteLaplaceLaw) or law.scale != keys["scale"] or l1 > keys["sensitivity"]:
            yield f"L1 {l1} with {law}, priced as {dict(keys)}"
    elif not isinstance(law, DiscreteGaussianLaw) or law.sigma != keys["sigma"]:
        yield f"{law}, priced as {release.type} with {dict(keys)}"
    elif "dimension" in keys:
        if sum(1 for each in moves if each) > 1 or l1 > keys["sensitivity"]:
            yield f"moves {moves}, priced as {dict(keys)}"
    elif squared > Fraction(keys["l2_sensitivity"]) ** 2:
        yield f"squared L2 {squared}, priced as {dict(keys)}"


def _test(one: PricedQuery, before: StableAnswer[Any], after: StableAnswer[Any], law: tuple[float, float]) -> Iterator[str]:
    test, *noise = one.mechanisms
    if law != (test.keys["epsilon"], test.keys["delta"]) or test.type != "propose-test-release":
        yield f"a test at {law}, priced as {dict(test.keys)}"
    if abs(before.distance - after.distance) > 1 and (before.distance < 2**60 or after.distance < 2**60):
        yield f"distances {before.distance} and {after.distance}"
    differ = before.answer != after.answer
    if noise and noise[0].type == "discrete-laplace":
        differ = None in (before.answer, after.answer) and differ
        differ = differ or (before.answer is not None and abs(before.answer - after.answer) > noise[0].keys["sensitivity"])
    if differ and (before.distance, after.distance) != (0, 0):
        yield f"answers {before.answer} and {after.answer} with distances {before.distance} and {after.distance}"


def _clustered(one: PricedQuery, before: Any, after: Any, count: int | None) -> Iterator[str]:
    """Yield the faults of a mean around the fullest bin, if both tables have the same one: of its clamped sum and number of rows."""
    _, noise = one.mechanisms
    fullest = [_fullest(*each) for each in (before, after)]
    if None in fullest or fullest[0] != fullest[1]:
        return
    (numbers, width), (others, _) = before, after
    assert fullest[0] is not None
    low, high = (fullest[0] - 1) * width, (fullest[0] + 2) * width - 1
    sums = [
        sum(n * (min(max(value, low), high) - (low + high) // 2) for value, n in each.counts.items()) for each in (numbers, others)
    ]
    moved = abs(sums[1] - sums[0])
    if count is not None:
        if moved > noise.keys["sensitivity"]:
            yield f"the clamped sum moves by {moved}, priced as {dict(noise.keys)}"
        return
    rows = abs(sum(numbers.counts.values()) - sum(others.counts.values())) * -(-(3 * width - 1) // 2)
    if moved * moved + rows * rows > Fraction(noise.keys["l2_sensitivity"]) ** 2:
        yield f"sum and count move by {moved} and {rows}, priced as {dict(noise.keys)}"


def _fullest(numbers: CountedNumbers, width: int) -> int | None:
    bins: dict[int, int] = {}
    for value, count in numbers.counts.items():
        bins[value // width] = bins.get(value // width, 0) + count
    return max(sorted(bins), key=lambda each: bins[each]) if bins else None
