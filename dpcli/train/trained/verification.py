"""Whether an attestation is one of a run as it is now: the statement is made anew from the folder, and compared value by value."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dpcli.base.errors import CannotCertify, InputError
from dpcli.file.toml.limits import MAX_BYTES, read_bytes
from dpcli.train.run.description import description_in, distinct
from dpcli.train.trained.attestation import PAYLOAD_TYPE, PREDICATE_TYPE, STATEMENT_TYPE, attestation

KIND = "what dpcli attest writes"
STATED = ("_type", "subject", "predicateType", "predicate")  # names of a statement


@dataclass(frozen=True, slots=True)
class Verification:
    """problems: why the attestation is not one of this run, in words; none where it is. signed: whether it came with signatures, which
    are not checked here. claimed: its guarantee, as it says."""

    folder: str
    file: str
    problems: tuple[str, ...]
    signed: bool
    claimed: Mapping[str, Any]


def verify(folder: str, file: str) -> Verification:
    """Compare the attestation in a file, a statement or a DSSE envelope with one, with the run in a folder.

    Raises InputError where the file is no attestation of this kind, or the folder holds no run that describes itself.
    """
    stated, signed = _read(file)
    description_in(folder)
    try:
        problems = tuple(_differences(attestation(folder), stated))
    except (InputError, CannotCertify) as refusal:  # what is in the folder can no longer be attested at all
        problems = (str(refusal),)
    return Verification(folder, file, problems, signed, stated["predicate"]["guarantee"])


def _read(file: str) -> tuple[dict[str, Any], bool]:
    """The statement, and whether it was in an envelope, bare or in a Sigstore bundle, that has signatures."""
    data = read_bytes(file, KIND)
    try:
        if len(data) > MAX_BYTES:
            raise ValueError
        found = json.loads(data, object_pairs_hook=distinct)
        envelope = found.get("dsseEnvelope", found)
        signed = "payload" in envelope and any(envelope.get("signatures", ()))
        if "payload" in envelope:
            if envelope["payloadType"] != PAYLOAD_TYPE or _says_more(found, envelope):
                raise ValueError
            found = json.loads(base64.b64decode(envelope["payload"], validate=True), object_pairs_hook=distinct)
        types = (found["_type"], found["predicateType"])
        sound = types == (STATEMENT_TYPE, PREDICATE_TYPE) and type(found["predicate"]["guarantee"]) is dict
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error, RecursionError):
        sound = False
    if not sound:
        raise InputError(f"{file}: expected {KIND}, a statement or a signed envelope of one, found something else")
    return found, signed


def _says_more(found: dict[str, Any], envelope: dict[str, Any]) -> bool:
    """Whether there is a statement, or another payload, beside the payload that is read: other readers may take that one."""
    beside = found.keys() | envelope.keys() if envelope is found else found.keys() | (envelope.keys() - {"payload", "payloadType"})
    return bool(beside & ({*STATED} if envelope is found else {*STATED, "payload", "payloadType"}))


def _differences(expected: Any, stated: Any, place: str = "") -> Iterator[str]:
    """In words."""
    if isinstance(expected, dict) and isinstance(stated, dict):
        name = expected.get("name")
        if "digest" in expected and name == stated.get("name") and expected["digest"] != stated.get("digest"):
            yield f"{name}: not the file that was attested"
            return
        for name in sorted(expected.keys() | stated.keys()):
            where = f"{place}.{name}" if place else str(name)
            if name not in stated:
                yield f"{where}: expected {json.dumps(expected[name])}, as the run is, found no such name in the attestation"
            elif name not in expected:  # even null: another reader may make something of it
                yield f"{where}: expected no such name, found {json.dumps(stated[name])} in the attestation"
            else:
                yield from _differences(expected[name], stated[name], where)
    elif isinstance(expected, list) and isinstance(stated, list) and len(expected) == len(stated):
        for number, (one, other) in enumerate(zip(expected, stated, strict=True)):
            yield from _differences(one, other, f"{place}[{number}]")
    elif type(expected) is not type(stated) or expected != stated:
        yield f"{place}: expected {json.dumps(expected)}, as the run is, found {json.dumps(stated)} in the attestation"
