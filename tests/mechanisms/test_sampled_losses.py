"""Privacy losses of mechanisms on samples, by their tails: the hockey-stick curve, at negative epsilon too, against enumeration of samples
and against quadrature.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.base.errors import NotRepresentable
from dpcli.mechanisms.choice.randomized_response import RandomizedResponse
from dpcli.mechanisms.combined.composed import Composed
from dpcli.mechanisms.mechanism import Mechanism, PrivacyLoss
from dpcli.mechanisms.noise.discrete_gaussian import DiscreteGaussian
from dpcli.mechanisms.noise.discrete_laplace import DiscreteLaplace
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.gaussian_spec import SampledGaussian, SampledGaussianReplaced
from dpcli.mechanisms.noise.laplace import Laplace
from dpcli.mechanisms.noise.normal_mixture import MixtureLoss, MixtureReplaceLoss
from dpcli.mechanisms.sampling.poisson import PoissonReplaced, PoissonSampled, fixed_size
from dpcli.mechanisms.stated.pure_and_approx import Pure, approx
from dpcli.mechanisms.stated.renyi import Zcdp
from dpcli.numerics.mixture import Mixture, binomial_mixture
from dpcli.numerics.tails import Tails, atom_tails
from tests.cases import of_each
from tests.mechanisms.curves import AT, curve, worst
from tests.oracles import Array, hockey_stick

rates = st.floats(-4.0, -0.02).map(lambda x: 10.0**x)
INNER: list[Mechanism] = [
    Laplace(1.0),
    Pure(0.7),
    approx(1.0, 1e-3),
    RandomizedResponse(1.2, 4),
    DiscreteLaplace(2.0, 3),
    DiscreteGaussian(1.5, 2),
    Gaussian(0.8),
]


@dataclass(frozen=True)
class FiniteLoss:
    """The loss of two distributions on finitely many outcomes, each of which may have outcomes of its own."""

    p: tuple[float, ...]
    q: tuple[float, ...]

    def cgf(self, z: Array) -> Array:
        raise NotImplementedError

    def tilted(self, t: float) -> None:
        raise NotImplementedError

    def tails(self, at: Array) -> Tails:
        with np.errstate(divide="ignore"):
            log_p, log_q = np.log(np.array(self.p)), np.log(np.array(self.q))
        order = np.argsort(log_p - log_q)
        return atom_tails(at, (log_p - log_q)[order], log_p[order], log_q[order])


@dataclass(frozen=True)
class Finite(Mechanism):
    """A mechanism with these two output distributions, with the record and without."""

    p: tuple[float, ...]
    q: tuple[float, ...]

    def losses(self) -> tuple[PrivacyLoss, ...]:
        return FiniteLoss(self.p, self.q), FiniteLoss(self.q, self.p)  # type: ignore[return-value]


@given(st.integers(2, 5), st.integers(0, 2**32 - 1), rates, st.booleans())
def test_poisson_tails_are_those_of_the_mixed_pair(size: int, seed: int, rate: float, revealing: bool) -> None:
    random = np.random.default_rng(seed)
    p, q = random.dirichlet(np.ones(size)), random.dirichlet(np.ones(size))
    if revealing:
        p, q = np.append(0.9 * p, [0.1, 0.0]), np.append(0.8 * q, [0.0, 0.2])
    remove, add = PoissonSampled(Finite(tuple(p.tolist()), tuple(q.tolist())), rate).losses()
    mixed = (1.0 - rate) * q + rate * p
    for found, (one, other) in ((remove, (mixed, q)), (add, (q, mixed))):
        exact = [hockey_stick(one, other, eps) for eps in AT.tolist()]
        np.testing.assert_allclose(curve(found), exact, rtol=0.0, atol=1e-13)


@of_each("rate", [1e-6, 0.01, 0.4, 0.99])
@of_each("mu", [0.2, 1.0, 3.0])
def test_the_generic_pair_of_a_gaussian_is_its_own(mu: float, rate: float) -> None:
    for generic, own in zip(PoissonSampled(Gaussian(mu), rate).losses(), SampledGaussian(mu, rate).losses(), strict=True):
        np.testing.assert_allclose(curve(generic), curve(own), rtol=0.0, atol=1e-14)


@of_each("make", [PoissonSampled, PoissonReplaced])
@of_each("inner", INNER)
@of_each("rate", [1e-3, 0.3, 0.9])
def test_every_curve_is_one_of_a_pair(make: type[PoissonSampled] | type[PoissonReplaced], inner: Mechanism, rate: float) -> None:
    """Masses add up to one, the curve is convex in e^eps with slope in [-1, 0], and 1 - e^eps bounds it from below."""
    for loss in make(inner, rate).losses():
        tails, found = loss.tails(AT), curve(loss)
        np.testing.assert_allclose(np.exp(tails.p_above) + np.exp(tails.p_below), 1.0, rtol=0.0, atol=1e-13)
        np.testing.assert_allclose(np.exp(tails.q_above) + np.exp(tails.q_below), 1.0, rtol=0.0, atol=1e-13)
        slopes = np.diff(found) / np.diff(np.exp(AT))
        assert (np.diff(slopes) >= -1e-11).all() and (slopes <= 1e-12).all() and (slopes >= -1.0 - 1e-11).all()
        assert (found >= np.maximum(1.0 - np.exp(AT), 0.0) - 1e-13).all()
        for name in Tails._fields:
            assert (getattr(tails, name) <= 1e-15).all()


@of_each("make", [PoissonSampled, PoissonReplaced])
@of_each("inner", INNER)
def test_delta_and_epsilon_agree(make: type[PoissonSampled] | type[PoissonReplaced], inner: Mechanism) -> None:
    """The stated (epsilon, delta) form is amplification of the inner curve: exact, where the inner one is."""
    sampled = make(inner, 0.2)
    for eps in (0.01, 0.05, 0.1):
        delta = float(worst(sampled, np.array([eps]))[0])
        if delta > sampled.delta_floor() + 1e-9:
            assert sampled.approx_dp(delta) == pytest.approx(eps, rel=1e-6)


@of_each("inner", INNER)
def test_losses_grow_with_the_rate(inner: Mechanism) -> None:
    for make in (PoissonSampled, PoissonReplaced):
        curves = [worst(make(inner, rate)) for rate in (1e-9, 0.1, 0.5, 0.9, 1.0 - 1e-9, 1.0)]
        assert all((low <= high + 1e-12).all() for low, high in itertools.pairwise(curves))
        np.testing.assert_allclose(curves[0], np.maximum(1.0 - np.exp(AT), 0.0), atol=2e-9)
        np.testing.assert_allclose(curves[-2], curves[-1], atol=1e-7)
        assert make(inner, 1.0).losses() == inner.losses()


def test_what_is_not_known_is_refused() -> None:
    with pytest.raises(NotRepresentable, match="no dominating pair"):
        PoissonSampled(Zcdp(0.1), 0.1).losses()
    with pytest.raises(NotRepresentable, match="characteristic function"):
        PoissonSampled(approx(1.0, 1e-3), 0.1).losses()[0].tilted(1.0)
    with pytest.raises(NotRepresentable, match="characteristic function"):
        PoissonReplaced(approx(1.0, 1e-3), 0.1).losses()[0].cgf(AT)
    with pytest.raises(NotRepresentable, match="not known to be symmetric"):
        PoissonReplaced(Finite((0.3, 0.7), (0.6, 0.4)), 0.1).losses()


# Replace-one.


@given(st.integers(2, 5), st.integers(1, 4), st.lists(st.integers(0, 2), min_size=5, max_size=5), st.floats(0.1, 3.0))
def test_fixed_size_by_enumeration(total: int, drawn: int, records: list[int], epsilon: float) -> None:
    """Three-way randomised response to the sum of the sample modulo 3; two records replaced covers every order."""
    drawn, response = min(drawn, total), RandomizedResponse(epsilon, 3)
    kept = math.exp(epsilon) / (math.exp(epsilon) + 2.0)
    other = (1.0 - kept) / 2.0
    states = [np.array([kept if i == j else other for j in range(3)]) for i in range(3)]

    def released(first: int) -> Array:
        samples = list(itertools.combinations([first, *records[: total - 1]], drawn))
        return sum((states[sum(sample) % 3] for sample in samples), np.zeros(3)) / len(samples)

    bound = worst(fixed_size(response, drawn / total, 1))
    for one, two in itertools.permutations(range(3), 2):
        exact = [hockey_stick(released(one), released(two), eps) for eps in AT.tolist()]
        assert (bound >= np.array(exact) - 1e-12).all()


@pytest.mark.sampled(1, 4)
@pytest.mark.parametrize(
    ("drawn", "others"), [(1, (0, 1, 1)), (2, (1, -1, -1)), (2, (-1, -1, -1)), (3, (1, 0, -1)), (2, (1, 1, 0, -1))]
)
@pytest.mark.parametrize("sigma", [0.7, 2.0])
def test_fixed_size_gaussian_sums(drawn: int, others: tuple[int, ...], sigma: float) -> None:
    """A sum of records in [-1, 1] with normal noise, the first one 1 or -1, by a fine grid of outputs."""
    x: Array = np.linspace(-8.0 * sigma - 4.0, 8.0 * sigma + 4.0, 20001)

    def released(first: int) -> Array:
        samples = list(itertools.combinations([first, *others], drawn))
        total = sum((np.exp(-0.5 * ((x - sum(s)) / sigma) ** 2) for s in samples), np.zeros_like(x))
        return total / total.sum()

    bound = worst(fixed_size(Gaussian(2.0 / sigma), drawn / (1 + len(others)), 1))
    for one, two in ((1, -1), (-1, 1), (1, 0), (0, -1)):
        exact = [hockey_stick(released(one), released(two), eps) for eps in AT.tolist()]
        assert (bound >= np.array(exact) - 1e-7).all()


# Groups of records under replace-one.


@of_each(("mu", "rate", "records"), [(0.5, 0.2, 2), (1.0, 0.01, 3), (0.2, 0.5, 6), (2.0, 0.9, 2), (0.1, 1e-4, 40)])
@of_each("eps", [-1.5, 0.0, 0.3, 2.0])
def test_double_mixture_tails_by_quadrature(mu: float, rate: float, records: int, eps: float) -> None:
    tails = MixtureReplaceLoss(binomial_mixture(mu, rate, records)).tails(np.array([eps]))
    with mp.workdps(30):
        weights = [mp.binomial(records, j) * mp.mpf(rate) ** j * (1 - mp.mpf(rate)) ** (records - j) for j in range(records + 1)]

        def ratio(x: mp.mpf) -> mp.mpf:
            one, two = (
                mp.fsum(w * mp.exp(s * j * mu * x - (j * mu) ** 2 / mp.mpf(2)) for j, w in enumerate(weights)) for s in (1, -1)
            )
            return mp.log(one / two) - eps

        x = mp.findroot(ratio, (mp.mpf(-400), mp.mpf(400)), solver="anderson", tol=1e-25, maxsteps=400, verify=False)
        assert abs(ratio(x)) < 1e-15
        for found, sign in ((tails.p_above, 1), (tails.q_above, -1)):
            exact = mp.log(mp.fsum(w * mp.ncdf(sign * j * mu - x) for j, w in enumerate(weights)))
            assert abs(float(found[0]) - exact) <= 1e-10 * max(1, abs(exact))


@given(st.integers(1, 3), st.integers(0, 2**32 - 1), st.floats(0.05, 0.95), st.floats(0.1, 2.0))
def test_no_contributions_cost_more_than_opposite_collinear_ones(records: int, seed: int, rate: float, mu: float) -> None:
    """Records that contribute any vectors of the plane of length at most mu, by a grid of outputs; any subset may be sampled."""
    random = np.random.default_rng(seed)
    angles, lengths = random.uniform(0.0, 2.0 * math.pi, (2, records)), mu * random.uniform(0.0, 1.0, (2, records)) ** 0.3
    vectors = np.stack((lengths * np.cos(angles), lengths * np.sin(angles)), axis=-1)
    reach = 7.0 + records * mu
    x: Array = np.linspace(-reach, reach, 121)
    plane = np.stack(np.meshgrid(x, x), axis=-1)
    densities = []
    for side in vectors:
        total = np.zeros(plane.shape[:2])
        for chosen in itertools.product((0.0, 1.0), repeat=records):
            weight = rate ** sum(chosen) * (1.0 - rate) ** (records - sum(chosen))
            total = total + weight * np.exp(-0.5 * ((plane - np.array(chosen) @ side) ** 2).sum(axis=-1))
        densities.append(total.ravel() / total.sum())
    eps: Array = np.array([-1.0, 0.0, 0.5, 1.5])
    bound = curve(MixtureReplaceLoss(binomial_mixture(mu, rate, records)), eps)
    exact = np.array([hockey_stick(densities[0], densities[1], e) for e in eps.tolist()])
    assert (bound >= exact - 2e-3 * exact - 1e-6).all()


@given(st.floats(0.01, 2.0), st.floats(0.001, 0.99), st.floats(-2.0, 1.2), st.sampled_from(MixtureLoss.__subclasses__()))
def test_one_shift_has_a_closed_form(mu: float, rate: float, log10_z: float, kind: type[MixtureLoss]) -> None:
    """One shift is written twice, with half of the weight each. A search must find what the closed form says."""
    z = np.array([10.0**log10_z])
    once = binomial_mixture(mu, rate, 1)
    twice = Mixture(once.log_rest, (once.log_weights[0] - math.log(2.0),) * 2, once.shifts * 2)
    one, two = (kind(mixture) for mixture in (once, twice))  # type: ignore[call-arg]
    np.testing.assert_allclose(two.cgf(z), one.cgf(z), rtol=1e-11)
    np.testing.assert_allclose(curve(two), curve(one), atol=1e-13)


@pytest.mark.parametrize(("mu", "rate", "records"), [(0.3, 0.01, 3), (0.1, 0.2, 10)])
def test_group_moments_lie_between_one_record_and_the_unsampled_group(mu: float, rate: float, records: int) -> None:
    orders: Array = np.array([1.25, 2.0, 4.0, 16.0])
    group = SampledGaussianReplaced(mu, rate, records)
    assert (group.rdp(orders) >= SampledGaussianReplaced(mu, rate, 1).rdp(orders)).all()
    assert (group.rdp(orders) <= Gaussian(2.0 * mu * records).rdp(orders)).all()
    assert (group.rdp(orders) <= PoissonReplaced(Gaussian(2.0 * mu * records), 1.0 - (1.0 - rate) ** records).rdp(orders)).all()
    delta = float(curve(group.losses()[0], np.array([0.1]))[0])
    assert group.approx_dp(delta) >= 0.1 - 1e-9


# Several mechanisms on one sample.


@pytest.mark.parametrize("rate", [0.01, 0.5])
@pytest.mark.parametrize("make", [PoissonSampled, PoissonReplaced])
def test_a_group_of_responses_by_enumeration(make: type[PoissonSampled] | type[PoissonReplaced], rate: float) -> None:
    """The product of three responses has eight outcomes: its sampled curve from above, and closely."""
    group = Composed(((Pure(0.4), 2), (Pure(0.9), 1)))
    p, q = np.ones(1), np.ones(1)
    for epsilon in (0.4, 0.4, 0.9):
        kept = 1.0 / (1.0 + math.exp(-epsilon))
        p, q = np.outer(p, [kept, 1.0 - kept]).ravel(), np.outer(q, [1.0 - kept, kept]).ravel()
    exact = worst(make(Finite(tuple(p.tolist()), tuple(q.tolist())), rate)) if make is PoissonSampled else None
    found = worst(make(group, rate))
    if exact is None:  # above 0 the replace-one curve is that of the remove direction
        mixed, at = (1.0 - rate) * q + rate * p, AT[AT >= 0.0]
        exact, found = np.array([hockey_stick(mixed, q, eps) for eps in at.tolist()]), found[AT >= 0.0]
    assert (found >= exact - 1e-13).all() and (found <= exact + 3e-4 * rate).all()


def test_a_group_keeps_what_may_be_revealed() -> None:
    group = Composed(((approx(0.2, 1e-3), 2), (Laplace(0.3), 1)))
    loss = PoissonSampled(group, 0.1).losses()[0]
    assert math.exp(loss.tails(np.array([50.0])).p_above[0]) == pytest.approx(0.1 * (1.0 - 0.999**2), rel=1e-3)
    assert math.exp(loss.tails(np.array([50.0])).p_above[0]) >= 0.1 * (1.0 - 0.999**2)


@pytest.mark.parametrize(
    "group", [Composed(((Laplace(0.3), 2), (Gaussian(0.4), 3))), Composed(((RandomizedResponse(0.5, 3), 5),))], ids=repr
)
def test_a_group_has_a_curve_of_a_pair(group: Composed) -> None:
    for loss in (*PoissonSampled(group, 0.2).losses(), *PoissonReplaced(group, 0.2).losses()):
        found = curve(loss)
        slopes = np.diff(found) / np.diff(np.exp(AT))
        assert (np.diff(slopes) >= -1e-9).all() and (slopes <= 1e-12).all() and (slopes >= -1.0 - 1e-9).all()
        assert (found >= np.maximum(1.0 - np.exp(AT), 0.0) - 1e-12).all()


def test_lower_bounds_are_claimed_only_where_the_pair_is_attained() -> None:
    assert PoissonSampled(Laplace(1.0), 0.1).attained()
    assert not PoissonSampled(Composed(((Laplace(1.0), 2),)), 0.1).attained()
    assert not PoissonReplaced(Laplace(1.0), 0.1).attained()
    assert PoissonReplaced(Laplace(1.0), 1.0).attained()


def test_losses_too_large_for_a_grid_are_refused() -> None:
    with pytest.raises(NotRepresentable, match="too large"):
        PoissonSampled(Composed(((Pure(1e5), 2),)), 0.1).losses()[0].tails(AT)
