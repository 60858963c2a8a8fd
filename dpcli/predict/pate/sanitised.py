"""The epsilon of a session that depends on its votes, released once with noise, and kept: asked again, it is what it was."""

from __future__ import annotations

import decimal
import hashlib
import json
import math
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from dpcli.errors import CannotCertify, InputError
from dpcli.mechanisms.sampling.schemes import Unsampled
from dpcli.mechanisms.stated.renyi import RdpSpec
from dpcli.numerics.arrays import np
from dpcli.numerics.closed.conversion import balle
from dpcli.pipeline.parts import shares_its_price
from dpcli.predict.pate.held_costs import compared, realised_costs
from dpcli.predict.pate.sanitise import Release, release_cost, released
from dpcli.predict.pate.transcript import require_original
from dpcli.predict.voting.noise import normal_noise
from dpcli.predict.voting.sensitivity import smooth

if TYPE_CHECKING:
    from dpcli.pipeline.model import Entry, Pipeline
    from dpcli.predict.pate.plan import VotingPlan
    from dpcli.predict.pate.transcript import Transcript
    from dpcli.predict.voting.votes import VoteCounts

KEPT = "sanitised.json"
DIGITS = 6  # of the released number
SLACK = 1e-9  # relative, by which the entry that pays may be below the cost of the release: the file states it rounded


@dataclass(frozen=True, slots=True)
class Sanitised:
    """What was released: rdp at `order`, at least that of the session but with probability `failure`; release_rdp is what that cost."""

    rdp: float
    release_rdp: float
    order: float
    failure: float

    def epsilon(self, delta: float) -> float:
        """Of the labels and this number together."""
        total = np.array([max(self.rdp, 0.0) + self.release_rdp])
        return float(balle(np.array([self.order]), total, math.log(delta))[0])


def sanitised(plan: VotingPlan, votes: VoteCounts, held: Transcript) -> Sanitised | None:
    """The release of a session that has ended, made now where it has not been; None where the file asks for none.

    Raises:
        CannotCertify: the conditions of its sensitivity do not hold. InputError: no entry pays for it, or another one was made.
    """
    if plan.pate.sanitise is None or not held.private:  # labels that anybody can compute cost more than any number
        return None
    stated = plan.pate.sanitise
    release = Release(stated.order, stated.beta, stated.sigma, stated.failure)
    cost = release_cost(release)
    _require_paid(plan, release, cost)
    if not held.closed:
        raise InputError(
            f"{plan.path}: pate.sanitise: expected a session that has ended, found one that goes on: dpcli pate label ends it"
        )
    of = hashlib.sha256((held.run + json.dumps(asdict(release), sort_keys=True)).encode()).hexdigest()
    kept = _kept(plan, of)
    if kept is None:
        require_original(plan, held)
        _keep(plan, of, _made(plan, votes, held, release, cost))
        kept = _kept(plan, of)
    return kept


def _require_paid(plan: VotingPlan, release: Release, cost: float) -> None:
    """The release is one of the file's mechanisms: whatever is published with it, the file's epsilon counts it."""
    name = plan.pate.sanitise.mechanism if plan.pate.sanitise is not None else ""
    entry = next((one for one in plan.pipeline.mechanisms if one.name == name), None)
    wrong = _unpaid(entry, plan.pipeline, release)
    if wrong:
        stated = f"orders = [{release.order:g}], values = [{cost * (1.0 + SLACK):.12g}]"
        wanted = f'expected the name of an entry of type "rdp" that pays for the release, {stated}, found {wrong}'
        raise InputError(f"{plan.path}: pate.sanitise.mechanism: {wanted}")


def _unpaid(entry: Entry | None, pipeline: Pipeline, release: Release) -> str:
    """Why an entry does not pay for the release; empty where it does.

    An account may use any of the orders that are stated, so that none may be stated at less than the release costs there.
    """
    if entry is None or not isinstance(entry.spec, RdpSpec):
        return "none"
    if not isinstance(entry.sampling, Unsampled | None) or shares_its_price(entry, pipeline):
        return "one that is sampled, partitioned or part of another entry: votes are of all of the data"
    for order, value in zip(entry.spec.orders, entry.spec.values, strict=True):
        try:
            least = release_cost(replace(release, order=order)) * (1.0 - SLACK)
        except CannotCertify:
            return f"the order {order:g}, at which the release has no finite cost"
        if value < least:
            return f"{value:g} at order {order:g}, where it costs {least:.12g}"
    return ""


def _kept(plan: VotingPlan, of: str) -> Sanitised | None:
    path = os.path.join(plan.folder, KEPT)
    try:
        with open(path, encoding="utf-8") as file:
            said = json.load(file)
        found = Sanitised(*(float(said[name]) for name in ("rdp", "release_rdp", "order", "failure")))
        same = said["of"] == of
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"{path}: expected what was released of this session, found a damaged file") from None
    if not same:
        raise InputError(
            f"{path}: expected the release that pate.sanitise describes, found another of the same folder: a second one would cost again, "
            "and no entry pays for it"
        )
    return found


def _keep(plan: VotingPlan, of: str, made: Sanitised) -> None:
    """Durable before anybody sees it; of two that are made at the same moment one is kept, and the other is seen by nobody."""
    from dpcli.sessions.folder import replaced

    path = os.path.join(plan.folder, KEPT)
    draft = f"{path}.{os.urandom(8).hex()}"
    try:
        replaced(draft, json.dumps({"of": of, **asdict(made)}).encode(), 0o600)
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft)


def _made(plan: VotingPlan, votes: VoteCounts, held: Transcript, release: Release, cost: float) -> Sanitised:
    from dpcli.train.noise.randomness import SystemStream

    total = float(realised_costs(plan, votes, held).rdp(np.array([release.order]))[0])
    answered, largest = votes.counts[sorted(held.answered)], compared(votes, held)[np.array(held.asked)]
    try:
        by_distance = plan.aggregator.sensitivity(answered, largest, votes.teachers, release.order)
    except CannotCertify as reason:
        raise CannotCertify(f"{plan.path}: pate.sanitise: {reason}") from None
    bound = smooth(by_distance, release.beta)
    noise = float(normal_noise(SystemStream(), 1)[0])
    return Sanitised(rounded(released(total, bound, release, noise)), cost, release.order, release.failure)


def rounded(value: float) -> float:
    """Up to so many digits: the last ones of a noisy number in floating point tell of what it was made of (Mironov 2012)."""
    context = decimal.Context(prec=DIGITS, rounding=decimal.ROUND_CEILING)
    return float(context.create_decimal(value))
