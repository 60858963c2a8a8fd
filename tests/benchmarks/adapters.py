"""How each accountant is asked for epsilon: as its own documentation does, at its defaults unless said.

prv: eps_error 0.01 and delta_error delta/1000, as Opacus calls it. prv-coarse: eps_error 0.1, prv-accountant's own default for DP-SGD.
autodp: its Renyi accountant with the tight bound for sampled Gaussians (its Fourier accountant is in soundness.py).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from tests.benchmarks.settings import Setting

Interval = tuple[float | None, float]  # (certified or claimed lower bound, upper bound)


class Unsupported(Exception):
    """The accountant has no such question."""


@dataclass(frozen=True, slots=True)
class Peer:
    """One column of the table. forget: drops what was kept since the last question."""

    name: str
    distribution: str
    ask: Callable[[Setting], Interval]
    forget: Callable[[], None] = lambda: None

    @property
    def version(self) -> str:
        return version(self.distribution)


def dpcli_steps(setting: Setting) -> Any:
    """The setting as mechanisms of dpcli."""
    from dpcli.mechanisms.neighbours import Adjacency, Neighbours
    from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec

    neighbours = Neighbours(Adjacency.REPLACE_ONE if setting.replaces else Adjacency.ADD_REMOVE)
    return tuple((GaussianSpec(noise_multiplier=noise).poisson(rate, neighbours), steps) for rate, noise, steps in setting.phases)


def dpcli(accountant: str) -> Callable[[Setting], Interval]:
    """One accountant of dpcli."""

    def ask(setting: Setting) -> Interval:
        from dpcli.base.lazy import load
        from dpcli.base.registry import ACCOUNTANTS

        bound = load(ACCOUNTANTS[accountant]).compose(dpcli_steps(setting)).epsilon(setting.delta)
        return bound.lower, bound.upper

    return ask


def forget_dpcli() -> None:
    """Empty every cache of dpcli, so that a repetition costs what a first call costs."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "dpcli":
            for value in list(vars(module).values()):
                getattr(value, "cache_clear", lambda: None)()


def dp_accounting(setting: Setting) -> Interval:
    from dp_accounting import GaussianDpEvent, NeighboringRelation, PoissonSampledDpEvent
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant(NeighboringRelation.REPLACE_ONE if setting.replaces else NeighboringRelation.ADD_OR_REMOVE_ONE)
    for rate, noise, steps in setting.phases:
        event = GaussianDpEvent(noise)
        accountant.compose(event if rate == 1.0 else PoissonSampledDpEvent(rate, event), steps)
    return None, float(accountant.get_epsilon(setting.delta))


def prv(error: float) -> Callable[[Setting], Interval]:
    """prv-accountant at one eps_error."""

    def ask(setting: Setting) -> Interval:
        from prv_accountant import GaussianMechanism, PoissonSubsampledGaussianMechanism, PRVAccountant

        _add_remove_only(setting)
        variables = [
            GaussianMechanism(noise) if rate == 1.0 else PoissonSubsampledGaussianMechanism(rate, noise)
            for rate, noise, _ in setting.phases
        ]
        counts = [steps for *_, steps in setting.phases]
        accountant = PRVAccountant(
            prvs=variables, eps_error=error, delta_error=setting.delta / 1000.0, max_self_compositions=counts
        )
        low, _, high = accountant.compute_epsilon(setting.delta, counts)
        return float(low), float(high)

    return ask


def riskcal(setting: Setting) -> Interval:
    from riskcal.accountants import CTDAccountant

    _add_remove_only(setting)
    accountant = CTDAccountant()
    accountant.load_state_dict({"mechanism": "ctd", "history": [(noise, rate, steps) for rate, noise, steps in setting.phases]})
    return None, float(accountant.get_epsilon(delta=setting.delta))


def autodp(setting: Setting) -> Interval:
    import_autodp()
    from autodp.mechanism_zoo import ExactGaussianMechanism
    from autodp.transformer_zoo import AmplificationBySampling, ComposeGaussian, Composition

    _add_remove_only(setting)
    sample, mechanisms = AmplificationBySampling(PoissonSampling=True), []
    for rate, noise, _ in setting.phases:
        gaussian = ExactGaussianMechanism(noise)
        mechanisms.append(gaussian if rate == 1.0 else sample(gaussian, rate, improved_bound_flag=True))
    compose = ComposeGaussian() if all(rate == 1.0 for rate, *_ in setting.phases) else Composition()
    return None, float(compose(mechanisms, [steps for *_, steps in setting.phases]).approxDP(setting.delta))


def import_autodp() -> None:
    """autodp 0.2.3 reads two names that numpy has since dropped; it gets them back here, so that it is not blamed for numpy."""
    import numpy as np

    for name, value in (("infty", np.inf), ("float", float)):
        if name not in vars(np):
            setattr(np, name, value)


def _add_remove_only(setting: Setting) -> None:
    if setting.replaces:
        raise Unsupported("it has no replace-one adjacency")


PEERS = {
    peer.name: peer
    for peer in (
        Peer("exact", "dpcli", dpcli("exact"), forget_dpcli),
        Peer("pld", "dpcli", dpcli("pld"), forget_dpcli),
        Peer("dp-accounting", "dp-accounting", dp_accounting),
        Peer("prv", "prv-accountant", prv(0.01)),
        Peer("prv-coarse", "prv-accountant", prv(0.1)),
        Peer("riskcal", "riskcal", riskcal),
        Peer("autodp", "autodp", autodp),
    )
}
