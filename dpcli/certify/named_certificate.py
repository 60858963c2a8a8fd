"""Certificates in files, named by their digests, so that a number that someone signs can say which certificate proves it.

A certificate is JSON that checker.py verifies in ball arithmetic. `dpcli certify` writes it; report, attest, gate and the ledger name it by
its SHA-256. Before they do, `named_proof` checks it again, and that it is about the same mechanisms as the file: a proof about something
else must not lend its weight. A proved epsilon larger than the printed one proves nothing about it.
"""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpcli.base.errors import CannotCertify, InputError, NotRepresentable
from dpcli.base.extras import require
from dpcli.base.rounding import up
from dpcli.base.values import dataclass

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline

Json = dict[str, Any]
# Errors that the checker may raise, besides Unproved, for a malformed certificate.
MALFORMED = (ValueError, KeyError, TypeError, AttributeError, IndexError, ZeroDivisionError, OverflowError, MemoryError)


@dataclass(frozen=True, slots=True)
class NamedProof:
    """A proved upper bound on epsilon, with the certificate that holds the proof.

    Attributes:
        digest: SHA-256 of the certificate's file, in hexadecimal digits.
        epsilon, delta: Decimal texts of the proved upper bound.
    """

    digest: str
    epsilon: str
    delta: str

    @property
    def words(self) -> str:
        """The sentence that is printed with a proved number."""
        return (
            f"proved by certificate sha256:{self.digest} (epsilon <= {self.epsilon} at delta = {self.delta}, dpcli certify --check)"
        )

    @property
    def data(self) -> Json:
        """The proof as JSON values."""
        return {"sha256": self.digest, "epsilon": self.epsilon, "delta": self.delta}


def text_of(certificate: Json) -> bytes:
    """Return the bytes of a certificate's file."""
    return (json.dumps(certificate, indent=1) + "\n").encode()


def digest_of(data: bytes) -> str:
    """Return the SHA-256 of a certificate's bytes, in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def read_certificate(path: str) -> tuple[Json, str]:
    """Return the JSON object in a file, and the digest of the file. Raises InputError if it holds no JSON object."""
    require("flint")
    from dpcli.certify.checker import Unproved, without_repeated_keys

    try:
        with open(path, "rb") as file:
            data = file.read()
        value = json.loads(data.decode(), object_pairs_hook=without_repeated_keys)
    except OSError as error:
        raise InputError(
            f"{path}: expected a certificate of dpcli certify, found a file that cannot be read: {error.strerror}"
        ) from None
    except (RecursionError, Unproved, ValueError) as error:
        raise InputError(f"{path}: expected a certificate of dpcli certify (JSON), found a file that is none: {error}") from None
    if not isinstance(value, dict):
        raise InputError(f"{path}: expected a certificate of dpcli certify, found a JSON {type(value).__name__}")
    if "schema" in value:
        raise InputError(
            f"{path}: expected a certificate, which dpcli certify writes by --write, found a printed result of schema {value['schema']!r}"
        )
    return value, digest_of(data)


def proved_sentences(path: str, certificate: Json) -> list[str]:
    """Return what the checker finds proved by a certificate, in sentences. Raises CannotCertify if the proof fails."""
    from dpcli.certify import checker

    try:
        return checker.check(certificate)
    except (checker.Unproved, *MALFORMED) as error:
        raise CannotCertify(f"{path}: not proved: {error or type(error).__name__}") from None


def require_same_mechanisms(path: str, certificate: Json, pipeline: Pipeline) -> None:
    """Raise CannotCertify if the certificate at a path is about other mechanisms than the pipeline's, or is not a certificate."""
    from dpcli.certify.certificate import AnotherFile, require_about

    own = pipeline.path or "this one"
    try:
        require_about(certificate, pipeline)
    except AnotherFile as error:
        raise CannotCertify(f"{path}: about another file than {own}: {error}") from None
    except NotRepresentable as error:
        raise CannotCertify(f"{path}: not about {own}, of which nothing can be certified: {error}") from None
    except MALFORMED as error:
        raise CannotCertify(f"{path}: not proved: {type(error).__name__}: {error}") from None


def named_proof(path: str, pipeline: Pipeline, epsilon: float, delta: float) -> NamedProof:
    """Check the certificate at a path, and return what it proves of a pipeline.

    Args:
        path: Path of a certificate that dpcli certify wrote.
        pipeline: The pipeline, one unit of which changes. The certificate must state its mechanisms; the name of its file does not matter.
        epsilon: Upper bound that is printed, at `delta`, rounded up. The certificate must prove a bound that is no larger, at a delta that
            is no larger.

    Raises:
        InputError: The file holds no certificate.
        CannotCertify: The certificate proves nothing, is about other mechanisms, or proves less than what is printed.
    """
    certificate, digest = read_certificate(path)
    require_same_mechanisms(path, certificate, pipeline)
    if certificate["statement"]["group_size"] != 1:
        raise CannotCertify(
            f"{path}: expected a certificate about one unit, found one about {certificate['statement']['group_size']}"
        )
    proved_sentences(path, certificate)
    bounds = [(claim["epsilon"], claim["delta"]) for claim in certificate["claims"] if claim["bound"] == "upper"]
    if not bounds:
        raise CannotCertify(f"{path}: expected a proof of an upper bound, found one of a lower bound alone")
    printed = up(epsilon)
    for proved_epsilon, proved_delta in bounds:
        if _is_no_larger(proved_epsilon, printed) and _is_no_larger(proved_delta, repr(delta)):
            return NamedProof(digest, proved_epsilon, proved_delta)
    proved = " and ".join(f"epsilon <= {proved_epsilon} at delta = {proved_delta}" for proved_epsilon, proved_delta in bounds)
    raise CannotCertify(f"{path}: expected a proof of epsilon <= {printed} at delta = {delta!r}, found one of {proved}")


def _is_no_larger(proved: str, printed: str) -> bool:
    """Compare two decimal texts exactly; a printed "inf" is larger than every number."""
    return printed == "inf" or Fraction(proved) <= Fraction(printed)
