"""Where accountants are known to claim too much privacy, next to the truth in closed form and to what dpcli says.

Observed with dp-accounting 0.6.0, prv-accountant 0.2.0, autodp 0.2.3.1, riskcal 1.5.1 (scipy 1.17).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.benchmarks.adapters import Interval, dp_accounting, dpcli_steps, import_autodp, riskcal
from tests.benchmarks.settings import Setting


@dataclass(frozen=True, slots=True)
class Case:
    """One question of known answer. truth: epsilon in nats; asks: what is put to whom; why: how it goes wrong."""

    name: str
    truth: float
    asks: dict[str, Callable[[], Interval]]
    why: str


def responses_epsilon(epsilon: float, count: int, delta: float) -> float:
    """epsilon of `count` randomised responses, from the binomial sum: the worst case of pure epsilon-DP."""
    keep = 1.0 / (1.0 + math.exp(-epsilon))

    def delta_at(total: float) -> float:
        losses = [
            (math.comb(count, j) * keep**j * (1.0 - keep) ** (count - j), (2 * j - count) * epsilon) for j in range(count + 1)
        ]
        return math.fsum(p * -math.expm1(total - loss) for p, loss in losses if loss > total)

    return _solve(delta_at, delta, count * epsilon)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """epsilon of a Gaussian mechanism: Balle & Wang 2018, arXiv:1805.06530, Theorem 8."""

    def delta_at(epsilon: float) -> float:
        low, high = (epsilon / mu - mu / 2.0) / math.sqrt(2.0), (epsilon / mu + mu / 2.0) / math.sqrt(2.0)
        return 0.5 * math.erfc(low) - 0.5 * math.exp(epsilon) * math.erfc(high)

    return _solve(delta_at, delta, mu * mu / 2.0 + 40.0 * mu)


def _solve(delta_at: Callable[[float], float], delta: float, high: float) -> float:
    low = 0.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if delta_at(middle) > delta else (low, middle)
    return high


def dpcli_headline(steps: Callable[[], Any], delta: float) -> Callable[[], Interval]:
    """dpcli's headline: the smallest upper bound among its sound accountants, and the largest certified lower bound."""

    def ask() -> Interval:
        from dpcli.base.errors import NotRepresentable
        from dpcli.base.lazy import load
        from dpcli.base.registry import ACCOUNTANTS

        bounds, composed = [], steps()
        for accountant in map(load, ACCOUNTANTS.values()):
            try:
                bounds += [accountant.compose(composed).epsilon(delta)] if accountant.sound else []
            except NotRepresentable:
                continue
        return max((b.lower for b in bounds if b.lower is not None), default=None), min(b.upper for b in bounds)

    return ask


def dpcli_pure(epsilon: float, count: int, delta: float) -> Callable[[], Interval]:
    def steps() -> Any:
        from dpcli.mechanisms.stated.pure_and_approx import Pure

        return ((Pure(epsilon), count),)

    return dpcli_headline(steps, delta)


def dpcli_responses(epsilon: float, count: int, delta: float) -> Callable[[], Interval]:
    def steps() -> Any:
        from dpcli.mechanisms.choice.randomized_response import RandomizedResponse

        return ((RandomizedResponse(epsilon, 2), count),)

    return dpcli_headline(steps, delta)


def dpcli_setting(setting: Setting) -> Callable[[], Interval]:
    return dpcli_headline(lambda: dpcli_steps(setting), setting.delta)


def dpcli_nan() -> Interval:
    """A pipeline file whose noise is nan is refused."""
    import tempfile

    import dpcli

    text = (
        'format = 1\n[privacy]\nunit = "example"\nadjacency = "add-remove"\ndelta = 1e-5\nreleases = "outputs"\n'
        '[[mechanism]]\nname = "m"\ntype = "gaussian"\nnoise_multiplier = nan\n'
    )
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(text)
        file.flush()
        return None, dpcli.account(dpcli.load(file.name)).upper


def prv_pure(epsilon: float, count: int, delta: float, largest: float | None) -> Callable[[], Interval]:
    def ask() -> Interval:
        from prv_accountant import PRVAccountant, PureDPMechanism

        accountant = PRVAccountant(
            [PureDPMechanism(epsilon)], eps_error=0.1, delta_error=delta / 1000.0, max_self_compositions=[count], eps_max=largest
        )
        low, _, high = accountant.compute_epsilon(delta, [count])
        return float(low), float(high)

    return ask


def google_event(accountant: str, relation: str, build: Callable[[Any], Any], times: tuple[int, ...]) -> Callable[[], Interval]:
    """dp-accounting at delta = 1e-5: `build(dp_accounting)` composed with each count in turn."""

    def ask() -> Interval:
        import dp_accounting
        from dp_accounting.pld import PLDAccountant
        from dp_accounting.rdp import RdpAccountant

        neighbours = dp_accounting.NeighboringRelation[relation]
        asked = {"pld": PLDAccountant, "rdp": RdpAccountant}[accountant](neighboring_relation=neighbours)
        for count in times:
            asked.compose(build(dp_accounting), count)
        return None, float(asked.get_epsilon(1e-5))

    return ask


def autodp_fourier_gaussian(noise: float, count: int, delta: float) -> Callable[[], Interval]:
    def ask() -> Interval:
        import_autodp()
        from autodp.mechanism_zoo import GaussianMechanism
        from autodp.transformer_zoo import ComposeAFA

        gaussian = GaussianMechanism(noise, phi_off=False, RDP_off=True, approxDP_off=True)
        return None, float(ComposeAFA()([gaussian], [count]).approxDP(delta))

    return ask


def autodp_pure(epsilon: float, count: int, delta: float) -> Callable[[], Interval]:
    def ask() -> Interval:
        import_autodp()
        from autodp.mechanism_zoo import PureDP_Mechanism
        from autodp.transformer_zoo import Composition

        return None, float(Composition()([PureDP_Mechanism(epsilon)], [count]).approxDP(delta))

    return ask


def _response(library: Any) -> Any:
    return library.RandomizedResponseDpEvent(noise_parameter=2.0 / (math.e + 1.0), num_buckets=2)


def _gaussian(noise: float) -> Callable[[Any], Any]:
    return lambda library: library.GaussianDpEvent(noise)


TWENTY = Setting("gaussians", ((1.0, 20.0, 100),), 1e-5)
TINY = Setting("gaussians at 1e-14", ((1.0, 20.0, 100),), 1e-14)
SAMPLED = Setting("sampled at 1e-12", ((0.001, 1.0, 10000),), 1e-12)
FALSE_GRID = Setting("replaced at 1e-12", ((0.1, 2.0, 100),), 1e-12, replaces=True)
HALVED = Setting("replaced", ((1.0, 2.0, 1),), 1e-5, replaces=True)

CASES = (
    Case(
        "pure epsilon 6, 10 times, delta 1e-6",
        responses_epsilon(6.0, 10, 1e-6),
        {
            "dpcli": dpcli_pure(6.0, 10, 1e-6),
            "prv-accountant": prv_pure(6.0, 10, 1e-6, None),
            "prv-accountant, eps_max=100": prv_pure(6.0, 10, 1e-6, 100.0),
            "autodp": autodp_pure(6.0, 10, 1e-6),
        },
        "PureDPMechanism.rdp is (a-1)/a epsilon, too small: the grid ends at 52.6, and the loss of 60 wraps round to its other end",
    ),
    Case(
        "randomised response epsilon 1, count 10, delta 1e-5",
        responses_epsilon(1.0, 10, 1e-5),
        {
            "dpcli": dpcli_responses(1.0, 10, 1e-5),
            "dp-accounting PLD, count=10": google_event("pld", "REPLACE_ONE", _response, (10,)),
            "dp-accounting PLD, ten calls": google_event("pld", "REPLACE_ONE", _response, (1,) * 10),
            "dp-accounting RDP, count=10": google_event("rdp", "REPLACE_ONE", _response, (10,)),
        },
        "the PLD accountant composes a RandomizedResponseDpEvent once, whatever its count",
    ),
    Case(
        "replace-one Gaussian, noise multiplier 2, delta 1e-5",
        gaussian_epsilon(1.0, 1e-5),
        {
            "dpcli": dpcli_setting(HALVED),
            "dp-accounting PLD": google_event("pld", "REPLACE_ONE", _gaussian(2.0), (1,)),
            "dp-accounting RDP": google_event("rdp", "REPLACE_ONE", _gaussian(2.0), (1,)),
        },
        "the RDP accountant takes any relation and gives the add-remove number, where the PLD accountant doubles the sensitivity",
    ),
    Case(
        "100 Gaussians, sigma 20, delta 1e-5",
        gaussian_epsilon(0.5, 1e-5),
        {"dpcli": dpcli_setting(TWENTY), "autodp, Fourier": autodp_fourier_gaussian(20.0, 100, 1e-5)},
        "numerical_inverse passes bounds and bracket to minimize_scalar, which now searches e^epsilon in [0, 1] and no further",
    ),
    Case(
        "100 Gaussians, sigma 20, delta 1e-14",
        gaussian_epsilon(0.5, 1e-14),
        {"dpcli": dpcli_setting(TINY), "dp-accounting PLD": lambda: dp_accounting(TINY), "riskcal": lambda: riskcal(TINY)},
        "sound here, but by luck: the rounding of the FFT (1e-16 per cell, either sign) is as large as the tail that is asked for",
    ),
    Case(
        "q 0.001, sigma 1, 10000 steps, delta 1e-12 (truth: 30 digits)",
        1.1844838022,
        {"dpcli": dpcli_setting(SAMPLED), "dp-accounting PLD": lambda: dp_accounting(SAMPLED), "riskcal": lambda: riskcal(SAMPLED)},
        "two cells in five of the composed distribution are negative by the rounding of the FFT, and count as they are",
    ),
    Case(
        "q 0.1, sigma 2, 100 steps, replace-one, delta 1e-12 (truth: 30 digits)",
        7.321702862755,
        {"dpcli": dpcli_setting(FALSE_GRID), "dp-accounting PLD": lambda: dp_accounting(FALSE_GRID)},
        "the same",
    ),
    Case(
        "Gaussian of noise multiplier nan, delta 1e-5",
        math.inf,
        {
            "dpcli": dpcli_nan,
            "dp-accounting PLD": google_event("pld", "ADD_OR_REMOVE_ONE", _gaussian(math.nan), (1,)),
            "dp-accounting RDP": google_event("rdp", "ADD_OR_REMOVE_ONE", _gaussian(math.nan), (1,)),
        },
        "the event accepts nan, and a divergence of nan passes for none",
    ),
)
