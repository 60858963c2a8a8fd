"""Measures by keys that need not be declared: a key is shown if enough rows or units have it.

The base class of count, sum, mean and variance. A *key* is a combination of values of the columns in `by`, and a *unit* is whom the release
protects, with all of its rows. A key that only one unit has would reveal the unit if it were shown. With keys = "threshold", a stability
histogram (mechanisms/choice/stability.py) adds noise to the count of each key in the data and shows the keys above a threshold. Its delta
bounds the probability of showing a key that only one unit has. With keys = "declared", all keys are listed in [source.columns]: each has an
answer, and the choice is free. Intervals are *joint* if all of an answer hold together with the stated confidence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from dpcli.base.fields import DELTA, Key, NeededSetting
from dpcli.file.toml.findings import Problem
from dpcli.release.noisy_answers import NumbersByKey, coverage
from dpcli.release.query import NoisyQuery, QueryMechanism

HIDDEN = "keys that few units have are not shown"
HIDDEN_COUNTS = (
    f"{HIDDEN}; a key whose true count is not far above {{:,}} is shown only if its noise was high: then its noisy count is too high, "
    "and the interval's confidence is lower than stated"
)
# Least and largest confidence that joint intervals of undeclared keys may have. With n keys, each interval needs the n-th root of it, which
# must be a double below 1 even for 2^40 keys. The root of 0.9999 would be rounded up to 1, an error after the charge. The least is
# arbitrary.
LEAST_JOINT, LARGEST_JOINT = 0.001, 0.999
# Settings without which others have no effect: `by` for keys and totals, and keys = "threshold" for delta.
OF_BY = NeededSetting("by", lambda query: bool(query.by))
OF_THRESHOLD = NeededSetting('keys = "threshold"', lambda query: query.keys == "threshold")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenKeysQuery(NoisyQuery):
    """A measure whose keys are all declared keys, or those keys in the data whose noisy count passes a threshold.

    With keys = "threshold", intervals can be joint only if their noises are independent of the choice of the keys. Proof that this is
    enough: Given the shown keys, whatever they are, the noises are then still independent and have their own distributions. So k intervals,
    each at confidence^(1/k), all hold with this confidence, for every set of k shown keys. If the noise of a count decides whether its key
    is shown, an interval of a shown key has no such confidence, and the number of keys that could have been shown is private.
    """

    independent_choice: ClassVar[bool] = False  # whether the noises of the intervals are independent of the choice of shown keys
    undeclared_advice: ClassVar[str] = 'keys = "threshold" in the query, which shows a key if enough units have it'

    keys: Annotated[
        Literal["declared", "threshold"],
        Key("keys of the answer: all declared keys, or keys that enough units have", needs=OF_BY),
    ] = "declared"
    delta: Annotated[
        float | None, Key("largest probability that a key which only one unit has is shown", DELTA, needs=OF_THRESHOLD)
    ] = None

    @property
    def shows_keys(self) -> bool:
        """Return whether the keys come from the data, and a noisy threshold decides which are shown."""
        return self.keys == "threshold"

    def problems(self) -> Iterator[Problem]:
        yield from NoisyQuery.problems(self)
        if self.shows_keys and not self.delta:
            yield ("delta",), 'a delta above 0 with keys = "threshold"', "none"
        if self.shows_keys and self.intervals == "joint":
            if not self.independent_choice:
                yield (
                    ("intervals",),
                    f'"each" for a {self.measure} with keys = "threshold", whose noise chooses the keys',
                    '"joint"',
                )
            elif not LEAST_JOINT <= self.confidence <= LARGEST_JOINT:
                expected = f"{LEAST_JOINT} to {LARGEST_JOINT} for joint intervals of undeclared keys"
                yield ("confidence",), expected, repr(self.confidence)

    def shown(self, counts: NumbersByKey, mechanism: QueryMechanism) -> NumbersByKey:
        """Return the noisy counts of the keys that are shown: all keys, or those whose noisy count exceeds the mechanism's threshold."""
        if not self.shows_keys:
            return counts
        return {key: count for key, count in counts.items() if count > mechanism.keys["threshold"]}

    def covers(self, mechanism: QueryMechanism) -> str:
        """Return words for the errors that the intervals cover. `mechanism` is the noise on the counts, which may also choose the keys."""
        if not self.shows_keys:
            return coverage(self)
        return f"{coverage(self)}; {HIDDEN_COUNTS.format(mechanism.keys['threshold'])}"

    def shown_words(self, mechanism: QueryMechanism, counted: str = "rows") -> str:
        """Return a clause that says when a key is shown; "" if all declared keys are."""
        if not self.shows_keys:
            return ""
        return f"; a key is shown if its noisy count of {counted} exceeds {mechanism.keys['threshold']:,}"
