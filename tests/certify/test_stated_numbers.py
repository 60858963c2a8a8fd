"""The numbers of a certificate against those of its file: a certificate states decimals exactly, accountants compute with doubles, and
neither may make the certified mechanism cheaper than the one in the file, not even by the last digit.
"""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

pytest.importorskip("flint", reason="the checker needs python-flint")

from dpcli.base.errors import CannotCertify, InputError, NotRepresentable
from dpcli.certify.certified_parts import certified_parts
from dpcli.certify.named_certificate import named_proof, read_certificate
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.read import parse
from tests.cases import fresh_random
from tests.command import Result, dpcli

HEAD = 'format = 1\n[privacy]\nunit = "example"\nadjacency = "add-remove"\ndelta = 1e-6\n'


def pipeline(text: str, adjacency: str = "add-remove") -> Pipeline:
    return parse((HEAD.replace("add-remove", adjacency) + text).encode(), "run.toml")


FILE = """
format = 1
[privacy]
unit = "example"
adjacency = "add-remove"
delta = 1e-6
[[mechanism]]
name = "a"
type = "gaussian"
noise_multiplier = 0.5
steps = {steps}
"""

TOGETHER = """
[[mechanism]]
name = "all"
type = "composed"
mechanisms = ["one"]
sampling = {{ scheme = "poisson", rate = 0.5 }}
[[mechanism]]
name = "one"
type = "gaussian"
noise_multiplier = {noise}
steps = {steps}
"""


def test_gaussians_on_one_sample_cost_no_less_than_in_the_file() -> None:
    random = fresh_random()
    seed = random.getrandbits(32)
    random.seed(seed)
    for _ in range(60):
        noise, steps = round(random.uniform(0.5, 9.0), 2), random.randint(1, 9)
        stated = certified_parts(pipeline(TOGETHER.format(noise=noise, steps=steps)))
        (part,) = stated.parts
        exact = steps / Fraction(repr(noise)) ** 2
        assert exact <= Fraction(part["mu_squared"]) <= exact * (1 + Fraction(1, 10**12)), (seed, noise, steps)
        assert Fraction(part["mu_squared"]) == exact or not stated.attained, (seed, noise, steps)


def test_a_rate_is_the_decimal_of_the_file_beside_a_batch_size_too() -> None:
    for size, keys in ((1001, "rate = 0.3, batch_size = 300"), (1000, "rate = 0.3, batch_size = 300"), (1000, "rate = 0.3")):
        text = FILE.format(steps=3).replace("delta =", f"dataset_size = {size}\ndelta =")
        text += f'sampling = {{ scheme = "poisson", {keys} }}\n'
        (part,) = certified_parts(parse(text.encode(), "run.toml")).parts
        assert Fraction(part["rate"]) == Fraction(3, 10), (size, keys)


def test_a_stated_rho_is_no_less_than_its_decimal() -> None:
    text = '[[mechanism]]\nname = "a"\ntype = "zcdp"\nrho = {}\n'
    for rho in ("0.3", "0.1", "0.7", "1e-3"):
        (part,) = certified_parts(pipeline(text.format(rho))).parts
        assert Fraction(part["rho"]) >= Fraction(rho)


def test_a_sum_of_integer_noises_says_what_is_assumed() -> None:
    text = (
        '[[mechanism]]\nname = "a"\ntype = "discrete-gaussian"\nsigma = 3.55\nl2_sensitivity = 1.5\nlinf_sensitivity = 1\n'
        "dimension = 2\n"
    )
    stated = certified_parts(pipeline(text))
    assert not stated.attained and any("the sum of 2 discrete Gaussians" in assumption for assumption in stated.assumptions)
    (part,) = stated.parts
    assert Fraction(part["sigma_squared"]) < 2 * Fraction("3.55") ** 2


def spend_with(certificate: str, folder: Path, **budget: str) -> Result:
    """Return the end of a charge for run.toml that names the certificate, in a new ledger with this budget."""
    options = [word for key, value in budget.items() for word in (f"--{key}", value)]
    assert dpcli("budget", "init", "l.db", "--dataset", "d", "--adjacency", "add-remove", *options, folder=folder).code == 0
    return dpcli("budget", "spend", "l.db", "run.toml", "--key", "k", "--certificate", certificate, folder=folder)


def test_a_proof_at_another_delta_names_no_charge(tmp_path: Path) -> None:
    """A proof of epsilon 0 at delta .99 proves nothing for a charge at 1e-6."""
    (tmp_path / "run.toml").write_text(FILE.format(steps=1))
    assert dpcli("certify", "run.toml", "--delta", "0.99", "--write", "weak.json", folder=tmp_path).code == 0
    found = spend_with("weak.json", tmp_path, unit="user", epsilon="40", delta="1e-6", filter="zcdp")
    assert found.code == 3 and "expected a proof of epsilon <=" in found.err


def test_a_digest_does_not_depend_on_how_a_path_is_spelt(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(FILE.format(steps=1))
    (tmp_path / "sub").mkdir()
    for name, path in (("a.json", "run.toml"), ("b.json", "./run.toml"), ("c.json", "sub/../run.toml")):
        assert dpcli("certify", path, "--write", name, folder=tmp_path).code == 0
    assert len({(tmp_path / name).read_bytes() for name in ("a.json", "b.json", "c.json")}) == 1


def test_a_printed_result_is_told_from_a_certificate(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(FILE.format(steps=1))
    assert dpcli("certify", "run.toml", "-o", "printed.json", folder=tmp_path).code == 0
    with pytest.raises(InputError, match="writes by --write, found a printed result of schema 'dpcli/certify/v1'"):
        read_certificate(str(tmp_path / "printed.json"))


def test_a_file_of_other_bytes_and_the_same_mechanisms_is_told(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(FILE.format(steps=1))
    assert dpcli("certify", "run.toml", "--write", "proof.json", folder=tmp_path).code == 0
    (tmp_path / "run.toml").write_text(FILE.format(steps=1) + "# a comment\n")
    found = dpcli("certify", "run.toml", "--check", "proof.json", folder=tmp_path)
    assert found.code == 0 and "other bytes than the file that was proved" in " ".join(found.out.split())
    changed = parse(FILE.format(steps=2).encode(), "run.toml")
    with pytest.raises(CannotCertify, match="about another file"):
        named_proof(str(tmp_path / "proof.json"), changed, 100.0, 1e-6)
    assert json.loads((tmp_path / "proof.json").read_text())["file"]["name"] == "run.toml"


def test_randomised_response_that_states_keep_is_refused() -> None:
    """Near 1 the double next to a decimal is another epsilon altogether."""
    with pytest.raises(NotRepresentable, match="not keep: state epsilon"):
        certified_parts(
            pipeline('[[mechanism]]\nname = "a"\ntype = "randomized-response"\nkeep = 0.9999999999999999\n', "replace-one")
        )
    (part,) = certified_parts(
        pipeline('[[mechanism]]\nname = "a"\ntype = "randomized-response"\nepsilon = 0.7\n', "replace-one")
    ).parts
    assert part["epsilon"] == "7/10"


def test_what_is_computed_is_rounded_up_and_claims_no_lower_bound() -> None:
    """Groups of pure mechanisms: the accountants multiply doubles."""
    for epsilon in ("0.7", "0.1", "0.3", "1.1"):
        for size in (3, 7):
            stated = certified_parts(pipeline(f'[[mechanism]]\nname = "a"\ntype = "pure-dp"\nepsilon = {epsilon}\n'), size)
            assert Fraction(stated.parts[0]["epsilon"]) >= size * Fraction(epsilon), (epsilon, size)
            assert not stated.attained


def test_a_charge_of_a_file_without_a_delta_may_name_its_proof(tmp_path: Path) -> None:
    text = 'format = 1\n[privacy]\nunit = "example"\nadjacency = "add-remove"\n[[mechanism]]\nname = "a"\ntype = "pure-dp"\nepsilon = 0.5\n'
    (tmp_path / "run.toml").write_text(text)
    assert dpcli("certify", "run.toml", "--delta", "0", "--write", "proof.json", folder=tmp_path).code == 0
    found = spend_with("proof.json", tmp_path, unit="example", epsilon="4", delta="0", filter="approx-dp")
    assert found.code == 0, found.err
