"""Epsilon by dpcli and by other libraries, each asked with the defaults that its documentation shows, in whichever interpreter has it.

`python -m tests.benchmarks.peers` serves tests.benchmarks.table: a line of JSON with the versions of the libraries that can be imported,
then an answer for each question on standard input.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

from tests.benchmarks.isolation import Interval, Unsupported, forget_dpcli, isolated
from tests.benchmarks.random_settings import Drawn, Part, headline, ours, their_pipeline, theirs

FALSE_POSITIVES = 0.01
LIMIT, MEMORY = 60.0, 8.0  # seconds of CPU and GB of a question


def sampled_gaussians(setting: Drawn) -> tuple[Part, ...]:
    """Return the parts of a setting of sampled Gaussians alone under add-remove. Raises Unsupported for any other."""
    if setting.replaces or any(part.kind != "gaussian" for part in setting.parts):
        raise Unsupported("sampled Gaussians under add-remove alone")
    return setting.parts


def dpcli(setting: Drawn) -> Interval:
    """Return the interval of this package: under replace-one that of the exact accountant, else the headline."""
    return ours(setting) if setting.replaces else headline(setting)


def dp_accounting_pld(setting: Drawn) -> Interval:
    """Return the bound of its grid at its default spacing of 1e-4; of noises without an event, by its distributions."""
    if all(part.kind in ("gaussian", "laplace") for part in setting.parts):
        return theirs(setting, 1e-4)
    return their_pipeline(setting, 1e-4)


def dp_accounting_rdp(setting: Drawn) -> Interval:
    """Return the bound of its Renyi accountant at its default orders."""
    from dp_accounting import GaussianDpEvent, LaplaceDpEvent, NeighboringRelation, PoissonSampledDpEvent
    from dp_accounting.rdp import RdpAccountant

    events: dict[str, Any] = {"gaussian": GaussianDpEvent, "laplace": LaplaceDpEvent}
    relation = NeighboringRelation.REPLACE_ONE if setting.replaces else NeighboringRelation.ADD_OR_REMOVE_ONE
    accountant = RdpAccountant(neighboring_relation=relation)
    for part in setting.parts:
        if part.kind not in events or (part.rate < 1.0 and (part.kind == "laplace" or setting.replaces)):
            raise Unsupported(f"no curve of {part.kind} noise, or none on a sample")
        event = events[part.kind](part.noise)
        accountant.compose(event if part.rate == 1.0 else PoissonSampledDpEvent(part.rate, event), part.steps)
    return None, float(accountant.get_epsilon(setting.delta))


def opacus(kind: str, setting: Drawn) -> Interval:
    """Return the bound of an accountant of Opacus: prv or rdp."""
    from opacus.accountants import create_accountant

    accountant = create_accountant(kind)
    accountant.history = [(part.noise, part.rate, part.steps) for part in sampled_gaussians(setting)]
    return None, float(accountant.get_epsilon(delta=setting.delta))


def prv_accountant(setting: Drawn) -> Interval:
    """Return the bounds that it claims, to within .01, with a thousandth of delta for its own errors."""
    from prv_accountant import (
        GaussianMechanism,
        LaplaceMechanism,
        PoissonSubsampledGaussianMechanism,
        PRVAccountant,
        PureDPMechanism,
    )

    def one(part: Part) -> Any:
        if setting.replaces:
            raise Unsupported("no replace-one")
        if part.kind == "gaussian" and part.rate < 1.0:
            return PoissonSubsampledGaussianMechanism(noise_multiplier=part.noise, sampling_probability=part.rate)
        makers = {
            "gaussian": lambda: GaussianMechanism(part.noise),
            "laplace": lambda: LaplaceMechanism(1.0 / part.noise),
            "pure": lambda: PureDPMechanism(1.0 / part.noise),
        }
        if part.kind not in makers or part.rate < 1.0:
            raise Unsupported(f"no {part.kind} noise, or none on a sample")
        return makers[part.kind]()

    steps = [part.steps for part in setting.parts]
    total = PRVAccountant(
        [one(part) for part in setting.parts], max_self_compositions=steps, eps_error=0.01, delta_error=1e-3 * setting.delta
    )
    lower, _, upper = total.compute_epsilon(setting.delta, steps)
    return float(lower), float(upper)


def autodp(setting: Drawn) -> Interval:
    """Return the bound of its Renyi curves."""
    from autodp.mechanism_zoo import GaussianMechanism, LaplaceMechanism, PureDP_Mechanism
    from autodp.transformer_zoo import AmplificationBySampling, Composition

    makers: dict[str, Callable[[float], Any]] = {
        "gaussian": GaussianMechanism,
        "laplace": LaplaceMechanism,
        "pure": lambda noise: PureDP_Mechanism(1.0 / noise),
    }

    def one(part: Part) -> Any:
        if part.kind not in makers or setting.replaces:
            raise Unsupported(f"no {part.kind} noise or replace-one")
        mechanism = makers[part.kind](part.noise)
        if part.rate == 1.0:
            return mechanism
        mechanism.neighboring = "add_remove"
        return AmplificationBySampling(PoissonSampling=True)(mechanism, part.rate, improved_bound_flag=part.kind == "gaussian")

    total = Composition()([one(part) for part in setting.parts], [part.steps for part in setting.parts])
    return None, float(total.get_approxDP(setting.delta))


def dpcli_hits(setting: Drawn) -> Interval:
    """Return the bound on the hit rate of attacks at FALSE_POSITIVES; the time is of the whole page of meanings."""
    from dpcli.analysis.meaning import meaning
    from tests.strategies import dp_sgd

    (part,) = sampled_gaussians(setting)
    _, result = meaning(dp_sgd(part.noise, None if part.rate == 1.0 else part.rate, part.steps, setting.delta))
    assert result is not None
    return None, 1.0 - result.false_negatives[result.alphas.index(FALSE_POSITIVES)]


def riskcal_hits(setting: Drawn) -> Interval:
    """Return riskcal's hit rate of attacks at FALSE_POSITIVES, from a grid of dp-accounting."""
    from riskcal.calibration.dpsgd import get_beta_for_dpsgd

    (part,) = sampled_gaussians(setting)
    missed = get_beta_for_dpsgd(noise_multiplier=part.noise, sample_rate=part.rate, num_steps=part.steps, alpha=FALSE_POSITIVES)
    return None, 1.0 - float(missed)


class Peer(NamedTuple):
    """A way to ask a library, and the package that has it."""

    package: str
    ask: Callable[[Drawn], Interval]


PEERS = {
    "dpcli": Peer("dpcli", dpcli),
    "dp-accounting PLD": Peer("dp-accounting", dp_accounting_pld),
    "dp-accounting RDP": Peer("dp-accounting", dp_accounting_rdp),
    "Opacus PRV": Peer("opacus", partial(opacus, "prv")),
    "Opacus RDP": Peer("opacus", partial(opacus, "rdp")),
    "prv-accountant": Peer("prv-accountant", prv_accountant),
    "autodp RDP": Peer("autodp", autodp),
}
ATTACKS = {"dpcli": Peer("dpcli", dpcli_hits), "riskcal": Peer("riskcal", riskcal_hits)}
QUESTIONS = {"epsilon": PEERS, "attack": ATTACKS}


def installed() -> dict[str, str]:
    """Return the versions of the packages that this interpreter has."""
    versions = {}
    for package in {peer.package for table in QUESTIONS.values() for peer in table.values()}:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def main() -> None:
    """Answer the questions on standard input."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    warnings.simplefilter("ignore")
    out.write(json.dumps(installed()) + "\n")
    out.flush()
    warm: set[tuple[str, str]] = set()
    small = Drawn((Part("gaussian", 0.01, 2.0, 10),), 1e-5, False)
    for line in sys.stdin:
        question, name, fields = json.loads(line)
        setting, ask = Drawn(tuple(Part(**part) for part in fields.pop("parts")), **fields), QUESTIONS[question][name].ask
        if (question, name) not in warm:
            warm.add((question, name))
            ask(small)  # imports what it needs
        out.write(json.dumps(asdict(isolated(partial(ask, setting), forget_dpcli, LIMIT, MEMORY))) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
