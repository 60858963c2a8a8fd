"""A certificate is named by its digest wherever a number is signed: in reports, by the gate, and in a ledger.

It is named only if it proves the number of this file, for this delta and this unit; certificates that prove less are refused.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpcli.base.errors import CannotCertify, InputError
from dpcli.certify.certificate import prove
from dpcli.certify.named_certificate import NamedProof, named_proof, text_of
from dpcli.document.formats.facts import renderable
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.read import load, parse
from tests.command import ROOT, dpcli

pytest.importorskip("flint", reason="the checker needs python-flint")

SGD = "examples/dp-sgd.toml"
EPSILON, DELTA = 2.600247730, 1e-6  # of SGD, which prints 2.6003


@pytest.fixture(scope="module")
def proof(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("proofs") / "proof.json"
    result = dpcli("certify", SGD, "--write", str(path))
    assert result.code == 0
    assert f"sha256:{digest(path)}" in result.out.replace("\n", "")
    return path


@pytest.fixture(scope="module")
def sgd() -> Pipeline:
    with contextlib.chdir(ROOT):
        return load(SGD)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def sentence(path: Path) -> str:
    return f"proved by certificate sha256:{digest(path)} (epsilon <= 2.6003 at delta = 1e-06, dpcli certify --check)"


def joined(text: str) -> str:
    """Return a text without the places where it may be broken."""
    return "".join(text.replace("<wbr>", "").split())


@pytest.mark.long
def test_certify_prints_the_digest_of_what_it_writes_and_checks(proof: Path, tmp_path: Path) -> None:
    """The digest is the same in JSON, whether or not the certificate is written."""
    assert json.loads(dpcli("certify", SGD, "-f", "json").out)["certificate_sha256"] == digest(proof)
    checked = dpcli("certify", "--check", str(proof))
    assert f"sha256:{digest(proof)}" in joined(checked.out)
    assert json.loads(dpcli("certify", "--check", str(proof), "-f", "json").out)["sha256"] == digest(proof)


def spoilt(proof: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    content = json.loads(proof.read_text())
    change(content)
    path = tmp_path / "spoilt.json"
    path.write_text(json.dumps(content))
    return path


def with_smaller_epsilon(content: dict[str, Any]) -> None:
    content["claims"][0]["epsilon"] = "2.5"


def with_other_count(content: dict[str, Any]) -> None:
    content["parts"][0]["count"] += 1


def for_two_units(content: dict[str, Any]) -> None:
    content["statement"]["group_size"] = 2


def without_upper_bound(content: dict[str, Any]) -> None:
    del content["claims"][0]


def without_claims(content: dict[str, Any]) -> None:
    del content["claims"]


WRONG: list[tuple[Callable[[dict[str, Any]], None], str]] = [
    (with_smaller_epsilon, r"not proved: .*delta\(2\.5\) <= 1e-06 is not shown"),
    (
        with_other_count,
        r"about another file than examples/dp-sgd\.toml: the certificate is about parts\[0\]\.count = \d+, and the file",
    ),
    (for_two_units, "about another file than examples/dp-sgd.toml"),
    (without_upper_bound, "found one of a lower bound alone"),
    (without_claims, "not proved"),
    (dict.clear, "about another file than examples/dp-sgd.toml: expected a group size"),
]


@pytest.mark.parametrize(("change", "message"), WRONG, ids=lambda value: getattr(value, "__name__", ""))
def test_what_proves_nothing_of_the_file_is_refused(
    proof: Path, sgd: Pipeline, tmp_path: Path, change: Callable[[dict[str, Any]], None], message: str
) -> None:
    with pytest.raises(CannotCertify, match=message):
        named_proof(str(spoilt(proof, tmp_path, change)), sgd, EPSILON, DELTA)


CAPPED = b"""format = 1

[privacy]
adjacency = "add-remove"
delta = 1e-6
dataset_size = 1000

[[mechanism]]
name = "train"
type = "gaussian"
noise_multiplier = 1.1
steps = 10
sampling = { scheme = "poisson", batch_size = 100, max_batch_size = 150 }
"""


def test_a_file_of_which_nothing_can_be_certified_is_not_called_another_file(proof: Path) -> None:
    with pytest.raises(CannotCertify, match=r"of which nothing can be certified: .*max_batch_size") as refused:
        named_proof(str(proof), parse(CAPPED, "capped.toml"), EPSILON, DELTA)
    assert "another file" not in str(refused.value)


@pytest.mark.long
def test_what_proves_less_than_is_printed_is_refused(proof: Path, sgd: Pipeline) -> None:
    """Printed digits decide: 2.6003 proves 2.60024, and no 2.6002; at a larger delta, and at no smaller one."""
    expected = NamedProof(digest(proof), "2.6003", "1e-06")
    for epsilon, delta in ((EPSILON, DELTA), (2.6003, DELTA), (2.7, DELTA), (EPSILON, 2e-6)):
        assert named_proof(str(proof), sgd, epsilon, delta) == expected
    for epsilon, delta in ((2.6002, DELTA), (EPSILON, 9e-7), (EPSILON, 0.0)):
        with pytest.raises(
            CannotCertify, match=r"expected a proof of epsilon <= .*, found one of epsilon <= 2\.6003 at delta = 1e-06"
        ):
            named_proof(str(proof), sgd, epsilon, delta)


def test_a_certificate_about_two_units_proves_nothing_about_one(tmp_path: Path) -> None:
    path = tmp_path / "two.json"
    file = tmp_path / "pure.toml"
    file.write_text(
        'format = 1\n[privacy]\nadjacency = "add-remove"\ndelta = 1e-6\n[[mechanism]]\nname = "a"\ntype = "pure-dp"\nepsilon = 0.1\n'
    )
    path.write_bytes(text_of(prove(load(str(file)), group_size=2).certificate))
    with pytest.raises(CannotCertify, match="expected a certificate about one unit, found one about 2"):
        named_proof(str(path), load(str(file)), 1.0, 1e-6)


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, '{"claims": [], "claims": []}', "\xff"])
def test_what_is_no_certificate_is_an_input_error(text: str, sgd: Pipeline, tmp_path: Path) -> None:
    path = tmp_path / "none.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match="expected a certificate of dpcli certify"):
        named_proof(str(path), sgd, EPSILON, DELTA)
    with pytest.raises(InputError, match="expected a certificate of dpcli certify"):
        named_proof(str(tmp_path / "missing.json"), sgd, EPSILON, DELTA)


REPORTED = [name for name in renderable(("table", "total")) if name != "total"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("registry", [False, True])
def test_a_report_names_it_in_every_format(proof: Path, registry: bool, tmp_path: Path) -> None:
    """The only exception is the format that is a bare number."""
    form = ["--registry"] if registry else []
    outputs = [(name, tmp_path / name) for name in REPORTED]
    arguments = [word for name, path in outputs for word in ("-o", f"{name}={path}")]
    result = dpcli("report", SGD, "--certificate", str(proof), *form, *arguments)
    assert result.code == 0
    for name, path in outputs:
        assert digest(proof) in joined(path.read_text()), name
    data = json.loads((tmp_path / "json").read_text())
    assert data["certificate"] == {"sha256": digest(proof), "epsilon": "2.6003", "delta": "1e-06"}
    (item,) = [each for each in data["items"] if each["id"] == "proof"]
    assert item["answer"] == sentence(proof)


def test_a_report_without_one_has_no_such_item() -> None:
    data = json.loads(dpcli("report", SGD, "-f", "json").out)
    assert data["certificate"] is None
    assert "proof" not in [each["id"] for each in data["items"]]


def test_a_report_says_why_a_certificate_is_not_its_proof(proof: Path, tmp_path: Path) -> None:
    other = dpcli("report", "examples/mnist.toml", "--certificate", str(proof))
    assert (other.code, "about another file than examples/mnist.toml" in other.err, other.out) == (3, True, "")
    less = dpcli("report", SGD, "--delta", "1e-7", "--certificate", str(proof))
    assert (less.code, "found one of epsilon <= 2.6003 at delta = 1e-06" in less.err, less.out) == (3, True, "")
    false = dpcli("report", SGD, "--certificate", str(spoilt(proof, tmp_path, with_smaller_epsilon)))
    assert (false.code, "not proved" in false.err, false.out) == (3, True, "")


@pytest.mark.long
def test_the_gate_names_what_it_finds_and_what_it_is_given(proof: Path, tmp_path: Path) -> None:
    """Both are the certificate that `certify` would write. A certificate that is given needs no search."""
    for flags in (["--require-proof"], ["--certificate", str(proof)], ["--require-proof", "--certificate", str(proof)]):
        result = dpcli("gate", SGD, *flags, "-f", "json")
        (condition,) = [each for each in json.loads(result.out)["files"][0]["conditions"] if each["name"] == "proof"]
        assert (result.code, condition["verdict"], condition["message"]) == (0, "pass", sentence(proof))


def test_the_gate_searches_for_nothing_where_certificates_are_given(
    proof: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpcli.certify import proof_search

    def refused(*args: Any, **options: Any) -> Any:
        raise AssertionError("a search")

    monkeypatch.setattr(proof_search, "find_plan", refused)
    assert dpcli("gate", SGD, "--certificate", str(proof)).code == 0
    wrong = spoilt(proof, tmp_path, with_smaller_epsilon)
    assert dpcli("gate", SGD, "--certificate", str(wrong), "--certificate", str(proof)).code == 0
    result = dpcli("gate", SGD, "--certificate", str(wrong))
    assert (result.code, "epsilon 2.6003 has no proof" in result.out, "isnotshown" in joined(result.out)) == (3, True, True)
    assert dpcli("gate", SGD, "--certificate", str(tmp_path / "missing.json")).code == 2


TERMS = {"--dataset": "visits", "--unit": "example", "--adjacency": "add-remove", "--epsilon": "9", "--delta": "1e-5"}


def test_a_ledger_keeps_the_digest_and_shows_it_everywhere(proof: Path, tmp_path: Path) -> None:
    """The answers, `show`, `log` and `export` have it, and no cost changes."""
    ledger = str(tmp_path / "ledger.db")
    assert dpcli("budget", "init", ledger, *[word for term in TERMS.items() for word in term], "--filter", "approx-dp").code == 0
    plain = json.loads(dpcli("budget", "spend", ledger, SGD, "--key", "plain", "-f", "json").out)["entry"]
    spent = dpcli("budget", "spend", ledger, SGD, "--key", "named", "--certificate", str(proof))
    assert f"certificate: sha256:{digest(proof)}" in spent.out
    reserved = json.loads(
        dpcli("budget", "reserve", ledger, SGD, "--key", "kept", "--certificate", str(proof), "--reason", "a run", "-f", "json").out
    )["entry"]
    assert ("certificate" in plain, reserved["certificate"], reserved["cost"]) == (False, digest(proof), plain["cost"])
    assert reserved["detail"] == f"{plain['detail']}; certificate sha256:{digest(proof)}"
    assert digest(proof)[:16] in dpcli("budget", "show", ledger).out
    shown = json.loads(dpcli("budget", "show", ledger, "-f", "json").out)["runs"]
    assert [run.get("certificate") for run in shown] == [None, digest(proof), digest(proof)]
    assert joined(dpcli("budget", "log", ledger).out).count(digest(proof)) == 2
    assert joined(f"a run (certificate sha256:{digest(proof)})") in joined(dpcli("budget", "log", ledger, "-f", "text").out)
    assert dpcli("budget", "export", ledger, "-f", "jsonl").out.count(f"certificate sha256:{digest(proof)}") >= 2
    assert dpcli("budget", "verify", ledger).code == 0


@pytest.mark.long
def test_a_repeated_charge_keeps_the_certificate_of_its_entry(proof: Path, tmp_path: Path) -> None:
    ledger = str(tmp_path / "ledger.db")
    assert dpcli("budget", "init", ledger, *[word for term in TERMS.items() for word in term], "--filter", "approx-dp").code == 0
    assert dpcli("budget", "spend", ledger, SGD, "--key", "a").code == 0
    again = dpcli("budget", "spend", ledger, SGD, "--key", "a", "--certificate", str(proof))
    assert (again.code, '"a" names no certificate in its entry; --certificate changes nothing' in again.err) == (0, True)
    assert dpcli("budget", "spend", ledger, SGD, "--key", "b", "--certificate", str(proof)).code == 0
    again = dpcli("budget", "spend", ledger, SGD, "--key", "b", "--certificate", str(proof))
    assert (again.code, "--certificate changes nothing" in again.err) == (0, False)


def test_a_ledger_refuses_what_proves_nothing_of_the_file(proof: Path, tmp_path: Path) -> None:
    ledger = str(tmp_path / "ledger.db")
    assert dpcli("budget", "init", ledger, *[word for term in TERMS.items() for word in term], "--filter", "approx-dp").code == 0
    wrong = spoilt(proof, tmp_path, with_other_count)
    for kind in ("spend", "reserve"):
        refused = dpcli("budget", kind, ledger, SGD, "--key", "a", "--certificate", str(wrong))
        assert (refused.code, "about another file than examples/dp-sgd.toml" in refused.err) == (3, True)
    assert json.loads(dpcli("budget", "show", ledger, "-f", "json").out)["runs"] == []
