"""Tests of the certificate that a charge names: a file and a database keep it without new definitions."""

from __future__ import annotations

import pytest

from dpcli.ledger.ledger import Ledger
from dpcli.ledger.requests import certificate_of
from dpcli.ledger.stores.places import init, open_ledger
from dpcli.ledger.terms import LedgerTerms
from dpcli.ledger.verify import verify
from tests.ledger.conftest import ON_BOTH, Place
from tests.ledger.pipelines import pure

DIGEST = "0123456789abcdef" * 4
TERMS = LedgerTerms(unit="user", adjacency="add-remove", epsilon=1.0, delta=1e-6, filter="approx-dp")


def named(ledger: Ledger) -> dict[str, str | None]:
    return {entry.key: certificate_of(entry.content) for entry in ledger.entries() if entry.key}


@ON_BOTH
def test_the_certificate_is_kept_in_the_entry(place: Place) -> None:
    with init(place.url, "visits", TERMS) as ledger:
        ledger.spend(pure(0.1), "plain", 0.0)
        ledger.spend(pure(0.1), "named", 0.0, certificate=DIGEST)
        ledger.reserve(pure(0.1), "kept", 0.0, certificate=DIGEST)
    with open_ledger(place.url, "visits") as ledger:
        assert named(ledger) == {"plain": None, "named": DIGEST, "kept": DIGEST}
        assert verify(ledger).problems == ()
        assert {key: certificate_of(run.content) for key, run in ledger.state().runs.items()} == named(ledger)


@pytest.mark.parametrize(
    "detail",
    [
        "",
        f"sha256:{DIGEST}",
        f"certificate sha256:{DIGEST[1:]}",
        f"certificate sha256:{DIGEST}0",
        f"certificate sha256:{DIGEST}\n",
        f"certificate sha256:{DIGEST.upper()}",
        f"no certificate sha256:{DIGEST}",
        f"certificate sha256:{DIGEST}; epsilon 1",
    ],
)
def test_what_has_another_shape_is_no_certificate(detail: str) -> None:
    """A certificate is 64 lower-case hexadecimal digits at the end of the detail, alone or after a semicolon."""
    assert certificate_of({"detail": detail}) is None
    assert certificate_of({"detail": f"epsilon 1; certificate sha256:{DIGEST}"}) == DIGEST
    assert certificate_of({}) is None
