"""Proofs by the checker (certify/checker.py): they meet values that others computed and agree with the accountants, and no search plan,
forged certificate or changed number makes the checker accept what is false.
"""

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
from dpcli.certify import certificate, floating_parts, proof_search
from dpcli.certify.certificate import prove
from dpcli.certify.commands.certify import CHECKER
from dpcli.exam.subjects import SEED
from tests.cases import by_tier, fresh_random
from tests.certify.pipelines import drawn, gaussian, pipeline

pytest.importorskip("flint", reason="the checker needs python-flint")

from dpcli.certify import checker

# rate, noise multiplier, steps, delta and epsilon, to the digits that an independent computation gave.
WEAK = [
    ("1e-3", "1", 10, "1e-6", "0.04409771"),
    ("1e-4", "1", 20, "1e-6", "0.00306041"),
    ("1e-5", "0.8", 100, "1e-8", "0.00294665"),
    ("1e-5", "0.6", 1000, "1e-7", "0.0295716"),
    ("1e-6", "0.8", 10**4, "1e-9", "0.001094597595"),
    ("1e-7", "0.7", 10**6, "1e-10", "0.001277799929"),
    ("1e-7", "0.7", 10**5, "1e-10", "0.000591782884"),
]


def test_training_is_proved_on_both_sides() -> None:
    proof = prove(pipeline(gaussian("0.004", "1.1", 15_000)))
    assert (proof.epsilon, proof.lower, proof.reasons) == ("2.6003", "2.6002", ())
    assert checker.check(proof.certificate) == [
        f"proved: epsilon {value} at delta = 1e-06{of} (ball arithmetic, 89 bits)"
        for value, of in (("<= 2.6003", ""), ("> 2.6002", " for these pairs"))
    ]


@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize(("rate", "noise", "steps", "delta", "epsilon"), WEAK)
def test_weak_rates(rate: str, noise: str, steps: int, delta: str, epsilon: str) -> None:
    """Each epsilon, a digit up, is enough; a digit down it is not."""
    part = {"kind": "mixture", "mu_squared": str(1 / Fraction(noise) ** 2), "rate": rate, "count": steps}
    digit = Fraction(1, 10 ** len(epsilon.partition(".")[2]))
    for bound, value in (("upper", Fraction(epsilon) + digit), ("lower", Fraction(epsilon) - digit)):
        texts = {"epsilon": str(value), "delta": delta}
        plan = proof_search.find_plan([part], "remove", float(value), float(delta), upper=bound == "upper")
        checker.show([part], {"bound": bound, **texts}, "remove", plan)
        wrong = {"bound": "lower" if bound == "upper" else "upper", **texts}
        with pytest.raises(checker.Unproved, match="is not shown"):
            checker.show([part], wrong, "remove", plan)


@pytest.mark.parametrize("cases", by_tier(1, 2, 400))
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


@pytest.mark.parametrize("cases", by_tier(None, 4, 3000))
def test_no_plan_proves_what_is_false(cases: int) -> None:
    """Epsilon is 1 % too small, or a lower bound 1 % too large, and any number of the plan is anything."""
    random = Random(f"{SEED} lies {cases}")
    pure = '[[mechanism]]\nname = "pure"\ntype = "pure-dp"\nepsilon = 0.1\nsteps = {}\n{}'
    drawn_at_a_tenth = 'sampling = { scheme = "poisson", rate = 0.1 }\n'
    honest = [
        prove(pipeline(gaussian("0.004", "1.1", 2000))),
        prove(pipeline(gaussian("0.00001", "0.6", 1000), delta=1e-7)),
        prove(pipeline(gaussian("0.01", "2.0", 500), adjacency="replace-one")),
        prove(pipeline(gaussian("0.01", "3.0", 400).replace("gaussian", "laplace"))),
        prove(pipeline(gaussian("0.1", "3.0", 40).replace("gaussian", "laplace"), adjacency="replace-one")),
        prove(pipeline(gaussian("0.3", "2.0", 3) + gaussian("1", "4.0", 1).replace("train", "last"))),
        prove(pipeline(pure.format(9, "") + pure.format(200, drawn_at_a_tenth).replace('pure"', 'sampled"'))),
    ]
    methods = {frozenset(plan) for proof in honest for claim in proof.certificate["claims"] for plan in claim["proofs"].values()}
    assert any({"pad", "s1"} <= keys for keys in methods)
    assert any({"cut"} <= {*part} for part in honest[1].certificate["claims"][0]["proofs"]["remove"]["parts"])
    for _ in range(cases):
        proof = random.choice(honest)
        claim = copy.deepcopy(random.choice(proof.certificate["claims"]))
        upper = claim["bound"] == "upper"
        claim["epsilon"] = up(0.99 * float(proof.epsilon)) if upper else up(1.01 * float(proof.lower or 0.0))
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


@pytest.mark.sampled(2)
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
    """A certificate states decimals: 1.1 is 11/10, and not the double next to it."""
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
    """The checker imports flint and the standard library alone, and the search for plans imports nothing else of dpcli either."""
    assert {name for name in imported(CHECKER) if name not in sys.stdlib_module_names} == {"flint"}
    for name, own_modules in (("proof_search.py", {"dpcli.certify.floating_parts"}), ("floating_parts.py", set[str]())):
        assert {module for module in imported(CHECKER.with_name(name)) if module.startswith("dpcli")} == own_modules


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


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_a_headline_of_nothing_has_a_proof(adjacency: str) -> None:
    """One step at a weak rate, whose delta at epsilon 0 is below the delta that was asked; and a little above it has a sharp one."""
    once = gaussian("0.000708", "1.0", 1)
    nothing = prove(pipeline(once, adjacency, 1e-3))
    assert (nothing.epsilon, nothing.reasons) == ("0", ())
    proof = prove(pipeline(once, adjacency, 1e-6))
    assert (proof.epsilon, proof.lower is not None, proof.reasons) == (proof.headline, True, ())


def test_discrete_noise_on_a_sample_has_a_proof_at_any_length() -> None:
    keys = 'scale = 5.0\nsensitivity = 3\nsampling = { scheme = "poisson", rate = 0.001 }\n'
    proof = prove(pipeline(f'[[mechanism]]\nname = "a"\ntype = "discrete-laplace"\nsteps = 1000000\n{keys}'))
    assert (proof.epsilon, proof.lower is not None) == (proof.headline, True)


def test_what_has_no_pair_is_refused() -> None:
    text = '[[mechanism]]\nname = "a"\ntype = "rdp"\norders = [2.0, 8.0]\nvalues = [0.1, 0.5]\n'
    with pytest.raises(NotRepresentable, match='"a": certify has no pair for mechanisms of type rdp'):
        prove(pipeline(text))
    with pytest.raises(NotRepresentable, match="an adaptive file promises its cap"):
        prove(pipeline("adaptive = true\n" + gaussian("1", "5.0", 1)))


@pytest.mark.long
def test_groups_and_units() -> None:
    """Several records have the accountants' pair too, so that the proved epsilon is the headline and there is a lower bound."""
    for adjacency in ("add-remove", "replace-one"):
        proof = prove(pipeline(gaussian("0.01", "4.0", 200), adjacency=adjacency, records=3))
        assert proof.epsilon == proof.headline
        assert proof.lower is not None
    assert dpcli.__version__ == proof.certificate["dpcli"]


def test_a_stated_rho_has_the_proof_that_a_renyi_curve_has() -> None:
    proof = prove(pipeline('[[mechanism]]\nname = "a"\ntype = "zcdp"\nrho = 0.1\nsteps = 3\n'))
    assert (proof.epsilon, proof.lower) == (proof.headline, None)
    plan = {"method": "contour", "t": "1", "h": "1", "frequencies": 9, "parts": [{}], "bits": 64}
    claim = {"bound": "upper", "epsilon": "1", "delta": "0.1"}
    with pytest.raises(checker.Unproved, match="a method that applies to a part with rho alone"):
        checker.show(proof.certificate["parts"], claim, "remove", plan)


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
CONTOUR = {"method": "contour", "t": "3", "h": "1/10", "frequencies": 100, "bits": 128, "parts": [{}]}
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
    "a relation without a sample": ([{**LAPLACE, "relation": "replace-one"}], "1", "0", PURE),
    "a removed record in place of a replaced one": (
        [{**LAPLACE, "epsilon": "2", "rate": "1/2", "relation": "replace-one"}],
        "1.5",
        "1e-3",
        ONE,
    ),
    "pure losses of a replaced record": ([{**LAPLACE, "epsilon": "2", "rate": "1/2", "relation": "replace-one"}], "1.9", "0", PURE),
    "a replaced choice": (
        [{"kind": "range", "epsilon": "1", "rate": "1/2", "relation": "replace-one", "count": 1}],
        "0.5",
        "0",
        PURE,
    ),
    "a pad below 0": ([{**LAPLACE, "count": 3}], "1", "1e-3", {**CONTOUR, "pad": "-1/2"}),
    "frequencies that are cut where nothing falls": ([{"kind": "two-point", "epsilon": "1", "count": 3}], "2.9", "1e-3", CONTOUR),
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
    assert float(part.infinite_mass.upper()) >= beyond


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
    with pytest.raises(NotRepresentable, match="the certificate lists 0 under assumes"):
        certificate.require_about(about | {"assumes": []}, file)


def test_noise_beyond_all_measure_is_no_contradiction() -> None:
    """The accountants take a ratio of 1e-200 for 1e-150, which is more: that number is proved, and said."""
    own = certificate.certified_parts(pipeline(gaussian("1", "1e200", 1)))
    assert Fraction(1e-150) ** 2 <= Fraction(own.parts[0]["mu_squared"]) <= Fraction(1e-150) ** 2 * (1 + Fraction(1, 10**12))
    assert any("as the accountants computed it" in text for text in own.assumptions)


DIVIDED = gaussian("0.01", "1.0", 300) + "".join(
    gaussian("0.01", noise, steps).replace("train", f"part {noise}") + f'partition = {{ of = "region", part = "{noise}" }}\n'
    for noise, steps in (("0.9", 200), ("1.5", 900))
)


@pytest.mark.nightly
def test_disjoint_parts_cost_what_the_dearest_costs_beside_the_rest() -> None:
    """The proof is that of the file which has this part alone."""
    proof = prove(pipeline(DIVIDED))
    assert (proof.epsilon, proof.reasons) == (proof.headline, ())
    assert len(checker.check(proof.certificate)) == 2
    entries = DIVIDED.split("[[mechanism]]")[1:]
    alone = [prove(pipeline("".join("[[mechanism]]" + entries[i] for i in (0, k)))) for k in (1, 2)]
    assert float(proof.epsilon) == max(float(one.epsilon) for one in alone)
    assert proof.lower is not None
    assert [*proof.certificate["claims"][0]["proofs"]] == ["remove 1", "add 1", "remove 2", "add 2"]
    certificate.require_about(proof.certificate, pipeline(DIVIDED))


def forgeries(proof: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield certificates of disjoint parts that somebody changed, each with what was done."""
    upper, lower = proof["claims"]
    (_, first), (_, second) = enumerate(proof["alternatives"])
    without = {key: plan for key, plan in upper["proofs"].items() if not key.endswith("2")}
    yield "no proof for an alternative", proof | {"claims": [upper | {"proofs": without}]}
    yield "one direction alone", proof | {"claims": [upper | {"proofs": {"remove 1": {}, "remove 2": {}}}]}
    swapped = {key.translate(str.maketrans("12", "21")): plan for key, plan in upper["proofs"].items()}
    yield "proofs of other alternatives", proof | {"claims": [upper | {"proofs": swapped}]}
    yield "a part moved into the other alternative", proof | {"alternatives": [[*first, *second], second]}
    yield "a part moved beside the alternatives", proof | {"parts": [*proof["parts"], *first]}
    yield "an alternative of nothing", proof | {"parts": [], "alternatives": [first, []]}
    yield "alternatives that are none", proof | {"alternatives": {"1": first, "2": second}}
    yield "one alternative", proof | {"alternatives": [first]}
    yield "no list of parts", proof | {"alternatives": [first, second[0]]}
    yield "proofs without alternatives", {key: value for key, value in proof.items() if key != "alternatives"}
    (place, plan), *_ = lower["proofs"].items()
    yield (
        "a lower bound of the cheaper one",
        proof | {"claims": [lower | {"proofs": {"remove 1" if place.endswith("2") else "remove 2": plan}}]},
    )
    yield "a lower bound of an alternative that is none", proof | {"claims": [lower | {"proofs": {"remove 3": plan}}]}
    yield "a lower bound without a proof", proof | {"claims": [lower | {"proofs": {}}]}


@pytest.mark.long
def test_a_forged_certificate_of_disjoint_parts_is_refused() -> None:
    proof = prove(pipeline(DIVIDED)).certificate
    checked = 0
    for name, forged in forgeries(proof):
        checked += 1
        with pytest.raises((checker.Unproved, TypeError, KeyError)):
            raise AssertionError(f"{name}: {checker.check(forged)}")
    assert checked == 13
    left_out = proof | {"alternatives": proof["alternatives"][:1]}
    for forged in (left_out, proof | {"alternatives": proof["alternatives"][::-1]}, proof | {"parts": []}):
        with pytest.raises(NotRepresentable, match=r"the certificate (is about|lists)"):
            certificate.require_about(forged, pipeline(DIVIDED))


def test_entries_of_several_divisions_are_chosen_one_from_each() -> None:
    """Two attributes of two parts are four alternatives; a part of free steps alone, and equal ones, add none."""
    noise = '[[mechanism]]\nname = "{}"\ntype = "laplace"\nnoise_multiplier = {}\npartition = {{ of = "{}", part = "{}" }}\n'
    entries = [("a", 9.0, "region", 1), ("b", 8.0, "region", 2), ("c", 7.0, "age", 1), ("d", 6.0, "age", 2)]
    four = certificate.certified_parts(pipeline("".join(noise.format(*entry) for entry in entries)))
    assert (four.parts, len(four.alternatives), four.attained) == ((), 4, True)
    equal = certificate.certified_parts(pipeline("".join(noise.format(n, 9.0, of, k) for n, _, of, k in entries[:2])))
    assert (len(equal.parts), equal.alternatives) == (1, ())
    free = '[[mechanism]]\nname = "e"\ntype = "post-processing"\npartition = { of = "region", part = "3" }\n'
    assert len(certificate.certified_parts(pipeline("".join(noise.format(*e) for e in entries[:2]) + free)).alternatives) == 2


@pytest.mark.long
def test_a_replaced_record_has_the_pair_of_opposite_shifts() -> None:
    """Moments and delta by sums over the densities themselves, for fresh scales and rates."""
    import numpy as np

    seed = fresh_random().getrandbits(32)
    random = Random(seed)
    for _ in range(5):
        e0, q, z, epsilon = (
            random.uniform(0.15, 4.0),
            random.uniform(0.05, 0.95),
            random.uniform(0.2, 5.0),
            random.uniform(0.01, 0.5),
        )
        step = e0 / 2 ** int(math.log2(2**21 * e0 / 40.0))  # 40 to 80 scales on each side, and the kinks between cells
        y = (np.arange(-(2**21), 2**21) + 0.5) * step
        p, mirrored = ((1 - q) * np.exp(-np.abs(y)) / 2 + q * np.exp(-np.abs(y - side * e0)) / 2 for side in (1, -1))
        part = {"kind": "laplace", "epsilon": str(Fraction(e0)), "rate": str(Fraction(q)), "relation": "replace-one", "count": 1}
        checker.ctx.prec = 128
        order = checker.number(str(Fraction(z)))
        form = floating_parts.form_of(part, "remove")
        plan = form.quadrature([floating_parts.Accuracy(z, 0.0, -30.0)])
        moment = float(checker.SmoothPart(part, "remove").moment(order, plan).mid())
        expected = float((p * (p / mirrored) ** z).sum() * step)
        assert moment == pytest.approx(expected, rel=1e-7), seed
        assert math.exp(form.log_moment(z)) == pytest.approx(expected, rel=1e-7), seed
        delta = float(np.maximum(p - math.exp(epsilon) * mirrored, 0.0).sum() * step)
        lower, upper = checker.one_step([part], "remove", checker.number(str(Fraction(epsilon))))
        assert float(upper.mid()) == pytest.approx(delta, rel=1e-6, abs=1e-9), seed
        assert not upper < lower and float(lower.mid()) <= delta + 1e-6, seed


def test_a_pad_loses_little_on_either_side() -> None:
    """Few steps of atoms, whose delta is a sum over all outcomes: the interval with a pad holds it, and shrinks with the pad."""
    from itertools import product

    seed = fresh_random().getrandbits(32)
    random = Random(seed)
    checker.ctx.prec = 100
    for _ in range(4):
        e, q, runs = random.uniform(0.3, 2.0), random.uniform(0.05, 0.6), random.randint(2, 5)
        part = {"kind": "two-point", "epsilon": str(Fraction(e)), "rate": str(Fraction(q)), "count": runs}
        other = {"kind": "laplace", "epsilon": str(Fraction(e) / 3), "count": 1}
        atoms = [(float(p.mid()), float(loss.mid())) for p, loss in checker.AtomicPart(part, "remove").atoms]
        epsilon = random.uniform(0.2, 0.6) * runs * max(loss for _, loss in atoms)
        exact = 0.0
        for chosen in product(atoms, repeat=runs):
            rest = epsilon - math.fsum(loss for _, loss in chosen)
            width, ends = e / 3, (rest + e / 3) / 2  # Laplace noise: delta at any real epsilon
            own = 1 - math.exp(rest) if rest <= -width else 0.0 if rest >= width else 1 - math.exp(ends - width)
            exact += math.prod(p for p, _ in chosen) * own
        widths = []
        for pad in ("1/100", "1/10000"):
            count = 60 if pad == "1/100" else 600
            plan = {"t": "2", "h": "1/5", "frequencies": 10 * count, "pad": pad, "s1": "0.1", "s2": "40", "parts": [{}, {}]}
            lower, upper = checker.CheckedParts([part, other], "remove", [{}, {}]).contour(
                checker.number(str(Fraction(epsilon))), plan
            )
            assert float(lower.mid()) <= exact + 1e-12 <= float(upper.mid()) + 2e-12, (seed, pad)
            widths.append(float((upper - lower).mid()))
        assert widths[1] < 0.1 * widths[0], seed


def test_closed_forms_are_the_integrals_over_their_densities() -> None:
    import numpy as np

    seed = fresh_random().getrandbits(32)
    random = Random(seed)
    checker.ctx.prec = 128
    nodes, weights = np.polynomial.legendre.leggauss(200)
    for _ in range(5):
        e0, t, y = random.uniform(0.05, 3.0), random.uniform(0.1, 5.0), random.uniform(0.0, 20.0)
        x, z = e0 * nodes, complex(t, y)
        base = {
            "laplace": np.exp((x - e0) / 2) / 4,
            "range": np.exp((x + e0) / 2) / (2 * math.expm1(e0)),
        }
        for kind, density in base.items():
            expected = complex((e0 * weights * density * np.exp(z * x)).sum())
            if kind == "laplace":
                expected += np.exp(z * e0) / 2 + np.exp(-(z + 1) * e0) / 2
            part = checker.ClosedPart({"kind": kind, "epsilon": str(Fraction(e0))}, "remove")
            order, height = (checker.number(str(Fraction(value))) for value in (t, y))
            value = part.moment(checker.acb(order, height), {})
            assert complex(float(value.real.mid()), float(value.imag.mid())) == pytest.approx(expected, rel=1e-9), (seed, kind)
            for higher in (1.0, 1.5, 4.0):
                further = part.moment(checker.acb(order, height * higher), {})
                assert abs(further) <= part.decay_bound(order, height, {}) * part.moment(order, {}) * (1 + checker.arb("1e-20")), (
                    seed,
                    kind,
                )


def test_a_sample_of_all_records_is_no_sample() -> None:
    part = '[[mechanism]]\nname = "{}"\ntype = "{}"\nepsilon = 0.5\n'
    group = (
        '[[mechanism]]\nname = "all"\ntype = "composed"\nmechanisms = ["a", "b"]\nsampling = { scheme = "poisson", rate = 1.0 }\n'
    )
    proof = prove(pipeline(part.format("a", "pure-dp") + part.format("b", "exponential") + group))
    assert [each["kind"] for each in proof.certificate["parts"]] == ["two-point", "range"]
    assert proof.epsilon == proof.headline


def test_a_replaced_record_on_a_sample_of_fixed_size() -> None:
    """The mirrored pair of what is pure is sharp, though no mechanism need attain it."""
    text = '[[mechanism]]\nname = "a"\ntype = "pure-dp"\nepsilon = 0.5\nsteps = 60\nsampling = { scheme = "fixed-size", rate = 0.05 }\n'
    proof = prove(pipeline(text, adjacency="replace-one"))
    assert (proof.epsilon, proof.lower) == (proof.headline, None)
    assert proof.certificate["parts"][0]["relation"] == "replace-one"
    changed = copy.deepcopy(proof.certificate)
    del changed["parts"][0]["relation"]
    with pytest.raises(checker.Unproved):
        checker.check(changed)
