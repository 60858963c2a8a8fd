"""The condition of --require-proof and --certificate: the headline of a file has a proof that the checker has followed."""

from __future__ import annotations

from collections.abc import Sequence

from dpcli.analysis.account import Account
from dpcli.base.errors import CannotCertify, NotRepresentable
from dpcli.base.rounding import up
from dpcli.gate.verdicts import Condition


def proof_condition(result: Account, certificates: Sequence[str] = ()) -> Condition:
    """Return the verdict on a file's epsilon as it is printed: "unknown" if no proof of it was found, with the reason.

    Args:
        certificates: Paths of certificates, one of which must be the proof. Without any, a proof is searched for.
    """
    if certificates:
        return _named_proof_condition(result, certificates)
    from dpcli.certify.certificate import prove
    from dpcli.certify.named_certificate import NamedProof, digest_of, text_of

    try:
        proof = prove(result.pipeline, delta=result.at)
    except NotRepresentable as error:
        return Condition("proof", "unknown", f"epsilon {up(result.upper)} has no proof: {error}", ())
    if proof.epsilon != proof.headline:
        return Condition(
            "proof", "unknown", f"epsilon {proof.headline} has no proof; {proof.epsilon} at delta = {proof.delta} has one", ()
        )
    digest = digest_of(text_of(proof.certificate))
    return Condition("proof", "pass", NamedProof(digest, proof.epsilon, proof.delta).words, ())


def _named_proof_condition(result: Account, certificates: Sequence[str]) -> Condition:
    from dpcli.certify.named_certificate import named_proof

    reasons = []
    for path in certificates:
        try:
            return Condition("proof", "pass", named_proof(path, result.pipeline, result.upper, result.at).words, ())
        except CannotCertify as error:
            reasons.append(str(error))
    return Condition("proof", "unknown", f"epsilon {up(result.upper)} has no proof: {'; '.join(reasons)}", ())
