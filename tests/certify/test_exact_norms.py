"""Squared sensitivities of matrix mechanisms as exact fractions, which certificates state: against every pattern of participation, and
against the doubles of the accountants, which are rounded up from them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest

from dpcli.certify import exact_norms
from dpcli.certify.certified_parts import certified_parts
from dpcli.certify.exact_norms import squared_norm
from dpcli.file.pipeline.read import parse
from dpcli.mechanisms.noise.correlated import BandedSpec, BufferedToeplitzSpec, CorrelatedSpec, ToeplitzSpec, TreeSpec
from dpcli.mechanisms.noise.discrete_gaussian import DiscreteGaussianSpec
from tests.cases import by_tier, fresh_random

Matrix = list[list[Fraction]]
SMALL, MIDDLE = 9, 3000  # steps
ROUNDING = Fraction(11, 10**13)  # relative: the accountants' factor of 1 + 1e-12, and a tenth of it for their sums and powers


def decimals(random: Random, count: int, most: float) -> list[float]:
    return [float(f"{random.uniform(0.0, most):.{random.randint(1, 5)}g}") for _ in range(count)]


def setting(random: Random, steps: int) -> dict[str, float | int]:
    n = random.randint(1, steps)
    return {
        "noise_multiplier": float(f"{10.0 ** random.uniform(-1.0, 2.0):.4g}"),
        "iterations": n,
        "min_separation": random.choice([1, random.randint(1, n), random.randint(1, max(n // 4, 1))]),
        "max_participations": random.choice([1, random.randint(1, n), random.randint(1, max(n // 4, 1))]),
    }


def tree(random: Random, steps: int) -> CorrelatedSpec:
    spec = TreeSpec(**setting(random, steps))  # type: ignore[arg-type]
    cut = random.randint(0, spec.iterations - 1)  # one tree, or two
    return replace(spec, trees=(cut, spec.iterations - cut)) if cut else spec


def stated(random: Random, steps: int) -> CorrelatedSpec:
    column = sorted((1e-3 + x for x in decimals(random, random.randint(1, 6), 2.0)), reverse=True)
    return ToeplitzSpec(**setting(random, steps), coefficients=tuple(column))  # type: ignore[arg-type]


def square_root(random: Random, steps: int) -> CorrelatedSpec:
    return ToeplitzSpec(**setting(random, steps), bands=random.randint(1, steps))  # type: ignore[arg-type]


def buffered(random: Random, steps: int) -> CorrelatedSpec:
    count = random.randint(1, 3)
    scales = [x for x in decimals(random, count, 1.0 / count) if x > 0.0]
    decays = decimals(random, len(scales), 1.0)
    return BufferedToeplitzSpec(**setting(random, steps), buf_decay=tuple(decays), output_scale=tuple(scales))  # type: ignore[arg-type]


def banded(random: Random, steps: int) -> CorrelatedSpec:
    keys = setting(random, min(steps, 100))
    return BandedSpec(**keys, bands=random.randint(1, int(keys["min_separation"])))  # type: ignore[arg-type]


KINDS: list[Callable[[Random, int], CorrelatedSpec]] = [tree, stated, square_root, buffered, banded]


def encoder(spec: CorrelatedSpec) -> Matrix:
    """Return the encoder by its definition, from the decimals."""
    n = spec.iterations
    if isinstance(spec, TreeSpec):
        powers = [2**level for level in range(n.bit_length())]
        ends = [0, *itertools.accumulate(spec.sizes)]
        nodes = [
            (node, node + size)
            for start, end in itertools.pairwise(ends)
            for size in powers
            for node in range(start, end - size + 1, size)
        ]
        return [[Fraction(start <= t < end) for t in range(n)] for start, end in nodes]
    column = [Fraction(0)] * n
    if isinstance(spec, ToeplitzSpec) and spec.coefficients is not None:
        for k, value in enumerate(spec.coefficients[:n]):
            column[k] = Fraction(repr(value))
    elif isinstance(spec, ToeplitzSpec):
        for k in range(min(spec.bands or 1, n)):
            column[k] = Fraction(len([*itertools.combinations(range(2 * k), k)]), 4**k)  # binom(2k, k) / 4^k, counted
    elif isinstance(spec, BufferedToeplitzSpec):
        pairs = [*zip(spec.buf_decay, spec.output_scale, strict=True)]
        column = [
            Fraction(1),
            *(sum((Fraction(repr(s)) * Fraction(repr(d)) ** k for d, s in pairs), Fraction(0)) for k in range(n - 1)),
        ]
    return [[column[i - j] if i >= j else Fraction(0) for j in range(n)] for i in range(n)]


def patterns(spec: CorrelatedSpec) -> Iterator[tuple[int, ...]]:
    for count in range(1, min(spec.max_participations, spec.iterations) + 1):
        for steps in itertools.combinations(range(spec.iterations), count):
            if all(later - step >= spec.min_separation for step, later in itertools.pairwise(steps)):
                yield steps


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("cases", by_tier(6, 30, 300))
def test_it_is_the_largest_over_every_pattern(kind: Callable[[Random, int], CorrelatedSpec], cases: int) -> None:
    """Fresh settings. Columns of length 1 that share no row have a squared sum of as many as there are."""
    seed = fresh_random().getrandbits(32)
    random = Random(seed)
    for _ in range(cases):
        spec = kind(random, SMALL)
        rows = [] if isinstance(spec, BandedSpec) else encoder(spec)
        largest = max(
            Fraction(len(steps))
            if isinstance(spec, BandedSpec)
            else sum((sum(row[t] for t in steps) ** 2 for row in rows), Fraction(0))
            for steps in patterns(spec)
        )
        found = squared_norm(spec)
        assert found is not None
        assert (found.value, found.rounded) == (largest, False), (seed, spec)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("cases", by_tier(4, 20, 200))
def test_the_accountants_double_is_rounded_up_from_it(kind: Callable[[Random, int], CorrelatedSpec], cases: int) -> None:
    """Never below it, and above it by no more than what they state."""
    seed = fresh_random().getrandbits(32)
    random = Random(seed)
    for _ in range(cases):
        spec = kind(random, MIDDLE)
        found = squared_norm(spec)
        assert found is not None
        square = Fraction(spec.encoded_norm()) ** 2
        assert found.value * (1 - Fraction(1, 2**400)) <= square <= found.value * (1 + ROUNDING) ** 2, (seed, spec)


@pytest.mark.parametrize("kind", [square_root, buffered])
def test_a_long_fraction_is_rounded_up_by_next_to_nothing(
    kind: Callable[[Random, int], CorrelatedSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With fewer bits after the point than usual, every coefficient is rounded, and none is rounded down."""
    seed = fresh_random().getrandbits(32)
    random, seen = Random(seed), 0
    while seen < 10:
        spec = kind(random, 60)
        exact_norms._squared_norm.cache_clear()
        exact = squared_norm(spec)
        with monkeypatch.context() as patch:
            patch.setattr(exact_norms, "LONGEST", -1)
            patch.setattr(exact_norms, "FINE", 64)
            exact_norms._squared_norm.cache_clear()
            rounded = squared_norm(spec)
        exact_norms._squared_norm.cache_clear()
        assert exact is not None and rounded is not None
        assert (exact.rounded, rounded.rounded) == (False, True)
        assert exact.value <= rounded.value <= exact.value * (1 + Fraction(1, 2**40)), (seed, spec)
        seen += 1


def test_coefficients_that_do_not_decay_are_rounded_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is the same multiple of a small fraction, and 0.3 is none."""
    monkeypatch.setattr(exact_norms, "LONGEST", -1)
    keys = {"noise_multiplier": 1.0, "iterations": 5, "max_participations": 1, "buf_decay": (1.0,), "output_scale": (0.3,)}
    exact_norms._squared_norm.cache_clear()
    found = squared_norm(BufferedToeplitzSpec(**keys))  # type: ignore[arg-type]
    exact_norms._squared_norm.cache_clear()
    assert found is not None
    assert found.rounded and found.value > 1 + 4 * Fraction("0.3") ** 2


def test_scales_that_exceed_one_as_decimals_are_not_computed() -> None:
    """Doubles add up to 1 where the decimals do not: the coefficients would rise, and the densest pattern need not be the worst."""
    scales = (0.30000000000000004, 0.7)
    assert sum(scales) <= 1.0 < sum(Fraction(repr(scale)) for scale in scales)
    common = {"noise_multiplier": 1.0, "iterations": 8, "max_participations": 2}
    assert squared_norm(BufferedToeplitzSpec(**common, buf_decay=(0.5, 0.5), output_scale=scales)) is None  # type: ignore[arg-type]


def test_what_takes_too_long_is_not_computed() -> None:
    common = {"noise_multiplier": 1.0, "iterations": 10**7, "max_participations": 2}
    assert squared_norm(ToeplitzSpec(**common, coefficients=(1.0, 0.5))) is None  # type: ignore[arg-type]
    assert squared_norm(ToeplitzSpec(**common, bands=10**7)) is None  # type: ignore[arg-type]
    assert squared_norm(DiscreteGaussianSpec(sigma=1.0, sensitivity=1)) is None


HEAD = """
format = 1
[privacy]
unit = "user"
max_contributions = {records}
adjacency = "{adjacency}"
delta = 1e-6
[[mechanism]]
name = "m"
"""
ENTRIES = {
    "tree-aggregation": ("iterations = 16\nmax_participations = 2\nmin_separation = 8", Fraction(12)),
    "banded-matrix": ("iterations = 16\nmax_participations = 2\nmin_separation = 8\nbands = 4", Fraction(2)),
    "banded-toeplitz": ("iterations = 3\nmax_participations = 1\ncoefficients = [1.0, 0.1]", Fraction(101, 100)),
    "buffered-toeplitz": (
        "iterations = 3\nmax_participations = 1\nbuf_decay = [0.5]\noutput_scale = [0.2]",
        1 + Fraction(1, 25) + Fraction(1, 100),
    ),
}


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("name", ENTRIES)
def test_a_certificate_states_it_without_an_assumption(name: str, adjacency: str) -> None:
    """The sensitivity counts as many records as change together, and each twice where it is replaced."""
    keys, square = ENTRIES[name]
    for records, group in ((1, 1), (3, 1), (2, 2)):
        text = HEAD.format(records=records, adjacency=adjacency) + f'type = "{name}"\nnoise_multiplier = 1.1\n{keys}\n'
        own = certified_parts(parse(text.encode(), "tree.toml"), group)
        moves = records * group * (2 if adjacency == "replace-one" else 1)
        assert own.parts == ({"kind": "gaussian", "mu_squared": str(square * (moves / Fraction("1.1")) ** 2), "count": 1},)
        assert not any("as the accountants computed it" in text for text in own.assumptions)
        assert own.attained


def test_a_turn_of_a_group_is_one_step_on_a_sample_of_the_group() -> None:
    """10 records of 100 in a step are 4 in 10 of one of 4 groups. With 25, a turn takes the whole group, and is one Gaussian."""
    encoders = {
        "banded-matrix": ("bands = 4", Fraction(1), True),
        "banded-toeplitz": ("coefficients = [1.0, 0.1]", Fraction(101, 100), False),  # the last column is cut off
    }
    for name, (keys, square, attained) in encoders.items():
        for batch, adjacency, records in ((10, "add-remove", 1), (10, "replace-one", 2), (25, "add-remove", 3)):
            entry = (
                f'type = "{name}"\nnoise_multiplier = 1.1\niterations = 17\nmax_participations = 5\nmin_separation = 4\n{keys}\n'
                f'sampling = {{ scheme = "poisson", batch_size = {batch} }}\n'
            )
            text = HEAD.format(records=records, adjacency=adjacency).replace("delta", "dataset_size = 100\ndelta") + entry
            own = certified_parts(parse(text.encode(), "turns.toml"))
            part = {"kind": "mixture", "mu_squared": str(square / Fraction("1.1") ** 2), "rate": "2/5", "records": records}
            expected = {**part, "relation": adjacency, "count": 5}
            if batch == 25:
                expected = {"kind": "gaussian", "mu_squared": str(square * (records / Fraction("1.1")) ** 2), "count": 5}
            assert own.parts == (expected,), (name, batch, adjacency)
            assert own.attained == attained, (name, batch, adjacency)
            assert not any("as the accountants computed it" in text for text in own.assumptions)


def test_a_rounded_sensitivity_claims_no_lower_bound() -> None:
    text = HEAD.format(records=1, adjacency="add-remove") + (
        'type = "buffered-toeplitz"\nnoise_multiplier = 10.0\niterations = 2000\nmax_participations = 4\nmin_separation = 500\n'
        "buf_decay = [0.99, 0.9]\noutput_scale = [0.1, 0.2]\n"
    )
    own = certified_parts(parse(text.encode(), "blt.toml"))
    assert not own.attained
    assert not any("as the accountants computed it" in text for text in own.assumptions)


def test_members_of_a_composed_entry_are_read_from_their_own_entries() -> None:
    text = HEAD.format(records=1, adjacency="add-remove") + (
        'type = "composed"\nmechanisms = ["a", "b"]\nsteps = 2\n[[mechanism]]\nname = "a"\ntype = "gaussian"\nnoise_multiplier = 1.1\n'
        'steps = 3\n[[mechanism]]\nname = "b"\ntype = "tree-aggregation"\nnoise_multiplier = 3.0\niterations = 4\nmax_participations = 1\n'
    )
    own = certified_parts(parse(text.encode(), "composed.toml"))
    assert own.parts == (
        {"kind": "gaussian", "mu_squared": "100/121", "count": 6},
        {"kind": "gaussian", "mu_squared": "1/3", "count": 2},
    )
    assert not any("as the accountants computed it" in text for text in own.assumptions)


@pytest.mark.parametrize(
    ("keys", "part"),
    [
        ("sigma = 1.1\nl2_sensitivity = 3.16228", {"kind": "zcdp", "rho": str(10 / Fraction("1.1") ** 2 / 2)}),
        (
            "sigma = 1100.3\nl2_sensitivity = 400.5",
            {"kind": "gaussian", "mu_squared": str(Fraction("400.5") ** 2 / (Fraction("1100.3") ** 2 - 5))},
        ),
        ("sigma = 1.1\nl2_sensitivity = 2.0\nlinf_sensitivity = 1", {"kind": "zcdp", "rho": str(4 / Fraction("1.1") ** 2 / 2)}),
        (
            "sigma = 1.1\nsensitivity = 3\ndimension = 1",
            {"kind": "discrete-gaussian", "sigma_squared": "121/100", "sensitivity": 3, "reach": 18},
        ),
    ],
)
def test_noise_on_integers_has_exact_numbers(keys: str, part: dict[str, object]) -> None:
    """The whole squared norms that the stated ones allow, and the stated norm where that is what the accountants take."""
    text = HEAD.format(records=1, adjacency="add-remove") + f'type = "discrete-gaussian"\n{keys}\n'
    own = certified_parts(parse(text.encode(), "integers.toml"))
    assert own.parts == ({**part, "count": 1},)
    assert not any(text.startswith('"m"') for text in own.assumptions)
