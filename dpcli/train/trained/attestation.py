"""The attestation of a training run, and its verification. An attestation is an in-toto statement about the file of the model.

`dpcli attest` writes it and verifies it. It is computed from the *description* of the run (model.json, run/description.py), after epsilon
was computed again from the run's copy of its training file. The attestation is unsigned. A tool such as cosign can sign its bytes as the
payload of a DSSE envelope. This module does not import torch.

Source: in-toto Attestation Framework, Statement v1; DSSE v1.0.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from dpcli.base.errors import CannotCertify, InputError
from dpcli.certify.named_certificate import named_proof
from dpcli.train.plan.plan import TrainingPlan, plan_of
from dpcli.train.run.description import RUN_FILES, Description, description_in, digest_of, guarantee, read_json, unique_names
from dpcli.train.run.outcome import DESCRIPTION, MODEL, PIPELINE, STATEMENT

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:dpcli:private-training:v1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
# Accepted relative difference of epsilon, because an accountant's rounding may differ between machines. A choice: a run may claim an
# epsilon that is smaller by this share than the one that this machine computes.
ROUNDING = 1e-9

KIND = "an attestation that dpcli attest writes"  # what a file must be, in words


def attestation(folder: str, certificate: str | None = None) -> dict[str, Any]:
    """Return the attestation of the run in a folder.

    It states the digest of the model, the guarantee, and the digests of the files from which the guarantee follows. Epsilon is computed
    again from the run's copy of the training file. A run that claims a smaller epsilon is refused.

    Args:
        certificate: Path of a certificate that proves the epsilon of the run; None for none.

    Raises:
        InputError: The folder has no run with a description, the run is NOT PRIVATE, a file was changed after the run, or the training
            file costs more than the run claims.
        CannotCertify: No accountant can bound the cost of the file, or the certificate does not prove the epsilon of the run.
    """
    description = description_in(folder)
    if description.guarantee["private"] is not True:
        raise InputError(f"{folder}: the run is NOT PRIVATE (the noise is seeded, or visible to an audit): nothing is attested")
    description.require_unchanged(*description.files)
    plan = confirmed_plan(description, plan_of(description.path(PIPELINE)))
    predicate = _predicate(description)
    adapter_files = sorted(description.files.keys() - {*RUN_FILES})
    if certificate is not None:
        predicate["certificate"] = _proof_data(description, plan, certificate)
    return {
        "_type": STATEMENT_TYPE,
        "subject": [_resource(name, description.files[name]) for name in (MODEL, *adapter_files)],
        "predicateType": PREDICATE_TYPE,
        "predicate": predicate,
    }


def _predicate(description: Description) -> dict[str, Any]:
    """Return the claims of an attestation: the guarantee, and the digests of the files from which it follows."""
    return {
        "run": description.run,
        "dpcli": description.version,
        "guarantee": dict(description.guarantee),
        "repeated": [list(portion) for portion in description.repeated],
        "statement": _resource(STATEMENT, description.files[STATEMENT]),
        "pipeline": _resource(PIPELINE, description.files[PIPELINE]),
        "description": _resource(DESCRIPTION, digest_of(description.path(DESCRIPTION))),
        "ledger": description.ledger,
    }


def _proof_data(description: Description, plan: TrainingPlan, certificate: str) -> dict[str, Any]:
    """Return the certificate and the bound that it proves for a run, as JSON values. The bound counts repeated steps twice."""
    pipeline, stated = plan.account_with(description.repeated).pipeline, description.guarantee
    proof = named_proof(certificate, pipeline, stated["epsilon"], stated["delta"])
    return {**_resource("certificate", proof.digest), "epsilon": proof.epsilon, "delta": proof.delta}


def attestation_bytes(statement: dict[str, Any]) -> bytes:
    """Return the bytes of an attestation. Repeated attestations of a run have the same bytes."""
    return (json.dumps(statement, indent=1, sort_keys=True) + "\n").encode()


def confirmed_plan(description: Description, plan: TrainingPlan) -> TrainingPlan:
    """Return the plan on the run's blocks and rows, after a comparison of the run's guarantee with the cost of the plan.

    Raises InputError if the run claims a guarantee that this version's accountants do not confirm for its file.
    """
    if any(not 0 <= start < stop <= plan.steps for start, stop in description.repeated):
        raise InputError(
            f"{description.path(DESCRIPTION)}: repeated: expected portions of {plan.steps} steps, found {description.repeated}"
        )
    claimed = description.guarantee
    plan_of_run = _on_its_blocks(description, plan).on_rows(description.rows)
    priced = guarantee(plan_of_run, description.repeated, private=True)
    if not claimed["epsilon"] >= priced["epsilon"] * (1.0 - ROUNDING):
        raise InputError(
            f"{description.path(DESCRIPTION)}: expected epsilon {priced['epsilon']!r} or more, the cost of its file, "
            f"found {claimed['epsilon']!r}"
        )
    may_differ = {"epsilon", "accountant"}  # versions of dpcli may compute another bound by another accountant
    for name in sorted((priced.keys() | claimed.keys()) - may_differ):
        if priced.get(name) != claimed.get(name):
            raise InputError(
                f"{description.path(DESCRIPTION)}: guarantee.{name}: expected {priced.get(name)!r}, found {claimed.get(name)!r}"
            )
    return plan_of_run


def _on_its_blocks(description: Description, plan: TrainingPlan) -> TrainingPlan:
    """Return the plan with the run's window if a command option set the window. The cost does not depend on it.

    Raises InputError if the guarantee and the ledger's entry name different windows.
    """
    charged, stated = (description.ledger or {}).get("window"), description.guarantee.get("window")
    # The file states the window, or the run had none.
    if plan.pipeline.privacy.window is not None or (charged is None and "window" not in description.guarantee):
        return plan
    if not charged or stated != charged:
        raise InputError(
            f"{description.path(DESCRIPTION)}: guarantee.window: expected {charged}, which the ledger charged, found {stated}"
        )
    return plan.on_blocks(tuple(charged))


def _resource(name: str, digest: str) -> dict[str, Any]:
    """Return the name and digest of a file as a resource descriptor of in-toto."""
    return {"name": name, "digest": {"sha256": digest}}


@dataclass(frozen=True, slots=True)
class Verification:
    """The comparison of an attestation with a run.

    Attributes:
        problems: Differences in words; empty if the attestation matches the run.
        signed: Whether the attestation has signatures, which dpcli does not check.
        claimed: Guarantee that the attestation states.
        proof: The certificate that the attestation names, and what it proves, as JSON values; None if it names none, or if there are
            problems.
    """

    folder: str
    file: str
    problems: tuple[str, ...]
    signed: bool
    claimed: Mapping[str, Any]
    proof: Mapping[str, Any] | None = None


def verify(folder: str, file: str, certificate: str | None = None) -> Verification:
    """Compare the attestation in a file with the run in a folder. The file contains a statement, or a DSSE envelope with a statement.

    Args:
        certificate: Path of the certificate that the attestation names, which is checked too; None if it names none.

    Raises:
        InputError: The file is not an attestation by dpcli, or the folder has no run with a description.
    """
    stated, is_signed = _read_statement(file)
    description_in(folder)
    proof = stated["predicate"].get("certificate")
    try:
        problems = tuple(_differences(attestation(folder, certificate), stated))
    except (InputError, CannotCertify) as refusal:  # the run can no longer be attested, or the certificate cannot be read
        problems = (str(refusal),)
    if proof is not None and certificate is None:
        problems = (*problems, "the attestation names a certificate: give it by --certificate, so that it is checked too")
    return Verification(folder, file, problems, is_signed, stated["predicate"]["guarantee"], None if problems else proof)


class SavedStatement(NamedTuple):
    """A statement in a file.

    Attributes:
        is_signed: Whether the envelope of the statement has signatures.
    """

    content: dict[str, Any]
    is_signed: bool


def _read_statement(file: str) -> SavedStatement:
    """Return the statement in a file. The statement may be in an envelope, and the envelope in a Sigstore bundle.

    Raises InputError if the file contains no statement by dpcli.
    """
    try:
        content = read_json(file, KIND)
        envelope = content.get("dsseEnvelope", content)
        is_signed = False
        if "payload" in envelope:
            if envelope["payloadType"] != PAYLOAD_TYPE:
                raise ValueError("payloadType")
            is_signed = any(envelope.get("signatures", ()))
            content = json.loads(base64.b64decode(envelope["payload"], validate=True), object_pairs_hook=unique_names)
        if (content["_type"], content["predicateType"]) != (STATEMENT_TYPE, PREDICATE_TYPE):
            raise ValueError("_type")
        if type(content["predicate"]["guarantee"]) is not dict:
            raise ValueError("guarantee")
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error, RecursionError):
        raise InputError(f"{file}: not {KIND}, nor a signed envelope of one") from None
    return SavedStatement(content, is_signed)


def _differences(expected: Any, stated: Any, place: str = "") -> Iterator[str]:
    """Yield the differences between two JSON values in words: `expected` of the run, and `stated` in the attestation.

    Args:
        place: Keys that lead to the values, for messages.
    """
    if isinstance(expected, dict) and isinstance(stated, dict):
        name = expected.get("name")
        if "digest" in expected and name == stated.get("name") and expected["digest"] != stated.get("digest"):
            yield f"{name}: not the file that was attested"
            return
        for name in sorted(expected.keys() | stated.keys()):
            inner_place = f"{place}.{name}" if place else str(name)
            if name not in stated:
                yield f"{inner_place}: expected {json.dumps(expected[name])} of the run, found no such name in the attestation"
            elif name not in expected:  # null is also a difference, because another reader may give it a meaning
                yield f"{inner_place}: expected no such name, found {json.dumps(stated[name])} in the attestation"
            else:
                yield from _differences(expected[name], stated[name], inner_place)
    elif isinstance(expected, list) and isinstance(stated, list) and len(expected) == len(stated):
        for number, (expected_item, stated_item) in enumerate(zip(expected, stated, strict=True)):
            yield from _differences(expected_item, stated_item, f"{place}[{number}]")
    elif type(expected) is not type(stated) or expected != stated:
        yield f"{place}: expected {json.dumps(expected)} of the run, found {json.dumps(stated)} in the attestation"
