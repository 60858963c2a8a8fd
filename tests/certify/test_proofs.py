"""Proofs by the checker: against values that others computed, against the accountants, and with plans that lie."""

from __future__ import annotations

import ast
import copy
import math
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pytest

import dpcli
from dpcli.base.errors import InternalError, NotRepresentable
from dpcli.base.rounding import up
from dpcli.certify import certificate, proof_search
from dpcli.certify.certificate import prove
from dpcli.certify.commands.certify import CHECKER
from dpcli.exam.subjects import SEED
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.read import parse
from tests.cases import by_tier

pytest.importorskip("flint", reason="the checker needs python-flint")

from dpcli.certify import checker

HEAD = """
format = 1
name = "proof"
[privacy]
unit = "{unit}"
max_contributions = {records}
adjacency = "{adjacency}"
delta = {delta!r}
"""
NOISES = ("gaussian", "laplace", "pure-dp", "discrete-laplace")

# rate, noise multiplier, steps, delta and epsilon, to the digits that an independent computation gave.
WEAK = [
    ("1e-7", "0.7", 10**5, "1e-10", "0.000591782884"),
    ("1e-7", "0.7", 10**6, "1e-10", "0.001277799929"),
    ("1e-6", "0.8", 10**4, "1e-9", "0.001094597595"),
    ("1e-5", "0.6", 1000, "1e-7", "0.0295716"),
    ("1e-5", "0.8", 100, "1e-8", "0.00294665"),
    ("1e-4", "1", 20, "1e-6", "0.00306041"),
    ("1e-3", "1", 10, "1e-6", "0.04409771"),
]


def pipeline(text: str, adjacency: str = "add-remove", delta: float = 1e-6, records: int = 1) -> Pipeline:
    head = HEAD.format(unit="example" if records == 1 else "user", records=records, adjacency=adjacency, delta=delta)
    return parse((head + text).encode(), "proof.toml")


def gaussian(rate: str, noise: str, steps: int) -> str:
    sampling = f'sampling = {{ scheme = "poisson", rate = {rate} }}\n' if rate != "1" else ""
    return f'[[mechanism]]\nname = "train"\ntype = "gaussian"\nsteps = {steps}\nnoise_multiplier = {noise}\n{sampling}'


def drawn(random: Random) -> tuple[str, dict[str, Any]]:
    """One to three mechanisms, and the setting."""
    texts, adjacency = [], random.choice(["add-remove", "add-remove", "zero-out", "replace-one"])
    for i in range(random.randint(1, 3)):
        kind = random.choice(NOISES)
        keys = {
            "gaussian": f"noise_multiplier = {10.0 ** random.uniform(-0.3, 1.0):.4g}",
            "laplace": f"noise_multiplier = {10.0 ** random.uniform(-0.3, 1.0):.4g}",
            "pure-dp": f"epsilon = {10.0 ** random.uniform(-2.0, 0.3):.4g}",
            "discrete-laplace": f"scale = {10.0 ** random.uniform(0.0, 1.5):.4g}\nsensitivity = {random.randint(1, 3)}",
        }[kind]
        sampled = random.random() < 0.6 and (adjacency == "add-remove" or kind == "gaussian")
        rate = f'sampling = {{ scheme = "poisson", rate = {10.0 ** random.uniform(-4.0, -0.5):.3g} }}\n' if sampled else ""
        steps = round(10.0 ** random.uniform(0.0, 3.5 if sampled else 1.5))
        texts.append(f'[[mechanism]]\nname = "m{i}"\ntype = "{kind}"\nsteps = {steps}\n{keys}\n{rate}')
    return "".join(texts), {"adjacency": adjacency, "delta": 10.0 ** random.uniform(-12.0, -3.0)}


def test_training_is_proved_on_both_sides() -> None:
    proof = prove(pipeline(gaussian("0.004", "1.1", 15_000)))
    assert (proof.epsilon, proof.lower, proof.reasons) == ("2.6003", "2.6002", ())
    assert checker.check(proof.certificate) == [
        f"proved: epsilon {value} at delta = 1e-06{of} (ball arithmetic, 89 bits)"
        for value, of in (("<= 2.6003", ""), ("> 2.6002", " for these pairs"))
    ]


@pytest.mark.sampled(1, 2)
@pytest.mark.parametrize(("rate", "noise", "steps", "delta", "epsilon"), WEAK)
def test_weak_rates(rate: str, noise: str, steps: int, delta: str, epsilon: str) -> None:
    """Each epsilon, a digit up, is enough; a digit down it is not."""
    part = {"kind": "mixture", "mu_squared": str(1 / Fraction(noise) ** 2), "rate": rate, "count": steps}
    digit = Fraction(1, 10 ** len(epsilon.partition(".")[2]))
    for bound, value in (("upper", Fraction(epsilon) + digit), ("lower", Fraction(epsilon) - digit)):
        texts = {"epsilon": str(value), "delta": delta}
        plan = proof_search.find_plan([part], "remove", float(value), float(delta), bound == "upper")
        checker.show([part], {"bound": bound, **texts, "proofs": {"remove": plan}}, "remove")
        wrong = {"bound": "lower" if bound == "upper" else "upper", **texts, "proofs": {"remove": plan}}
        with pytest.raises(checker.Unproved, match="is not shown"):
            checker.show([part], wrong, "remove")


@pytest.mark.parametrize("cases", by_tier(3, 15, 400))
def test_a_proof_and_the_accountants_agree(cases: int) -> None:
    """`prove` itself raises where the checker's bound contradicts a certified interval; most headlines are proved as they are printed."""
    random, proved, sharp = Random(f"{SEED} proofs {cases}"), 0, 0
    while proved < cases:
        text, setting = drawn(random)
        try:
            proof = prove(pipeline(text, **setting))
        except NotRepresentable:
            continue
        proved += 1
        sharp += proof.epsilon == proof.headline
        assert checker.check(proof.certificate), text
        assert float(proof.epsilon) >= (proof.account.lower or 0.0), text
        if proof.lower is not None:
            assert float(proof.lower) <= proof.account.upper, text
    assert 2 * sharp >= cases - 2


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of every number in a plan."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(item, (*path, key))
    elif path[-1] not in ("method", "bits"):
        yield path


@pytest.mark.parametrize("cases", by_tier(15, 60, 3000))
def test_no_plan_proves_what_is_false(cases: int) -> None:
    """Epsilon is 1 % too small, and any number of the plan is anything."""
    random = Random(f"{SEED} lies {cases}")
    honest = [
        prove(pipeline(gaussian("0.004", "1.1", 2000))),
        prove(pipeline(gaussian("0.00001", "0.6", 1000), delta=1e-7)),
        prove(pipeline(gaussian("0.01", "2.0", 500), adjacency="replace-one")),
        prove(pipeline(gaussian("0.01", "3.0", 400).replace("gaussian", "laplace"))),
        prove(pipeline(gaussian("0.3", "2.0", 3) + gaussian("1", "4.0", 1).replace("train", "last"))),
    ]
    for _ in range(cases):
        proof = random.choice(honest)
        claim = copy.deepcopy(proof.certificate["claims"][0])
        claim["epsilon"] = up(0.99 * float(proof.epsilon))
        direction = random.choice([*claim["proofs"]])
        plan = claim["proofs"][direction]
        for _ in range(random.randint(1, 3)):
            *path, last = random.choice([*places(plan)])
            target = plan
            for key in path:
                target = target[key]
            old = target[last]
            changed = float(old) * random.choice([0.0, -1.0, 0.5, 0.9, 1.1, 2.0, 10.0]) + random.choice([0.0, 0.0, 1.0, -1.0])
            target[last] = int(changed) if isinstance(old, int) else f"{changed:.8g}"
        with pytest.raises((checker.Unproved, ValueError, ZeroDivisionError)):
            checker.check(proof.certificate | {"claims": [claim]})


@pytest.mark.parametrize(
    ("key", "value"),
    [("mu_squared", "1"), ("rate", "0.0041"), ("count", 15_100), ("records", 2), ("relation", "replace-one")],
)
def test_a_certificate_of_other_mechanisms_is_refused(key: str, value: Any) -> None:
    proof = prove(pipeline(gaussian("0.004", "1.1", 15_000)))
    changed = copy.deepcopy(proof.certificate)
    changed["parts"][0][key] = value
    with pytest.raises(checker.Unproved):
        checker.check(changed)
    with pytest.raises(NotRepresentable, match="the certificate is about"):
        certificate.require_about(changed, pipeline(gaussian("0.004", "1.1", 15_000)))


def test_numbers_are_those_of_the_file() -> None:
    """As decimals: 1.1 is 11/10, and not the double next to it."""
    (part,) = prove(pipeline(gaussian("0.004", "1.1", 15_000))).certificate["parts"]
    assert (part["mu_squared"], part["rate"], part["count"]) == ("100/121", "1/250", 15_000)


def test_an_accountant_that_is_wrong_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A certified interval above what is proved ends in an error that has both numbers."""
    from dataclasses import replace

    true = certificate.account

    def wrong(*args: Any, **kwargs: Any) -> Any:
        return replace(true(*args, **kwargs), lower=2.7)

    monkeypatch.setattr(certificate, "account", wrong)
    with pytest.raises(InternalError, match=r"certify proves epsilon <= 2\.6003, where the accountants certify at least 2\.7"):
        prove(pipeline(gaussian("0.004", "1.1", 15_000)))


def test_the_checker_runs_alone(tmp_path: Path) -> None:
    """Its file, copied to an empty folder, with nothing of dpcli on the path."""
    import json

    (tmp_path / "check.py").write_text(CHECKER.read_text())
    proof = prove(pipeline(gaussian("0.004", "1.1", 15_000)))
    (tmp_path / "good.json").write_text(json.dumps(proof.certificate))
    bad = copy.deepcopy(proof.certificate)
    bad["claims"][0]["epsilon"] = "2.6"
    (tmp_path / "bad.json").write_text(json.dumps(bad))

    def run(name: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-I", "check.py", name]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    good, refused = run("good.json"), run("bad.json")
    assert (good.returncode, good.stdout.splitlines()[0]) == (
        0,
        "proved: epsilon <= 2.6003 at delta = 1e-06 (ball arithmetic, 89 bits)",
    )
    assert refused.returncode == 1
    assert "delta(2.6) <= 1e-06 is not shown" in refused.stderr


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names


def test_the_checker_shares_nothing_with_what_it_checks() -> None:
    """It imports flint and the standard library; the search for plans no module of dpcli either."""
    assert {name for name in imported(CHECKER) if name not in sys.stdlib_module_names} == {"flint"}
    assert not any(name.startswith("dpcli") for name in imported(CHECKER.with_name("proof_search.py")))


def test_pure_losses_and_single_runs() -> None:
    text = '[[mechanism]]\nname = "a"\ntype = "{}"\nsteps = {}\n{}\n'
    for body, delta, expected in (
        (text.format("pure-dp", 3, "epsilon = 0.1"), 0.0, "0.3000"),
        (text.format("laplace", 1, "noise_multiplier = 2.0"), 1e-6, up(0.5 + 2.0 * math.log1p(-1e-6))),
        (text.format("randomized-response", 1, "epsilon = 1.0\ncategories = 5"), 0.0, "1.0000"),
    ):
        adjacency = "replace-one" if "randomized" in body else "add-remove"
        proof = prove(pipeline(body, adjacency, delta))
        assert float(proof.epsilon) == float(expected)
        assert proof.epsilon == proof.headline


def test_what_has_no_pair_is_refused() -> None:
    text = '[[mechanism]]\nname = "a"\ntype = "rdp"\norders = [2.0, 8.0]\nvalues = [0.1, 0.5]\n'
    with pytest.raises(NotRepresentable, match='"a": certify has no pair for this mechanism'):
        prove(pipeline(text))
    with pytest.raises(NotRepresentable, match="an adaptive file promises its cap"):
        prove(pipeline("adaptive = true\n" + gaussian("1", "5.0", 1)))


def test_groups_and_units() -> None:
    """What several records cost has the accountants' pair too."""
    for adjacency in ("add-remove", "replace-one"):
        proof = prove(pipeline(gaussian("0.01", "4.0", 200), adjacency=adjacency, records=3))
        assert proof.epsilon == proof.headline
        assert proof.lower is not None
    assert dpcli.__version__ == proof.certificate["dpcli"]


def test_a_stated_rho_has_the_proof_that_a_renyi_curve_has() -> None:
    proof = prove(pipeline('[[mechanism]]\nname = "a"\ntype = "zcdp"\nrho = 0.1\nsteps = 3\n'))
    assert (proof.epsilon, proof.lower) == (proof.headline, None)
    plan = {"method": "contour", "t": "1", "h": "1", "frequencies": 9, "parts": [{}], "bits": 64}
    claim = {"bound": "upper", "epsilon": "1", "delta": "0.1", "proofs": {"remove": plan}}
    with pytest.raises(checker.Unproved, match="a method for what is known by its rho"):
        checker.show(proof.certificate["parts"], claim, "remove")


MIXTURE = {"kind": "mixture", "mu_squared": "1", "rate": "1/100", "records": 1, "relation": "replace-one", "count": 1000}
CUT = {
    "low": "-12",
    "order": 32,
    "panels": [[str(x), "3"] for x in range(-11, -2)],
    "cut": "-3",
    "first": "-6",
    "last": "-3",
    "cells": 10,
}
PURE, ONE, CLOSED = ({"method": method, "bits": 128} for method in ("pure", "one-step", "gaussian"))
LAPLACE: dict[str, Any] = {"kind": "laplace", "epsilon": "1", "count": 1}
FORGED: dict[str, tuple[list[dict[str, Any]], str, str, dict[str, Any]]] = {
    "chernoff with a cut": ([MIXTURE], "0.001", "1e-5", {"method": "chernoff", "s": "1", "bits": 128, "parts": [CUT]}),
    "delta beside a cut": (
        [{**MIXTURE, "rate": "1/2", "count": 1}, {"kind": "two-point", "epsilon": "1", "delta": "1/100", "count": 1}],
        "20",
        "1e-9",
        {
            "method": "contour",
            "t": "1",
            "h": "0.1",
            "frequencies": 20,
            "jump_order": "0",
            "bits": 128,
            "parts": [CUT | {"cap": "1"}, {}],
        },
    ),
    "an epsilon that is not read": (
        [{"kind": "discrete-laplace", "scale": "1", "sensitivity": 5, "epsilon": "0.01", "count": 1}],
        "0.01",
        "0",
        PURE,
    ),
    "a rate below 0": ([{**LAPLACE, "rate": "1/2"}, {**LAPLACE, "rate": "-1/4"}], "0.1", "0", PURE),
    "records that are not read": ([{**LAPLACE, "rate": "1/10", "records": 4}], "0.16", "0", PURE),
    "a count below 0": (
        [{"kind": "gaussian", "mu_squared": "1", "count": 100}, {"kind": "gaussian", "mu_squared": "1", "count": -99}],
        "4.4",
        "1e-5",
        CLOSED,
    ),
    "a count that is no whole number": ([{"kind": "gaussian", "mu_squared": "1", "count": 1.99}], "4.4", "1e-5", CLOSED),
    "a sensitivity that is none": (
        [{"kind": "discrete-laplace", "scale": "1", "sensitivity": 1.99, "count": 1}],
        "1.0001",
        "0",
        PURE,
    ),
    "a relation that nobody knows": ([{**MIXTURE, "rate": "1/2", "relation": "replace", "count": 1}], "3.62", "1e-5", ONE),
    "a delta that is not read": ([{**LAPLACE, "delta": "0.1"}], "1", "1e-9", ONE),
    "a number that is no text": ([{**LAPLACE, "epsilon": "0.1000000000000000055"}], 0.1, "0", PURE),  # type: ignore[dict-item]
    "digits of another alphabet": ([{**LAPLACE, "epsilon": "15"}], "1\u0665", "0", PURE),
    "a lattice finer than the balls": (
        [{"kind": "discrete-laplace", "scale": "10000", "sensitivity": 10000, "count": 1}],
        str(Fraction(2**47 - 40, 2**47)),
        "0",
        {"method": "grid", "bits": 53, "spacing": str(Fraction(1, 2**47)), "parts": [{"first": 2**47 - 44, "last": 2**47 - 39}]},
    ),
    "a rate that is not read": ([{"kind": "gaussian", "mu_squared": "1", "rate": "1/1000", "count": 1}], "4.4", "1e-5", CLOSED),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_certificate_is_refused(name: str) -> None:
    """Each was once a proof of what is false, or of something else than its parts seem to say."""
    parts, epsilon, delta, plan = FORGED[name]
    claim = {"bound": "upper", "epsilon": epsilon, "delta": delta, "proofs": {"remove": plan, "add": plan}}
    with pytest.raises(checker.Unproved):
        checker.check({"format": 1, "parts": parts, "claims": [claim]})


def test_both_tails_of_a_discrete_gaussian_are_bounded() -> None:
    """P has some mass beyond either end of what is added up."""
    part = checker.AtomicPart(
        {"kind": "discrete-gaussian", "sigma_squared": "100", "sensitivity": 1, "reach": 14, "count": 1}, "remove"
    )
    weights = {x: math.exp(-x * x / 200.0) for x in range(-400, 401)}
    beyond = sum(weight for x, weight in weights.items() if not -14 <= x + 1 <= 15) / sum(weights.values())
    assert float(part.lost.upper()) >= beyond


def test_a_certificate_in_which_a_key_stands_twice_is_no_certificate(tmp_path: Path) -> None:
    path = tmp_path / "twice.json"
    path.write_text('{"format": 1, "parts": [], "parts": [], "claims": []}')
    assert checker.main([str(path)]) == 1


@pytest.mark.parametrize("group_size", [0, -1, 0.5, True, "1", None])
def test_a_group_that_is_none_is_refused(group_size: Any) -> None:
    with pytest.raises(NotRepresentable, match="expected a group size of at least 1"):
        certificate.require_about({"statement": {"group_size": group_size}, "parts": []}, pipeline(gaussian("1", "5.0", 1)))


def test_a_lower_bound_is_of_no_file_whose_pairs_need_not_be_attained() -> None:
    file = pipeline('[[mechanism]]\nname = "a"\ntype = "exponential"\nepsilon = 1.0\n')
    own = certificate.certified_parts(file)
    about = {"statement": certificate._statement(file, 1), "parts": list(own.parts), "assumes": list(own.assumptions)}
    certificate.require_about(about | {"claims": [{"bound": "upper"}]}, file)
    assert not own.attained
    with pytest.raises(NotRepresentable, match="a lower bound of pairs"):
        certificate.require_about(about | {"claims": [{"bound": "lower"}]}, file)
    with pytest.raises(NotRepresentable, match="the certificate is about assumes"):
        certificate.require_about(about | {"assumes": []}, file)


def test_noise_beyond_all_measure_is_no_contradiction() -> None:
    """The accountants take a ratio of 1e-200 for 1e-150, which is more: that number is proved, and said."""
    own = certificate.certified_parts(pipeline(gaussian("1", "1e200", 1)))
    assert own.parts[0]["mu_squared"] == str(Fraction(1e-150) ** 2)
    assert any("as the accountants computed it" in text for text in own.assumptions)
