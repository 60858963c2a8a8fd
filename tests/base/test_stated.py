"""Tests of exact decimals in every command: a sum that equals its cap passes, and under a slightly smaller cap it fails."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dpcli.base.errors import InputError
from dpcli.base.stated import difference, quotient, stated, total, upward
from dpcli.gate.caps import RiseLimits
from dpcli.train.tasks.files import held_out
from tests.cases import of_each, require_each
from tests.command import dpcli
from tests.inline import text_of

SEED = 20261127 if os.environ.get("CI") else None
Entry = dict[str, Any]


def decimal(random: Random, places: int = 3, most: int = 400) -> Fraction:
    return Fraction(random.randint(1, most), 10**places)


def written(exact: Fraction) -> float:
    assert Fraction(repr(float(exact))) == exact, f"{exact} is no short decimal"
    return float(exact)


def laplace(epsilon: Fraction, random: Random) -> Entry:
    """scale and sensitivity whose quotient is epsilon, which need not be a decimal."""
    scale = decimal(random, 1, 99)
    return {"type": "laplace", "scale": written(scale), "sensitivity": written(epsilon * scale)}


def thirds(epsilon: Fraction, random: Random) -> Entry:
    """Three times as many steps at a third of epsilon."""
    return {"type": "laplace", "scale": 3.0, "sensitivity": written(epsilon), "steps": 3}


PURE = {
    "pure-dp": lambda epsilon, random: {"type": "pure-dp", "epsilon": written(epsilon)},
    "exponential": lambda epsilon, random: {"type": "exponential", "epsilon": written(epsilon)},
    "laplace": laplace,
    "thirds": thirds,
    "discrete-laplace": lambda epsilon, random: {
        "type": "discrete-laplace",
        "scale": written(Fraction(10**6, 64)),
        "sensitivity": int(epsilon * 10**6 // 64) or 1,
    },
}


def pure_entries(random: Random) -> tuple[list[Entry], Fraction]:
    """A few entries, and what they cost together, in exact arithmetic."""
    entries, cap = [], Fraction(0)
    for number in range(random.randint(1, 4)):
        kind, steps, epsilon = random.choice(list(PURE)), random.randint(1, 12), decimal(random)
        entry = PURE[kind](epsilon, random)
        if kind == "discrete-laplace":
            epsilon = Fraction(entry["sensitivity"]) / Fraction(repr(entry["scale"]))
        steps *= 1 if kind != "thirds" else 3
        cap += steps * epsilon / (3 if kind == "thirds" else 1)
        entries.append({"name": f"m{number}", **entry, "steps": steps})
    return entries, cap


def rho_entries(random: Random) -> tuple[list[Entry], Fraction]:
    """Stated rho, and Gaussians whose rho is a decimal."""
    entries, cap = [], Fraction(0)
    for number in range(random.randint(1, 4)):
        steps = random.randint(1, 12)
        if random.random() < 0.5:
            rho = decimal(random)
            entry: Entry = {"type": "zcdp", "rho": written(rho)}
        else:
            rho = Fraction(random.choice([1, 2, 4, 5]), 10) ** 2 / 2
            entry = {"type": "gaussian", "sigma": 10.0, "sensitivity": float(10 * Fraction(math.isqrt(int(200 * rho)), 10))}
        cap += steps * rho
        entries.append({"name": f"m{number}", **entry, "steps": steps})
    return entries, cap


def approx_entries(random: Random) -> tuple[list[Entry], Fraction, Fraction]:
    """Stated (epsilon, delta)."""
    entries, cap, delta = [], Fraction(0), Fraction(0)
    for number in range(random.randint(1, 4)):
        steps, epsilon, own = random.randint(1, 12), decimal(random), Fraction(random.randint(1, 9), 10**10)
        entries.append(
            {"name": f"m{number}", "type": "approx-dp", "epsilon": written(epsilon), "delta": float(own), "steps": steps}
        )
        cap, delta = cap + steps * epsilon, delta + steps * own
    return entries, cap, delta


def file(entries: list[Entry], delta: float, **budget: float) -> bytes:
    privacy = {"unit": "example", "adjacency": "add-remove", "delta": delta, "releases": "outputs", "dataset_size": 60_000}
    capped = {"budget": budget} if budget else {}
    return text_of({"format": 1, "name": "f", "privacy": privacy, **capped, "mechanism": entries})


def less(cap: Fraction, share: float = 1e-9) -> float:
    """A cap that is smaller by this share of it, rounded down."""
    return float(cap) * (1.0 - share)


def cases(count: int) -> Iterator[tuple[str, list[Entry], dict[str, float], float]]:
    """(how it is capped, entries, caps that are met exactly, delta)."""
    random = Random(SEED)
    for _ in range(count):
        entries, cap = pure_entries(random)
        yield "epsilon", entries, {"epsilon": upward(cap)}, 0.0
        entries, cap = rho_entries(random)
        yield "rho", entries, {"rho": upward(cap)}, 1e-6
        entries, cap, delta = approx_entries(random)
        yield "epsilon", entries, {"epsilon": upward(cap)}, float(delta)


def told(case: tuple[str, list[Entry], dict[str, float], float]) -> str:
    return str(case)


def meets(tmp_path: Path, case: tuple[str, list[Entry], dict[str, float], float]) -> None:
    how, entries, caps, delta = case
    path = tmp_path / "f.toml"
    path.write_bytes(file(entries, delta, **caps))
    assert dpcli("gate", str(path)).code == 0
    shown = dpcli("account", str(path), "-f", "json").out
    assert '"verdict": "fail"' not in shown
    # The probability that one of several stated deltas fails is less than their sum, which leaves a little delta for the epsilons.
    share = 0.1 if how == "epsilon" and delta else 1e-9
    path.write_bytes(file(entries, delta, **{how: less(Fraction(caps[how]), share)}))
    assert dpcli("gate", str(path)).code == 1


def test_what_meets_a_cap_exactly_passes(tmp_path: Path) -> None:
    require_each(cases(1), lambda case: meets(tmp_path, case), told)


@pytest.mark.long
def test_what_meets_a_cap_exactly_passes_often(tmp_path: Path) -> None:
    require_each(cases(8), lambda case: meets(tmp_path, case), told)


def test_files_of_one_dataset_meet_a_cap_on_all_of_them(tmp_path: Path) -> None:
    random = Random(SEED)
    cap, paths = Fraction(0), []
    for number in range(3):
        entries, own = pure_entries(random)
        cap += own
        paths.append(str(tmp_path / f"{number}.toml"))
        Path(paths[-1]).write_bytes(
            file(entries, 0.0, epsilon=1e4).replace(b'unit = "example"', b'unit = "example", dataset = "clicks"')
        )
    policy = tmp_path / "policy.toml"
    for epsilon, code in ((upward(cap), 0), (less(cap), 1)):
        policy.write_text(f'format = 1\n[[together]]\ndatasets = ["clicks"]\nepsilon = {epsilon!r}\ndelta = 0.0\n')
        assert dpcli("gate", *paths, "--policy", str(policy), folder=tmp_path).code == code, (epsilon, paths)


def test_as_many_steps_as_meet_a_target_exactly(tmp_path: Path) -> None:
    random = Random(SEED)
    for kind in ("pure-dp", "exponential", "laplace", "thirds"):
        epsilon, steps = decimal(random), random.randint(2, 30)
        entry = PURE[kind](epsilon, random)
        steps *= entry.pop("steps", 1)
        (tmp_path / "f.toml").write_bytes(file([{"name": "m", **entry, "steps": 1}], 0.0))
        cap = upward(steps * epsilon / (3 if kind == "thirds" else 1))
        result = dpcli("calibrate", str(tmp_path / "f.toml"), "--solve", "steps", "--target-epsilon", repr(cap), "-f", "text")
        assert result.out.startswith(f"steps = {steps} "), (kind, entry, cap, result)


def test_queries_spend_a_budget_to_the_last_decimal(tmp_path: Path) -> None:
    random = Random(SEED)
    (tmp_path / "data.csv").write_text("person,x\n" + "".join(f"p{n},{n % 7}\n" for n in range(50)))
    parts = [decimal(random) for _ in range(4)]
    query = {"measure": "count", "max_rows": 1}
    document = {
        "format": 1,
        "name": "f",
        "privacy": {"unit": "person", "adjacency": "add-remove", "max_contributions": 1, "delta": 0.0, "releases": "outputs"},
        "budget": {"epsilon": written(sum(parts, Fraction(0)))},
        "source": {
            "path": "data.csv",
            "unit": "person",
            "columns": {"person": {"type": "text"}, "x": {"type": "integer", "min": 0, "max": 6}},
        },
        "query": [{"name": f"q{number}", **query, "epsilon": written(part)} for number, part in enumerate(parts)],
    }
    for epsilon, code in ((document["budget"]["epsilon"], 0), (less(sum(parts, Fraction(0))), 1)):
        document["budget"]["epsilon"] = epsilon
        (tmp_path / "f.toml").write_bytes(text_of(document))
        assert dpcli("release", "--dry-run", "f.toml", folder=tmp_path).code == code, document


def test_a_ledger_is_spent_to_the_last_decimal(tmp_path: Path) -> None:
    random = Random(SEED)
    parts = [decimal(random) for _ in range(5)]
    whole, terms = sum(parts, Fraction(0)), ("--unit", "example", "--adjacency", "add-remove", "--delta", "0.0")
    ledger = str(tmp_path / "ledger")
    assert (
        dpcli("budget", "init", ledger, "--dataset", "d", *terms, "--epsilon", repr(written(whole)), "--filter", "approx-dp").code
        == 0
    )
    spent = Fraction(0)
    for number, part in enumerate(parts):
        (tmp_path / "f.toml").write_bytes(file([{"name": "m", "type": "pure-dp", "epsilon": written(part)}], 0.0))
        assert dpcli("budget", "spend", ledger, str(tmp_path / "f.toml"), "--key", f"k{number}").code == 0
        spent += part
        left = math.floor((1 - spent / whole) * 1000) / 10  # in percent
        shown = dpcli("budget", "show", ledger).out
        assert f"; {left} % of the approx-dp cap is left" in shown or not left, (left, shown)
    assert dpcli("budget", "spend", ledger, str(tmp_path / "f.toml"), "--key", "more").code == 1


def test_a_rise_meets_its_limit_exactly(tmp_path: Path) -> None:
    """A rise of exactly the limit passes the gate; a rise that is larger by 1e-6 does not."""
    random = Random(SEED)
    for _ in range(5):
        before, rise, name = decimal(random), decimal(random), str(tmp_path / "f.toml")
        for epsilon, code in ((before, 0), (before + rise, 0), (before + rise + Fraction(1, 10**6), 1)):
            Path(name).write_bytes(file([{"name": "m", "type": "pure-dp", "epsilon": written(epsilon)}], 0.0, epsilon=1e4))
            limit = (
                () if epsilon == before else ("--baseline", str(tmp_path / "before.json"), "--max-increase", repr(written(rise)))
            )
            result = dpcli("gate", name, *limit, "-f", "json")
            assert result.code == code, (before, rise, epsilon, result)
            if epsilon == before:
                (tmp_path / "before.json").write_text(result.out)


def test_a_rise_meets_its_percentage_exactly() -> None:
    random = Random(SEED)
    for _ in range(200):
        before, percent = decimal(random), decimal(random, 1)
        limits = RiseLimits("max_increase", None, written(percent))
        for more, passed in ((Fraction(0), False), (Fraction(1, 10**9), True)):
            now = written(before * (1 + percent / 100) + more)
            assert limits.is_exceeded_by(difference(now, written(before)), written(before)) == passed, (before, percent)


def test_a_float_stands_for_the_number_nearest_to_it() -> None:
    """`upward` returns the smallest float that stands for at least the number."""
    random = Random(SEED)
    for _ in range(2000):
        exact = random.choice(
            [
                Fraction(random.randint(1, 10**12), 10 ** random.randint(0, 20)),
                Fraction(random.randint(1, 10**6), random.randint(1, 10**6)),
                Fraction(random.random()),
                Fraction(random.lognormvariate(0.0, 100.0)),
            ]
        )
        near = float(exact)
        assert float(stated(near)) == near
        bound = upward(exact)
        assert stated(bound) >= exact > stated(math.nextafter(bound, 0.0))
        assert math.nextafter(near, 0.0) < bound <= math.nextafter(near, math.inf)


def test_sums_at_the_ends_of_what_a_float_holds() -> None:
    assert total([(3, 0.1)]) == 0.3
    assert total([(3, quotient(1.0, 3.0))]) == 1.0
    assert total([(10, 1e308)]) == math.inf
    assert total([(1, math.inf), (0, 1.0)]) == math.inf
    assert total([(0, math.inf)]) == 0.0
    assert total([(1, 5e-324)]) == 5e-324
    assert quotient(1.0, 5e-324) == math.inf
    assert quotient(5e-324, 1e300) == 5e-324
    assert difference(-1.7e308, 1.7e308) == -sys.float_info.max  # -inf would be rounded down


@of_each("share, public", [(0.5, 60), (0.4, 40), (0.3333, 40), (0.3, 30), (0.2, 24), (0.01, 2), (1e-9, 1)])
def test_no_more_than_the_stated_share_is_public(share: float, public: int) -> None:
    """For a share of 0.4, an earlier version declared every second record public."""
    assert held_out(120, share, None, "f.toml").sum() == public


@of_each("share", [0.51, 0.6, 0.99, 1.0])
def test_a_share_above_one_half_is_refused(share: float) -> None:
    with pytest.raises(InputError, match=rf"train\.held_out: expected at most half of the records, found {share:g}"):
        held_out(120, share, None, "f.toml")
