"""The question turned round: which value of one parameter meets a target epsilon, always on the private side."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Literal, get_args

from dpcli.analysis.account import Account, account, needed_delta
from dpcli.base.displayed import Displayed
from dpcli.base.errors import CannotCertify, InputError
from dpcli.base.lazy import load
from dpcli.base.registry import ACCOUNTANTS
from dpcli.base.rounding import up
from dpcli.base.values import dataclass
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.pipeline.parts import together
from dpcli.file.pipeline.section import refuse_contradicted
from dpcli.file.toml.shown import first_names
from dpcli.lint.delta import mark
from dpcli.numerics.work import exhausted, limited

Parameter = Literal["noise", "steps", "epochs", "batch-size", "rate", "scale", "radius"]
Scale = tuple[Callable[[int], float], Callable[[float], int]]  # from an index to its value, and back
DIGITS = 7  # answers are decimal numbers of this many significant digits
MANY, FAR = 256, 4  # steps with which a search begins; as a ratio: to the next number that is tried, until one is beyond
BESIDE = 1.5  # as a ratio: how near a value is to another that an accountant refused
REFUSALS = 4  # in a row, beyond which nothing further away is asked
HALVINGS = 6  # of what lies beyond a value that was refused
TIGHT = 1e-8  # relative width of an interval, below which others are not asked
COUNTED = frozenset({"steps", "batch-size"})
NOISE_KEYS = ("noise_multiplier", "sigma", "scale")
DRAWN_KEYS = frozenset({"steps", "epochs", "rate", "batch_size"})  # that entries of one sample have in common


@dataclass(frozen=True, slots=True)
class Calibration(Displayed):
    """The answer and its neighbour.

    value, upper: the cheapest value on a grid of seven significant digits (whole numbers for steps and batch size) whose certified
    epsilon meets the target, and that epsilon.
    target, delta: of epsilon; where `quantity` is another (analysis/goals.py), target, upper and cheaper_upper are of that.
    cheaper, cheaper_upper: the nearest cheaper value that was seen to fail, and its epsilon; None where the grid ends (a rate of 1, say).
    adjacent: whether that is the very next value on the grid; not so where every attempt takes much work, and the search ended early.
    """

    parameter: Parameter
    targets: tuple[tuple[str, str], ...]
    target: float
    delta: float | None
    value: float
    upper: float
    accountant: str
    cheaper: float | None
    cheaper_upper: float | None
    adjacent: bool
    pipeline: Pipeline
    group_size: int = 1
    runs: int = 1
    quantity: str = "epsilon"
    wording: str = "epsilon"

    __repr__ = Displayed.__repr__

    def _line(self) -> str:
        at = "" if self.delta is None else f" at delta = {self.delta!r}"
        at += mark(self.delta, self.pipeline.privacy.dataset_size)
        return f"{self.parameter} = {self.value:.10g}: {self.wording} <= {up(self.upper)}{at}, accountant: {self.accountant}"

    @property
    def epsilon(self) -> float | None:
        """The upper bound that was proved, at `delta`; None where the target was of another quantity."""
        return self.upper if self.quantity == "epsilon" else None

    @property
    def values(self) -> list[tuple[str, str, float]]:
        """(mechanism, key, value) as it goes into the file."""
        entries = {entry.name: entry for entry in self.pipeline.mechanisms}
        return [
            (name, key, self.number(float(getattr(entries[name].spec, key, self.value) or self.value)))
            for name, key in self.targets
        ]

    def number(self, value: float) -> float:
        """Return the value as the file states it: a count is a whole number."""
        return int(value) if self.parameter in COUNTED else value


@limited
def calibrate(
    pipeline: Pipeline,
    target_epsilon: float,
    delta: float | None = None,
    solve: Parameter = "noise",
    targets: Sequence[tuple[str, str]] | None = None,
    accountants: Sequence[str] | None = None,
    group_size: int = 1,
    runs: int = 1,
) -> Calibration:
    """Find the least noise, or the most steps, epochs, batch size, rate or radius, that keeps epsilon at most `target_epsilon`.

    Args:
        pipeline: every parameter but the one to be solved for stays as it is.
        target_epsilon: in nats, > 0.
        delta: at which epsilon is measured; as for `account` where None.
        solve: the parameter; "noise" and "scale" are lowered, the others raised.
        runs: of the whole pipeline, as for `account`.
        targets: (mechanism name, key) pairs that get the value; found in the pipeline where None and there is just one candidate.

    Returns:
        A value on the private side: its certified epsilon is at most the target, and that of the cheaper one is not.

    Raises:
        InputError: no or several candidates, or a section such as [federated] contradicts the answer. CannotCertify: no value meets the
            target.
    """
    if not 0.0 < target_epsilon < math.inf:
        raise InputError(f"expected a target epsilon > 0, found {target_epsilon!r}")
    _require_bounds(accountants)
    chosen = solvable(pipeline, targets, solve)
    best: dict[float, tuple[float, str, float]] = {}
    certified = ["exact"] if accountants is None else []  # an accountant whose interval leaves nothing for the others to gain
    refused: dict[
        str, list[float]
    ] = {}  # the values where they would take too much work, which they would at the values beside too

    def answered(candidate: Pipeline, value: float, names: Sequence[str] | None) -> Account:
        result = account(candidate, names, delta, group_size=group_size, runs=runs)
        for row in result.rows:
            if row.too_much:
                refused.setdefault(row.accountant.name, []).append(value)
        return result

    def upper(value: float) -> float:
        if value not in best:
            candidate = substitute(pipeline, chosen, value)
            if refused_by_keys(candidate):
                return math.inf
            result = answered(candidate, value, certified or _without(accountants, refused, value))
            if certified and not _tight(result):
                certified.clear()
                result = answered(candidate, value, _without(accountants, refused, value))
            row = result.listed
            if row is not None and accountants is None and _tight(result):
                certified[:] = [row.accountant.name]
            best[value] = (math.inf, "", result.delta) if row is None else (row.upper, row.accountant.name, result.delta)
        return best[value][0]

    try:
        value, cheaper, adjacent = searched(upper, target_epsilon, pipeline, chosen, solve)
    except CannotCertify:
        deltas = {used for _, _, used in best.values()}
        if deltas == {0.0} and (words := needed_delta(pipeline, 0.0)):
            raise CannotCertify(words) from None
        least = upper(1.0) if solve == "steps" else math.inf
        if target_epsilon < least < math.inf:
            raise CannotCertify(
                f"no number of steps brings epsilon to {target_epsilon:g}: one step already costs {up(least)}"
            ) from None
        raise
    epsilon, accountant, used = best[value]
    answer = substitute(pipeline, chosen, value)
    refuse_contradicted(answer)
    return Calibration(
        solve,
        chosen,
        target_epsilon,
        used,
        value,
        epsilon,
        accountant,
        cheaper,
        None if cheaper is None else upper(cheaper),
        adjacent,
        answer,
        group_size,
        runs,
    )


def solvable(pipeline: Pipeline, targets: Sequence[tuple[str, str]] | None, solve: Parameter) -> tuple[tuple[str, str], ...]:
    """Return the keys to solve for, with those that share their sample. Raises InputError as `calibrate` does."""
    if solve not in get_args(Parameter):
        raise InputError(f"expected a parameter among {', '.join(get_args(Parameter))}, found {solve!r}")
    return _with_companions(pipeline, targets if targets is not None else _find_targets(pipeline, solve))


def refused_by_keys(candidate: Pipeline) -> bool:
    """Return whether the file's own rules refuse the value."""
    return any(True for entry in candidate.mechanisms for _ in entry.spec.problems())


def searched(
    upper: Callable[[float], float],
    target: float,
    pipeline: Pipeline,
    chosen: Sequence[tuple[str, str]],
    solve: Parameter,
    quantity: str = "epsilon",
) -> tuple[float, float | None, bool]:
    """(value, cheaper value or None, whether they are neighbours). upper: of the quantity at a value. Raises CannotCertify."""
    return _search(upper, target, solve, _limit(pipeline, chosen, solve), _stated(pipeline, chosen), quantity)


def _without(accountants: Sequence[str] | None, refused: Mapping[str, Sequence[float]], value: float) -> Sequence[str] | None:
    """The accountants that did not refuse beside this value; all of them where none is left."""
    nearby = {name for name, values in refused.items() if any(value / BESIDE < old < value * BESIDE for old in values)}
    return [name for name in accountants or ACCOUNTANTS if name not in nearby] or accountants if nearby else accountants


def _tight(result: Account) -> bool:
    """Return whether no sound accountant could give a noticeably smaller bound."""
    return result.lower is not None and result.upper - result.lower <= TIGHT * result.upper


def _require_bounds(accountants: Sequence[str] | None) -> None:
    """Raises CannotCertify where all of the accountants asked for approximate: no value of anything meets a target for sure then."""
    if accountants and all(name in ACCOUNTANTS and not load(ACCOUNTANTS[name]).sound for name in accountants):
        names, one = ", ".join(dict.fromkeys(accountants)), len(set(accountants)) == 1
        what = (
            "is an approximation and cannot answer: its epsilon may be too small" if one else "are approximations and cannot answer"
        )
        raise CannotCertify(f"{names} {what}; leave out -a, or name an accountant that gives an upper bound, such as exact or pld")


def _search(
    upper: Callable[[float], float],
    target: float,
    solve: Parameter,
    limit: float,
    stated: float | None = None,
    quantity: str = "epsilon",
) -> tuple[float, float | None, bool]:
    """(value, cheaper value or None, whether they are neighbours), on a grid, so that both are exactly what is printed.

    stated: what the file has now. What is counted is looked for from there, or from MANY steps where that is more, as few steps are dear.
    """
    lowers = solve in ("noise", "scale")
    counts = solve in ("steps", "batch-size")
    place: Callable[[int], float] = _count if counts else _decimal
    index: Callable[[float], int] = _count_index if counts else _decimal_index
    sign = 1 if lowers else -1  # along the grid, `sign` times the index makes epsilon smaller

    tried: list[tuple[int, float]] = []

    def epsilon(i: int) -> float:
        tried.append((i, upper(place(i))))
        return tried[-1][1]

    last = index(limit) if math.isfinite(limit) else (10**18 if counts else _decimal_index(1e12))
    first = 1 if counts else _decimal_index(1e-9)
    counted = max(MANY if solve == "steps" else 1, index(stated or 1.0))
    start = min(max(counted if counts else _decimal_index(1e-3 if solve in ("rate", "epochs") else 1.0), first), last)
    walk = Walk(first, last, None if counts else 9 * 10 ** (DIGITS - 1) // 4)
    good, bad = _bracket(epsilon, target, start, sign, walk)
    if good is None:
        reach = f"between {place(first):g} and {place(last):g}"
        raise CannotCertify(
            f"no {solve} {reach} brings {quantity} to {target:g}: the rest of the pipeline, or one step alone, costs more"
        )
    if bad is None:
        return place(good), None, True
    while abs(good - bad) > 1 and not exhausted():  # with fewer digits where each attempt is dear
        middle = _secant(tried, (place, index), target, good, bad)
        value = epsilon(middle)
        if math.isinf(value):  # which says nothing of the values beyond: most of them may be within reach
            beyond = (bad - (bad - middle) // 2**halvings for halvings in range(1, HALVINGS + 1))
            middle, value = next(((i, e) for i in beyond if i != bad and (e := epsilon(i)) < math.inf), (middle, value))
        good, bad = (middle, bad) if value <= target else (good, middle)
    return place(good), place(bad), abs(good - bad) <= 1


@dataclass(frozen=True, slots=True)
class Walk:
    """Indices away from one, to the first or the last of the grid: in strides that double, or each FAR times the one before, or a part."""

    first: int
    last: int
    stride: int | None

    def away(self, at: int, direction: int) -> Iterator[int]:
        end, stride = self.last if direction > 0 else self.first, self.stride
        while at != end:
            if stride is None:
                at = min(at * FAR, end) if direction > 0 else max(at // FAR, end)
            else:
                at = min(max(at + direction * stride, self.first), self.last)
                stride *= 2
            yield at


def _bracket(epsilon: Callable[[int], float], target: float, start: int, sign: int, walk: Walk) -> tuple[int | None, int | None]:
    """Indices (good, bad) around the boundary; None for an end that the grid does not reach.

    An infinite epsilon may be a refusal of this one value, and no bound for those beyond: the walk goes past it.
    """
    now = epsilon(start)
    good, bad = (start, None) if now <= target else (None, start if now < math.inf else None)
    if good is None:
        for at in walk.away(start, sign):
            now = epsilon(at)
            if now <= target:
                good = at
                break
            bad = at if now < math.inf else bad
    if bad is not None:
        return good, bad
    refused = [] if good == start else [start]
    for at in walk.away(start, -sign):
        now = epsilon(at)
        if now <= target:
            good, refused = at, []
        elif now < math.inf:
            return good, at
        else:
            refused.append(at)
        if len(refused) > REFUSALS or exhausted():
            break
    return good, refused[0] if refused else None


def _secant(tried: list[tuple[int, float]], scale: Scale, target: float, good: int, bad: int) -> int:
    """An index strictly between: where the secant of log epsilon over log value, through the two nearest points, meets the target.

    Where that lies at an end or beyond, so near the end as late attempts have doubled; the middle on every eighth attempt, so that
    the bracket closes whatever the function does.
    """
    middle, inward = (good + bad) // 2, 1 if bad > good else -1
    near = sorted((abs(math.log(e / target)), i, math.log(e / target)) for i, e in tried if 0.0 < e < math.inf)[:2]
    if len(tried) % 8 == 0 or len(near) < 2 or near[0][2] == near[1][2]:
        return middle
    (_, i, f), (_, j, g) = near
    place, index = scale
    x, y = math.log(place(i)), math.log(place(j))
    root = min(max(x - f * (y - x) / (g - f), -700.0), 700.0)
    reach = 1 << max(len(tried) - 12, 0)
    low, high = sorted((good + inward * min(reach, abs(middle - good) or 1), bad - inward * min(reach, abs(middle - bad) or 1)))
    return min(max(index(math.exp(root)), low), high)


def _stated(pipeline: Pipeline, targets: Sequence[tuple[str, str]]) -> float | None:
    """The number that the file has for one key that is counted; None where it has none, or several keys are solved for."""
    if not targets or _with_companions(pipeline, targets[:1]) != tuple(targets):
        return None
    name, key = targets[0]
    entry = next((entry for entry in pipeline.mechanisms if entry.name == name), None)
    if entry is None:
        return None
    value = {"steps": entry.steps, "batch_size": getattr(entry.sampling, "batch_size", None)}.get(key)
    return float(value) if isinstance(value, int | float) else None


def _count(i: int) -> float:
    return i


def _count_index(x: float) -> int:
    return int(x)


def _decimal(i: int) -> float:
    """The i-th decimal of DIGITS significant digits, counted from 1e-20 upwards."""
    exponent, mantissa = divmod(i, 9 * 10 ** (DIGITS - 1))
    return float(f"{mantissa + 10 ** (DIGITS - 1)}e{exponent - 20 - DIGITS + 1}")


def _decimal_index(x: float) -> int:
    """Index of the largest such decimal that is at most x."""
    digits, exponent = f"{x:.{DIGITS + 10}e}".split("e")
    mantissa = int(digits.replace(".", "")[:DIGITS])
    decade: int = 9 * 10 ** (DIGITS - 1)
    return (int(exponent) + 20) * decade + mantissa - decade // 9


def substitute(pipeline: Pipeline, targets: Sequence[tuple[str, str]], value: float) -> Pipeline:
    """The pipeline with `value` in place of each target's key; several noises share one ratio of noise to sensitivity.

    What says how a sample is drawn is replaced in all entries that share it.
    """
    keys = dict(_with_companions(pipeline, targets))
    shared = len(keys) > 1
    return replace(
        pipeline, mechanisms=tuple(_with(e, keys[e.name], value, shared) if e.name in keys else e for e in pipeline.mechanisms)
    )


def _with_companions(pipeline: Pipeline, targets: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The targets, and the same key of every entry that shares the sample of one, where it is about the draw."""
    entries = {entry.name: entry for entry in pipeline.mechanisms}
    result = (
        (other.name, key)
        for name, key in targets
        for other in (together(entries[name], pipeline.mechanisms) if name in entries and key in DRAWN_KEYS else ())
    )
    return tuple(dict.fromkeys((*targets, *result)))


def _with(entry: Entry, key: str, value: float, shared: bool) -> Entry:
    sampling: Any = entry.sampling
    changes: dict[str, Callable[[], dict[str, Any]]] = {
        "steps": lambda: {"steps": int(value), "epochs": None},
        "epochs": lambda: {"epochs": value},
        "rate": lambda: {"sampling": replace(sampling, rate=value, batch_size=None)},
        "batch_size": lambda: {"sampling": replace(sampling, rate=None, batch_size=int(value))},
    }
    if key in changes:
        return replace(entry, **changes[key]())
    spec: Any = entry.spec
    stated = (getattr(spec, name, None) for name in ("sensitivity", "l2_sensitivity"))
    times = next((result for result in stated if result is not None), None) if shared and key in ("sigma", "scale") else None
    return replace(entry, spec=replace(spec, **{key: value * (times or 1.0)}))


def _find_targets(pipeline: Pipeline, solve: Parameter) -> tuple[tuple[str, str], ...]:
    """The one entry whose parameter can be solved for."""
    result = [(entry.name, key) for entry in pipeline.mechanisms if (key := parameter_key(entry, solve)) is not None]
    if result and set(_with_companions(pipeline, result[:1])) >= set(result):
        return tuple(result)
    if not result:
        raise InputError(none_has(pipeline.mechanisms, solve))
    if len(result) > 1:
        names = first_names(name for name, _ in result)
        raise InputError(f"expected one mechanism whose {solve} can be solved for, found {names}: name one (--mechanism NAME)")
    return tuple(result)


def none_has(entries: Sequence[Entry], solve: Parameter, name: str | None = None) -> str:
    """Words for: none of some entries, or the one that was named, has a parameter; and which of the others there are."""
    article = "a " if solve in ("scale", "rate", "batch-size", "radius") else ""
    who = f"no mechanism has {article}{solve}" if name is None else f'"{name}" has no {solve}'
    *others, last = [other for other in get_args(Parameter) if any(parameter_key(entry, other) for entry in entries)] or [""]
    known = f"{', '.join(others)} or {last}" if others else last
    return f"{who}; use --solve {known}" if known else who


def parameter_key(entry: Entry, solve: Parameter) -> str | None:
    """The key of an entry that `solve` would change, None where it has none."""
    if solve in ("noise", "scale"):
        if entry.spec.fixed_threshold:
            return None
        keys = NOISE_KEYS if solve == "noise" else ("scale",)
        stated = [f.name for f in fields(entry.spec) if f.name in keys and getattr(entry.spec, f.name) is not None]  # type: ignore[arg-type]
        return stated[0] if stated else None
    if solve == "steps":
        return None if entry.spec.free else "steps"
    if solve == "radius":
        return "radius" if hasattr(entry.spec, "radius") else None
    batched = entry.sampling is not None and hasattr(entry.sampling, "rate")
    return {"epochs": "epochs", "rate": "rate", "batch-size": "batch_size"}[solve] if batched else None


def _limit(pipeline: Pipeline, targets: Sequence[tuple[str, str]], solve: Parameter) -> float:
    if solve == "batch-size":
        if pipeline.privacy.dataset_size is None:
            raise InputError("privacy.dataset_size is missing: solving for the batch size needs it")
        return pipeline.privacy.dataset_size
    return 1.0 if solve == "rate" else math.inf
