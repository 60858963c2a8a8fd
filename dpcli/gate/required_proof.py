"""The condition of --require-proof: the headline of a file has a proof that the checker has followed."""

from __future__ import annotations

from dpcli.analysis.account import Account
from dpcli.base.errors import NotRepresentable
from dpcli.base.rounding import up
from dpcli.gate.verdicts import Condition


def proof_condition(result: Account) -> Condition:
    """Return the verdict on a file's epsilon as it is printed: "unknown" if no proof of it was found, with the reason."""
    from dpcli.certify.certificate import prove

    try:
        proof = prove(result.pipeline, delta=result.at)
    except NotRepresentable as error:
        return Condition("proof", "unknown", f"epsilon {up(result.upper)} has no proof: {error}", ())
    if proof.epsilon != proof.headline:
        return Condition(
            "proof", "unknown", f"epsilon {proof.headline} has no proof; {proof.epsilon} at delta = {proof.delta} has one", ()
        )
    return Condition("proof", "pass", f"proved: epsilon <= {proof.epsilon} at delta = {proof.delta}", ())
