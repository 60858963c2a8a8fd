"""The command `dpcli certify`: what it prints, its exit codes, certificates that are written and checked again, and the printed checker,
with which others can check a certificate without dpcli.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpcli.certify.commands.certify import CHECKER
from tests.command import ROOT, dpcli

pytest.importorskip("flint", reason="the checker needs python-flint")

SGD = "examples/dp-sgd.toml"


def test_a_proof_says_what_it_proves_and_assumes() -> None:
    result = dpcli("certify", SGD)
    assert result.code == 0
    assert "proved: epsilon <= 2.6003 at delta = 1e-06 (ball arithmetic, 89 bits), per example, add-remove" in result.out.replace(
        "\n", " "
    )
    assert "proved: epsilon > 2.6002 for some data" in result.out
    assert "assumed: the pairs compose (Zhu, Dong, Wang 2022, arXiv:2106.08567, Theorem 10)" in result.out
    assert dpcli("certify", SGD, "-f", "total").out == "2.6003\n"


def test_a_certificate_is_checked_with_and_without_its_file(tmp_path: Path) -> None:
    path = tmp_path / "proof.json"
    assert dpcli("certify", SGD, "--write", str(path)).code == 0
    assert dpcli("certify", "--check", str(path)).out.startswith("proved: epsilon <= 2.6003 at delta = 1e-06")
    assert dpcli("certify", SGD, "--check", str(path)).code == 0
    other = dpcli("certify", "examples/mnist.toml", "--check", str(path))
    assert (other.code, "the certificate is about" in other.err) == (3, True)
    certificate = json.loads(path.read_text())
    certificate["claims"][0]["epsilon"] = "2.5"
    path.write_text(json.dumps(certificate))
    refused = dpcli("certify", "--check", str(path))
    assert (refused.code, "delta(2.5) <= 1e-06 is not shown" in refused.out.replace("\n", " ")) == (1, True)
    assert dpcli("certify", SGD, "--write", str(path)).code == 2  # nothing is written over


@pytest.mark.parametrize(
    "text", ["[]", "{", "{}", '{"format": 1}', '{"format": 1, "parts": [{}], "claims": [{}]}', '{"format": 2}']
)
def test_what_is_no_certificate_proves_nothing(text: str, tmp_path: Path) -> None:
    path = tmp_path / "proof.json"
    path.write_text(text)
    result = dpcli("certify", "--check", str(path))
    assert result.code in (1, 2)
    assert "proved: epsilon" not in result.out


def test_a_certificate_of_a_group_says_so(tmp_path: Path) -> None:
    """A pipeline file cannot state a group, a certificate can."""
    written = dpcli("certify", "examples/dp-sgd.toml", "--group-size", "2", "--write", str(tmp_path / "two.json"))
    assert written.code == 1 and "epsilon <= 5.6645" in written.out, written.err  # above the file's budget
    assert json.loads((tmp_path / "two.json").read_text())["statement"]["group_size"] == 2
    checked = dpcli("certify", "examples/dp-sgd.toml", "--check", str(tmp_path / "two.json"))
    assert checked.code == 0 and '"group_size": 2' in checked.out


def test_delta_at_an_epsilon_is_proved_too() -> None:
    document = json.loads(dpcli("certify", SGD, "--epsilon", "2", "-f", "json").out)
    account = json.loads(dpcli("account", SGD, "--epsilon", "2", "-f", "json").out)["result"]
    assert document["quantity"] == "delta"
    assert account["delta_lower"] <= float(document["delta"]) <= account["delta_upper"] * 1.0001
    assert document["headline_proved"]


def test_exit_codes(tmp_path: Path) -> None:
    over = tmp_path / "over.toml"
    over.write_text((ROOT / SGD).read_text().replace("epsilon = 4.0", "epsilon = 2.0"))
    assert dpcli("certify", str(over)).code == 1
    refused = dpcli("certify", "examples/pmixed.toml")
    assert (refused.code, "certify has no pair for mechanisms of type pmixed" in refused.err) == (3, True)
    assert dpcli("certify").code == 2
    assert dpcli("certify", SGD, "--epsilon", "1", "--delta", "1e-5").code == 2
    assert dpcli("certify", "--check", "x", "--delta", "1e-5").code == 2
    for ignored in (SGD, "--write=p", "--delta=0.1", "--epsilon=1", "--group-size=2", "--digits=5", "--check=x"):
        alone = dpcli("certify", "--print-checker", ignored, folder=tmp_path)
        option = "FILE" if ignored == SGD else ignored.partition("=")[0]
        assert (alone.code, f"expected it alone, found {option}\n" in alone.err) == (2, True), (ignored, alone.err)
    assert "its own epsilon, delta, group size and digits" in dpcli("certify", "--check", "x", "--digits", "5").err


@pytest.mark.nightly
def test_a_few_steps_are_proved_with_a_pad() -> None:
    """Discrete noise and choices."""
    document = json.loads(dpcli("certify", "examples/release.toml", "-f", "json").out)
    assert document["headline_proved"]
    assert "pad" in document["certificate"]["claims"][0]["proofs"]["remove"]


def test_a_bound_without_a_proof_is_followed_by_one_that_has_one(tmp_path: Path) -> None:
    """Several choices, whose worst order the accountants compute, and the checker bounds by one pair for each choice."""
    file = tmp_path / "discrete.toml"
    file.write_text(
        'format = 1\n[privacy]\nadjacency = "add-remove"\ndelta = 1e-6\n[[mechanism]]\nname = "a"\ntype = "exponential"\n'
        "epsilon = 4.0\nsteps = 4\n"
    )
    document = json.loads(dpcli("certify", str(file), "-f", "json").out)
    assert not document["headline_proved"]
    assert float(document["headline"]) < float(document["epsilon"]) < 1.5 * float(document["headline"])
    assert document["reasons"]


def test_the_checker_is_printed_as_it_is() -> None:
    assert dpcli("certify", "--print-checker").out == CHECKER.read_text()


@pytest.mark.long
def test_the_gate_can_ask_for_proofs() -> None:
    """A headline with a proof passes; one without is unknown, which is no pass."""
    passed = dpcli("gate", SGD, "--require-proof")
    assert (passed.code, "provedbycertificatesha256:" in "".join(passed.out.split())) == (0, True)
    unknown = dpcli("gate", SGD, "examples/pmixed.toml", "--require-proof", "--max-epsilon", "1000")
    assert (unknown.code, "has no proof" in unknown.out) == (3, True)
    assert dpcli("gate", SGD, "examples/pmixed.toml", "--max-epsilon", "1000").code == 0


def test_nine_decimals_are_proved_of_the_usual_training() -> None:
    document = json.loads(dpcli("certify", SGD, "--digits", "9", "-f", "json").out)
    assert (document["epsilon"], document["lower"]) == ("2.600247731", "2.600247730")
    assert document["headline_proved"]
