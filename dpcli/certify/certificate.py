"""Proofs of the epsilon or delta that `dpcli account` prints for a pipeline, as a certificate, which is a JSON object.

A certificate states the *parts*, the dominating pairs of the pipeline's mechanisms with exact numbers (certified_parts.py), and *claims*:
an epsilon and its delta as decimal texts, and whether this is an upper or a lower bound. A proof follows a *plan*, such as where a contour
lies. An upper bound has a plan for each direction of the neighbouring relation, and a lower bound for one of them. proof_search.py finds
plans in floating point, and checker.py computes along them in ball arithmetic. Only what the checker proves is kept.

`prove` makes a certificate for `dpcli certify`, which prints it or writes it to a file. `require_about` checks that a certificate is about
a pipeline, for `dpcli certify --check` and for the commands that name a certificate (named_certificate.py).
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from dpcli import __version__
from dpcli.analysis.account import Account, account
from dpcli.base.errors import InternalError, NotRepresentable
from dpcli.base.rounding import DECIMALS, down, up
from dpcli.base.values import dataclass
from dpcli.certify import proof_search
from dpcli.certify.certified_parts import CertifiedParts, certified_parts
from dpcli.certify.floating_parts import NoPlan
from dpcli.certify.proof_search import CurvePoint
from dpcli.file.pipeline.model import Pipeline

Json = dict[str, Any]
# If the printed epsilon has no proof, it is raised by the first of these shares, and then by the second. The first is about its last
# printed digit, and the second much more than the ball arithmetic loses.
SHARES = (Decimal("0.0001"), Decimal("0.003"))
# Factor of the usual pad, a normal loss that is added to make frequencies decay (proof_search.py). A small one loses less of delta.
SMALL_PAD = 1 / 30
MARGIN = 1e-9  # share by which a proved bound may lie below the accountants' lower bound before it is an internal error


@dataclass(frozen=True, slots=True)
class Proof:
    """A proof of the cost of a pipeline.

    Attributes:
        account: The accountants' result.
        epsilon, delta: Decimal texts. It is proved that the pipeline is (epsilon, delta)-DP. One of the two is the number that was given.
        headline: Text of the bound that the accountants print. The proved bound is larger if no proof of the headline was found.
        lower: Text of an epsilon (or delta) that is proved to be too small; None if there is none.
        reasons: Why the headline, or the lower end of the accountants' interval, is not proved; empty if both are.
        certificate: The certificate, as a JSON object.
    """

    account: Account
    epsilon: str
    delta: str
    headline: str
    lower: str | None
    reasons: tuple[str, ...]
    certificate: Json


def prove(
    pipeline: Pipeline, delta: float | None = None, epsilon: float | None = None, group_size: int = 1, decimals: int = DECIMALS
) -> Proof:
    """Prove the headline of a pipeline, as it is printed, or the first of a few larger bounds for which a proof is found.

    Args:
        delta, epsilon: At most one is given, and the other one is proved. Without them, epsilon is proved at the file's delta.
        group_size: Number of units of privacy that change together.
        decimals: Decimal places of the bounds that are proved.

    Returns:
        The proof. Its upper bound holds if the stated pairs dominate the mechanisms. Its lower bound holds if they are attained.

    Raises:
        NotRepresentable: the accountants have no finite bound, the checker knows no pair of a mechanism, or no bound has a proof within
            the work that is allowed.
        InternalError: the proved upper bound is below the accountants' lower bound (the message has both numbers), or `certified_parts`
            raises it.
        InputError: the file cannot be priced with these arguments, as `dpcli.account` says.
    """
    from dpcli.certify import checker

    statement = certified_parts(pipeline, group_size)
    result = account(pipeline, delta=delta, epsilon=epsilon, group_size=group_size)
    if math.isinf(result.upper):
        raise NotRepresentable("no accountant certifies a bound, so that there is none to prove")
    proved, upper_claim, reasons = _prove_upper(statement, result, decimals)
    if result.lower is not None and float(proved) < result.lower * (1.0 - MARGIN):
        raise InternalError(
            f"certify proves {result.quantity} <= {proved}, where the accountants certify at least {result.lower!r}"
        )
    claims, lower = [upper_claim], None
    if statement.attained and result.lower is not None and result.lower > 0.0 and result.at > 0.0:
        target = down(result.lower, decimals)
        try:
            claims.append(_lower_claim(statement, result, target, _known(result, result.lower)))
            lower = target
        except (NoPlan, checker.Unproved) as error:
            reasons.append(f"at least {target}: {error}")
    certificate = _certificate(pipeline, statement, claims, group_size)
    headline = up(result.upper, decimals)
    return Proof(result, upper_claim["epsilon"], upper_claim["delta"], headline, lower, tuple(reasons), certificate)


def _prove_upper(statement: CertifiedParts, result: Account, decimals: int) -> tuple[str, Json, list[str]]:
    """Return the first of the `_candidates` that has a proof, its claim, and the reasons why those before it have none.

    Raises NotRepresentable with the reason of the last one if none of them has a proof.
    """
    from dpcli.certify.checker import Unproved

    reasons: list[str] = []
    for value in _candidates(statement, result, decimals):
        try:
            return value, _upper_claim(statement, result, value, _known(result, result.upper)), reasons
        except (NoPlan, Unproved) as error:
            reasons.append(f"{value}: {error}")
    raise NotRepresentable(reasons[-1])


def _texts(result: Account, value: str) -> Json:
    """Return epsilon and delta as texts: `value` for the quantity that was computed, and the number at which it was computed."""
    fixed = repr(result.at) if result.at else "0"
    return {"epsilon": value, "delta": fixed} if result.quantity == "epsilon" else {"epsilon": fixed, "delta": value}


def _known(result: Account, value: float) -> CurvePoint:
    """Return an epsilon and its delta as the accountants have them. value: one end of the interval of `result`."""
    if result.quantity == "epsilon" and value == 0.0 < result.at:  # delta at epsilon 0 is less than the delta that was asked
        return CurvePoint(0.0, account(result.pipeline, epsilon=0.0, group_size=result.group_size).upper)
    return CurvePoint(value, result.at) if result.quantity == "epsilon" else CurvePoint(result.at, value)


def _candidates(statement: CertifiedParts, result: Account, decimals: int) -> Iterator[str]:
    """Yield texts of bounds to prove, each rounded up: the headline, then slightly larger ones, and last Chernoff's bound.

    The bounds after the headline are for epsilon at a positive delta only. Chernoff's is left out if it is infinite.
    """
    yield up(result.upper, decimals)
    if result.quantity == "epsilon" and result.at > 0.0:
        for share in SHARES:
            yield up(Decimal(up(result.upper, decimals)) * (1 + share), decimals)
        from dpcli.certify.checker import cases_of

        cases = cases_of(statement.stated()).values()
        bounds = [proof_search.chernoff_epsilon(parts, direction, result.at) for parts, direction in cases]
        if all(map(math.isfinite, bounds)):
            yield up(max(bounds) * (1.0 + 1e-6), decimals)  # a little more, because the search is not exact


def _upper_claim(statement: CertifiedParts, result: Account, value: str, known: CurvePoint) -> Json:
    """Return the claim that `value` is an upper bound, proved for each alternative and direction.

    Raises NoPlan or Unproved if an alternative or direction has no proof.
    """
    from dpcli.certify.checker import cases_of

    claim = {"bound": "upper", **_texts(result, value)}
    # `cases_of` names each combination of an alternative and a direction, and gives its parts.
    proofs = {key: _plan(case, claim, known) for key, case in cases_of(statement.stated()).items()}
    return {**claim, "proofs": proofs}


def _lower_claim(statement: CertifiedParts, result: Account, value: str, known: CurvePoint) -> Json:
    """Return the claim that `value` is a lower bound, with a proof for the first alternative and direction for which one is found.

    Raises the last NoPlan or Unproved if no proof is found.
    """
    from dpcli.certify.checker import Unproved, cases_of

    claim = {"bound": "lower", **_texts(result, value)}
    error: Exception = NoPlan("no direction")
    for key, case in cases_of(statement.stated()).items():
        try:
            return {**claim, "proofs": {key: _plan(case, claim, known)}}
        except (NoPlan, Unproved) as problem:
            error = problem
    raise error


def _plan(case: tuple[list[Json], str], claim: Json, known: CurvePoint) -> Json:
    """Return a plan by which the checker proves a claim for one alternative and direction.

    case: the parts of the alternative, and the direction. Raises NoPlan if no plan is found, and Unproved if none that is found proves the
    claim.
    """
    from dpcli.certify import checker

    parts, direction = case
    epsilon, delta, is_upper = float(claim["epsilon"]), float(claim["delta"]), claim["bound"] == "upper"
    plan = proof_search.find_plan(parts, direction, epsilon, delta, upper=is_upper, known=known)
    try:
        checker.show(parts, claim, direction, plan)
    except checker.Unproved:
        if "pad" not in plan:  # without a pad, the search would return the same plan
            raise
        plan = proof_search.find_plan(parts, direction, epsilon, delta, upper=is_upper, known=known, pad=SMALL_PAD)
        checker.show(parts, claim, direction, plan)
    return plan


def _certificate(pipeline: Pipeline, statement: CertifiedParts, claims: list[Json], group_size: int) -> Json:
    """Return the whole certificate. "file" and "dpcli" are for readers; the checker does not use them."""
    return {
        "format": 1,
        "file": {"name": os.path.basename(pipeline.path or ""), "sha256": pipeline.sha256},
        "dpcli": __version__,
        "statement": _statement(pipeline, group_size),
        "assumes": list(statement.assumptions),
        **statement.stated(),
        "claims": claims,
    }


def _statement(pipeline: Pipeline, group_size: int) -> Json:
    """Return the neighbouring relation that the certificate is about. The checker cannot check it; `require_about` compares it."""
    privacy = pipeline.privacy
    return {
        "unit": privacy.unit,
        "adjacency": privacy.adjacency.value,
        "max_contributions": privacy.max_contributions,
        "group_size": group_size,
    }


class AnotherFile(NotRepresentable):
    """A certificate is about another statement, or other mechanisms, than those of a file. The message names the first difference."""


def require_about(certificate: Json, pipeline: Pipeline) -> None:
    """Check that a certificate is about the statement and the mechanisms of a pipeline.

    Raises:
        AnotherFile: It is about others, or claims a lower bound although the pairs of the pipeline need not be attained.
        NotRepresentable: No certificate can be about the pipeline, for the reasons of `certified_parts`.
        KeyError, TypeError: The certificate's claims are missing or no list. Callers catch these, because anybody may write a certificate.
    """
    stated = certificate.get("statement")
    group_size = stated.get("group_size") if isinstance(stated, dict) else None
    if type(group_size) is not int or group_size < 1:
        raise AnotherFile(f"expected a group size of at least 1, found {group_size!r}")
    of_file = certified_parts(pipeline, group_size)
    expected = {
        "statement": _statement(pipeline, group_size),
        "assumes": list(of_file.assumptions),
        "alternatives": None,
        **of_file.stated(),
    }
    for key, value in expected.items():
        if certificate.get(key) != value:
            raise AnotherFile(_first_difference(key, certificate.get(key), value))
    if not of_file.attained and any(
        not isinstance(claim, dict) or claim.get("bound") != "upper" for claim in certificate["claims"]
    ):
        raise AnotherFile("the certificate has a lower bound of pairs that the mechanisms of the file need not attain")


def _first_difference(place: str, proved: Any, own: Any) -> str:
    """Return a sentence about the first place where two unequal JSON values differ.

    proved: the value in a certificate; own: the value that the file states.
    """
    if isinstance(proved, dict) and isinstance(own, dict):
        key = next(key for key in [*own, *proved] if proved.get(key) != own.get(key) or (key in proved) != (key in own))
        return _first_difference(f"{place}.{key}", proved.get(key), own.get(key))
    if isinstance(proved, list) and isinstance(own, list):
        if len(proved) != len(own):
            return f"the certificate lists {len(proved)} under {place}, and the file gives {len(own)}"
        index = next(index for index in range(len(own)) if proved[index] != own[index])
        return _first_difference(f"{place}[{index}]", proved[index], own[index])
    return f"the certificate is about {place} = {json.dumps(proved)}, and the file states {json.dumps(own)}"
